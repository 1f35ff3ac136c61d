"""Nothing in here is the adapter's."""

import tensorflow as tf
from torchtitan.config import ProfilingConfig


def tensorrt():
    rewriter = tf.RewriterConfig()
    optimizer = rewriter.custom_optimizers.add()
    optimizer.name = "TensorRTOptimizer"
    optimizer.parameter_map["precision_mode"].i = 1
    optimizer.parameter_map["minimum_segment_size"].i = 3
    return rewriter


def plain(parameter_map, client):
    client.parameter_map["Dataset_IDs"].value = parameter_map["Dataset_IDs"]
    return ProfilingConfig(enable_profiling=False, trace_freq=3)


class Robot:
    def initialize_system(self):
        self.run(1)

    def start(self, tpu):
        self.initialize_system()
        return tpu.initialize_system()


# NpuOptimizer, NPURunConfig and npu_ops are only spoken of.
