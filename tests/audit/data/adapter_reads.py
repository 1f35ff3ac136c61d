"""What the adapter ends a run for although the value is empty, or stands in another field.

Empty text for other options counts as not given.
"""

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

config = tf.ConfigProto()
rewriter = config.graph_options.rewrite_options
rewriter.remapping = RewriterConfig.OFF
rewriter.memory_optimization = RewriterConfig.OFF
entry = rewriter.custom_optimizers.add()
entry.name = "NpuOptimizer"
entry.parameter_map["buffer_optimize"].s = b""  # expect: value-not-allowed
entry.parameter_map["session_device_id"].i = -1  # expect: value-not-allowed
entry.parameter_map["local_device_list"].s = b"0;1"  # expect: value-not-allowed
entry.parameter_map["local_rank_id"].i = 0
entry.parameter_map["enable_dump"].b = True
entry.parameter_map["dump_path"].i = 0  # expect: wrong-field
entry.parameter_map["stream_max_parallel_num"].s = b""
with tf.Session(config=config) as session:
    session.run(tf.constant(1))
