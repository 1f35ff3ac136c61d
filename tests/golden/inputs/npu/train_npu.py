from npu_bridge.npu_init import *
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["use_off_line"].b = True
op.parameter_map["precision_mode"].s = b"allow_mix_precision"
op.parameter_map["precison_mode_v2"].s = b"mixed_float16"
config.graph_options.rewrite_options.remapping = 2
config.graph_options.rewrite_options.memory_optimization = 2
with tf.Session(config=config) as sess:
    print(sess.run(tf.constant(3.0) * 2.0))
