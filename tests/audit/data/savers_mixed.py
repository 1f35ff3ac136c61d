import tensorflow as tf
from npu_bridge.npu_init import *

config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["mix_compile_mode"].b = True
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
tf.train.MonitoredTrainingSession(config=config, checkpoint_dir="checkpoints")
