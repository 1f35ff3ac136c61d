"""Of a name, a switch and a key that are written twice the last counts, if it is always reached."""

import sys

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

config = tf.ConfigProto()
rewriter = config.graph_options.rewrite_options
rewriter.remapping = RewriterConfig.ON
rewriter.remapping = RewriterConfig.OFF
rewriter.memory_optimization = RewriterConfig.OFF
entry = rewriter.custom_optimizers.add()
entry.name = "NPUOptimizer"
entry.name = "NpuOptimizer"
entry.parameter_map["precision_mode"].s = b"fast"
entry.parameter_map["precision_mode"].s = b"allow_mix_precision"
entry.parameter_map["deterministic"].s = b"1"
entry.parameter_map["deterministic"].i = 1
entry.parameter_map["hcom_parallel"].b = False
entry.parameter_map["hcom_parallel"].s = b"True"  # expect: wrong-field
entry.parameter_map["jit_compile"].s = b"maybe"  # expect: value-not-allowed
if len(sys.argv) > 1:
    entry.parameter_map["jit_compile"].s = b"false"
entry.parameter_map["work_path"].s = "work"  # expect: field-type
entry.parameter_map["work_path"].s = b""
entry.parameter_map["dump_path"].s = b""
with tf.Session(config=config) as session:
    session.run(tf.constant(1))
