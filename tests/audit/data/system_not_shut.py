import tensorflow as tf
from npu_bridge.estimator import npu_ops

npu_int = npu_ops.initialize_system()
npu_shutdown = npu_ops.shutdown_system()  # expect: no-shutdown
sess = tf.Session()
sess.run(npu_int)
