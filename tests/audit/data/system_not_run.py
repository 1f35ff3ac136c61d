from npu_bridge.estimator import npu_ops

npu_int = npu_ops.initialize_system()  # expect: initialize-not-run
npu_shutdown = npu_ops.shutdown_system()
