import tensorflow as tf
from npu_bridge.npu_init import *

# Only NPUEstimator adds an entry to the session_config of its NPURunConfig.
session_config = tf.ConfigProto()
op = session_config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["hcom_parallel"].b = True
session_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
session_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
run_config = NPURunConfig(session_config=session_config, save_checkpoints_steps=5000)
estimator = tf.estimator.Estimator(model_fn, config=run_config)
estimator.train(input_fn, hooks=npu_hooks_append())
