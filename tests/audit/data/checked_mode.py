"""A mode that is none ends the script, and needs no switch."""

import sys

import tensorflow as tf
from npu_bridge.npu_init import *
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

config = tf.ConfigProto()
entry = config.graph_options.rewrite_options.custom_optimizers.add()
entry.name = "NpuOptimizer"
if sys.argv[1] == "train":
    entry.parameter_map["graph_run_mode"].i = 1
elif sys.argv[1] == "eval":
    entry.parameter_map["graph_run_mode"].i = 0
else:
    raise ValueError(sys.argv[1])
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
with tf.Session(config=config) as sess:
    sess.run(tf.no_op())
