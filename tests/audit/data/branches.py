import tensorflow as tf
from npu_bridge.npu_init import *


def build(args):
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    if args.dump:
        op.parameter_map["enable_dump"].b = True
        op.parameter_map["dump_path"].s = tf.compat.as_bytes(args.path)
    if args.overflow:
        op.parameter_map["enable_dump_debug"].b = True  # expect: option-conflict?
        op.parameter_map["dump_path"].s = tf.compat.as_bytes(args.path)
    if args.mixed:
        op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
    else:
        op.parameter_map["precision_mode_v2"].s = tf.compat.as_bytes("origin")
    if args.loops:
        op.parameter_map["mix_compile_mode"].b = True
        op.parameter_map["iterations_per_loop"].i = 10  # expect: option-conflict? option-without-effect
    return tf.Session(config=config)


def either(flag):
    config = tf.ConfigProto()
    if flag:
        op = config.graph_options.rewrite_options.custom_optimizers.add()
        op.name = "NpuOptimizer"
        config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
        return tf.Session(config=config)
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on
    op.name = "NpuOptimizer"
    return tf.Session(config=config)


def twice(flag):
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    if flag:
        op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: two-entries
        op.name = "NpuOptimizer"
    return tf.Session(config=config)
