"""Configurations that npu_init completes, before or after the script adds its entry."""

import tensorflow as tf
from npu_bridge.npu_init import *


def entry_first():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on
    op.name = "NpuOptimizer"
    return tf.Session(config=npu_config_proto(config_proto=config))


def entry_second():
    config = npu_config_proto(config_proto=tf.ConfigProto())
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: two-entries
    op.name = "NpuOptimizer"
    return tf.Session(config=config)


def of_nothing():
    config = npu_config_proto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: two-entries
    op.name = "NpuOptimizer"
    return tf.Session(config=config)
