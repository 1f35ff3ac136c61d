import tensorflow as tf
from npu_bridge.npu_init import *

MODE: str
MODE: str = "allow_mix_precison"

config = tf.ConfigProto()
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(MODE)  # expect: value-not-allowed

with tf.Session(config=config) as sess:
    pass
