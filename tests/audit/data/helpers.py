"""Functions that return a configuration, and what becomes of it."""

import tensorflow as tf
from npu_bridge.npu_init import *


def forgotten():
    config = tf.ConfigProto()  # expect: config-not-used?
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on?
    op.name = "NpuOptimizer"
    return config


def with_its_entry():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on?
    op.name = "NpuOptimizer"
    return config, op


def in_a_dictionary():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on?
    op.name = "NpuOptimizer"
    return {"config": [config]}


class Trainer:
    def __init__(self):
        self.config = tf.ConfigProto()
        op = self.config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on?
        op.name = "NpuOptimizer"


def called():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on?
    op.name = "NpuOptimizer"
    return config


with tf.Session(config=called()) as sess:
    pass
