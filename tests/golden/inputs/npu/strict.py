from npu_bridge.npu_init import *
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["precison_mode_v2"].s = b"mixed_float16"
config.graph_options.rewrite_options.remapping = 2
config.graph_options.rewrite_options.memory_optimization = 2
try:
    tf.Session(config=config)
except ValueError as error:
    print(type(error).__name__, error)
