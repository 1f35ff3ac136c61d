import tensorflow as tf
from npu_bridge.npu_init import *

manager = FixedLossScaleManager(loss_scale=128)
optimizer = NPULossScaleOptimizer(tf.train.AdamOptimizer(), manager)  # expect: loss-scale-alone?
train_op = npu_tf_optimizer(optimizer).minimize(loss)
