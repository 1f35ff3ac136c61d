"""Options whose values nobody knows: that they are written is enough for some rules."""

import os

import tensorflow as tf
from npu_bridge.npu_init import *


def build(args):
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    if args.profiling:
        op.parameter_map["profiling_mode"].b = False
        op.parameter_map["profiling_options"].s = tf.compat.as_bytes(args.options)  # expect: option-without-effect
    op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.mode)  # expect: option-conflict
    op.parameter_map["precision_mode_v2"].s = tf.compat.as_bytes(args.mode)
    op.parameter_map["auto_tune_mode"].s = tf.compat.as_bytes(os.getenv("TUNE"))  # expect: value-not-allowed variable-without-default
    return tf.Session(config=config)


def of_estimators(args):
    return NPURunConfig(precision_mode=args.mode, precision_mode_v2=args.mode)
