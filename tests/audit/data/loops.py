import tensorflow as tf
from npu_bridge.npu_init import *

LOOP = 10
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["enable_data_pre_proc"].b = True  # expect: deprecated-option
op.parameter_map["iterations_per_loop"].i = LOOP
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF


def train(sess, step, flags):
    five = util.set_iteration_per_loop(sess, step, 5)  # expect: loop-size
    loop = util.IterationPerLoop()
    loop.load_iteration_per_loop_var(sess, iterations_per_loop=2 * 4)  # expect: loop-size
    hooks = [SetIterationsVarHook(100)]  # expect: loop-size
    # the same number, none, one that is not known, and one step a run
    ten = util.set_iteration_per_loop(sess, step, LOOP)
    ten = util.set_iteration_per_loop(sess, step, iterations_per_loop=10)
    ten = util.set_iteration_per_loop(sess, step, flags.loop)
    one = util.set_iteration_per_loop(sess, step, 1)
    sess.run([five, ten, one, hooks])


with tf.Session(config=config) as sess:
    train(sess, tf.no_op(), tf.app.flags.FLAGS)
