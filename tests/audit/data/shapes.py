"""The shapes in which people write the same block."""

import tensorflow as tf
from npu_bridge.npu_init import *

OPTIONS = {"dump_mode": "all", "oo_lebel": "O1"}  # nobody follows the loop that sets them


def set_all(op, options):
    for key, value in options.items():
        op.parameter_map[key].s = tf.compat.as_bytes(value)


class Model(object):
    def __init__(self, flags):
        self.config = self.make_config()
        if flags.fast:
            self.op.parameter_map["hcom_paralel"].b = True  # expect: unknown-key
        self.sess = tf.Session(config=self.config)

    def make_config(self):
        config = tf.ConfigProto()
        self.op = config.graph_options.rewrite_options.custom_optimizers.add()
        self.op.name = "NpuOptimizer"
        set_all(self.op, OPTIONS)
        config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
        return config


def aliases():
    session_config = tf.compat.v1.ConfigProto()
    rewriter = session_config.graph_options.rewrite_options
    rewriter.memory_optimization = RewriterConfig.OFF
    options = rewriter.custom_optimizers.add(name="NpuOptimizer").parameter_map
    options["graph_run_mod"].i = 0  # expect: unknown-key
    setattr(options["hcom_parallel"], "i", 1)  # expect: wrong-field
    return tf.compat.v1.Session(config=session_config)


def of_others(custom_op):
    custom_op.parameter_map["precision_mode"].b = True  # expect: wrong-field
    return custom_op


def whole(rewrite=None):
    options = tf.GraphOptions(
        rewrite_options=RewriterConfig(memory_optimization=RewriterConfig.OFF)
    )
    config = tf.ConfigProto(graph_options=options)
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    return tf.Session(config=config)


def in_a_class():
    class Inner:
        config = tf.ConfigProto()
        op = config.graph_options.rewrite_options.custom_optimizers.add()
        op.name = "NpuOptimizer"
        config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF

        def open(self):
            return tf.Session(config=self.config)

    return Inner


def of_several(count):
    for number in range(count):
        config = tf.ConfigProto()
        op = config.graph_options.rewrite_options.custom_optimizers.add()
        op.name = "NpuOptimizer"
        op.parameter_map["session_device_id"].i = number
        config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
        yield tf.Session(config=config)
