"""Compare a usual script with the same script written with this package."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict

from ascend_session import AscendError

# Takes an empty folder to write into; returns numbers by name, or none on some ranks.
Way = Callable[[Path], Dict[str, float]]


def hand_made_proto(graph_run_mode: int = 1) -> Any:
    """Return the ``tf.ConfigProto`` that scripts for Ascend make line by line.

    Nothing checks the lines: a mistyped key is ignored, and a value in the wrong field (``.s``,
    ``.i``, ``.b``) reads as zero. The entry has an effect only if the script imports
    ``npu_bridge``, runs ``initialize_system`` first and, whatever happens, ``shutdown_system``
    last. The examples do not, so that TensorFlow ignores the entry and computes on the CPU
    (guides/facts/adapter.md#graphs-that-stay-on-the-cpu).
    """
    import tensorflow.compat.v1 as tf
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    proto = tf.ConfigProto(allow_soft_placement=True)
    rewrite_options = proto.graph_options.rewrite_options
    rewrite_options.remapping = RewriterConfig.OFF
    rewrite_options.memory_optimization = RewriterConfig.OFF
    entry = rewrite_options.custom_optimizers.add()
    entry.name = "NpuOptimizer"
    entry.parameter_map["graph_run_mode"].i = graph_run_mode
    entry.parameter_map["precision_mode"].s = b"allow_mix_precision"
    return proto


def side_by_side(without: Way, with_ascend_session: Way) -> None:
    """Run both functions, each in its own temporary folder, and print their results.

    Args:
        without: The usual script. In a job each process does the whole work.
        with_ascend_session: The script with this package. In a job the ranks share the work.
    """
    # TensorFlow reads these at its import: print only errors, and use its own operators.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    from ascend_session.backends._tensorflow import tf1

    try:
        tf = tf1()  # an error says what to install if TensorFlow is missing
        tf.disable_eager_execution()
        tf.logging.set_verbosity(tf.logging.ERROR)
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            usual = without(Path(first))
            ours = with_ascend_session(Path(second))
    except AscendError as problem:
        sys.exit(str(problem))
    if not ours:
        return
    print(f"{'':<12} without  with ascend_session")
    for name, number in ours.items():
        print(f"{name:<10} {usual[name]:9.5f} {number:9.5f}")
    print(f"Largest difference: {difference(usual, ours):.1e}")


def difference(usual: Dict[str, float], ours: Dict[str, float]) -> float:
    """Return the largest difference between the numbers in ``ours`` and their like in ``usual``."""
    return max(abs(usual[name] - number) for name, number in ours.items())
