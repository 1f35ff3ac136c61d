import tensorflow as tf
from npu_bridge.estimator.npu import util
from npu_bridge.npu_init import *

manager = FixedLossScaleManager(loss_scale=1024)
optimizer = NPUDistributedOptimizer(tf.train.AdamOptimizer())
optimizer = NPULossScaleOptimizer(optimizer, manager)  # expect: loss-scale-alone?
train_op = optimizer.minimize(loss)
sess = tf.Session(config=npu_config_proto())
util.set_iteration_per_loop(sess, train_op, 10)  # expect: loop-not-run
in_loop = util.set_iteration_per_loop(sess, train_op, 10)  # expect: loop-not-run
train_op = util.set_iteration_per_loop(sess, train_op, 10)
sess.run(train_op)
