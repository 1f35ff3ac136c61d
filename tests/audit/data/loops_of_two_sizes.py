import tensorflow as tf
from npu_bridge.npu_init import *


def session(loops):
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    op.parameter_map["enable_data_pre_proc"].b = True  # expect: deprecated-option
    op.parameter_map["iterations_per_loop"].i = 10 if loops else 1
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return tf.Session(config=config)


with session(True) as sess:
    step = util.set_iteration_per_loop(sess, tf.no_op(), 20)
    sess.run(step)
    hook = tf.train.StopAtStepHook(last_step=100)
    other = tf.train.StopAtStepHook(last_step=110)  # expect: loop-remainder
