from npu_bridge.npu_init import *
import tensorflow as tf

config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["use_off_line"].b = True
op.parameter_map["precison_mode"].s = tf.compat.as_bytes("allow_mix_precision")
op.parameter_map["iterations_per_loop"].b = True
op.parameter_map["hcom_parallel"].b = True
op.parameter_map["min_group_size"].b = True
with tf.Session(config=config) as sess:
    sess.run(tf.no_op())
