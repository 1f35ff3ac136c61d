import tensorflow as tf
from npu_bridge.npu_init import *
from options import add_options


def open_session(loops):
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    if loops > 1:
        add_options(op, loops)
    return tf.Session(config=config)


with open_session(20) as sess:
    sess.run(util.set_iteration_per_loop(sess, tf.no_op(), 20))
