"""An entry that is there already is used; only where there is none, one is added."""

import tensorflow as tf
from npu_bridge.npu_init import *


def completed(session_config):
    custom_op = None
    for each in session_config.graph_options.rewrite_options.custom_optimizers:
        if each.name == "NpuOptimizer":
            custom_op = each
    if custom_op is None:
        custom_op = session_config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    session_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return session_config


config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on?
op.name = "NpuOptimizer"
sess = tf.Session(config=completed(config))
