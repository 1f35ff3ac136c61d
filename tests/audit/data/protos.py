import tensorflow as tf
from npu_bridge.estimator import npu_ops
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig


def left_on():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on remapping-on?
    op.name = "NpuOptimizer"
    return tf.Session(config=config)


def turned_on():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.remapping = RewriterConfig.ON  # expect: remapping-on
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.NO_MEM_OPT
    return tf.Session(config=config)


def word_of_the_other_enum():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.remapping = 1  # expect: remapping-on
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.ON  # NO_MEM_OPT there
    return tf.Session(config=config)


def of_the_caller(config):
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on? remapping-on?
    op.name = "NpuOptimizer"


def forgotten():
    config = tf.ConfigProto()  # expect: config-not-used
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    config.gpu_options.allow_growth = True
    config = npu_config_proto(config_proto=config)
    with tf.Session(config=npu_config_proto()) as sess:
        return sess


def misnamed():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NPUOptimizer"  # expect: wrong-optimizer-name
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return tf.Session(config=config)


def nameless():
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: wrong-optimizer-name
    op.parameter_map["use_off_line"].b = True
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return tf.Session(config=config)
