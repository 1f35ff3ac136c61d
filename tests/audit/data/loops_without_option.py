import tensorflow as tf
from npu_bridge.npu_init import *


def open_session():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return tf.Session(config=config)


with open_session() as sess:
    loop = util.set_iteration_per_loop(sess, tf.no_op(), 20)  # expect: loop-size
    one = util.set_iteration_per_loop(sess, tf.no_op(), 1)
    many = util.set_iteration_per_loop(sess, tf.no_op(), tf.app.flags.FLAGS.loop)
    sess.run([loop, one, many])
