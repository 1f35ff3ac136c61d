import tensorflow as tf
from npu_bridge.npu_init import *


def frozen(path):
    graph_def = tf.GraphDef()
    graph_def.ParseFromString(open(path, "rb").read())
    tf.import_graph_def(graph_def, name="")
    config = tf.ConfigProto()
    op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: inference-as-training?
    op.name = "NpuOptimizer"
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return tf.Session(config=config)


def right(config):
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    op.parameter_map["graph_run_mode"].i = 0
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return tf.Session(config=config)
