import tensorflow as tf
from npu_bridge.npu_init import *


class Classifier:
    def npu_tf_optimizer(self, optimizer):  # a name of the vendor's, for one device
        return NPULossScaleOptimizer(optimizer, FixedLossScaleManager(loss_scale=128))

    def build(self, loss):
        return self.npu_tf_optimizer(tf.train.AdamOptimizer()).minimize(loss)
