"""Other files take the configuration from here."""

import tensorflow as tf
from npu_bridge.npu_init import *

config = tf.ConfigProto()  # expect: config-not-used?
op = config.graph_options.rewrite_options.custom_optimizers.add()  # expect: memory-optimization-on?
op.name = "NpuOptimizer"
