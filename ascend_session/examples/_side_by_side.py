"""Two ways to the same result: a script as it usually is, and the same with this package."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict

from ascend_session import AscendError

# Takes an empty folder to write into; returns numbers by name, on some ranks none.
Way = Callable[[Path], Dict[str, float]]


def hand_made_proto(graph_run_mode: int = 1) -> Any:
    """The ``tf.ConfigProto`` that scripts for Ascend make line by line.

    Nobody checks the lines: a mistyped key is not read, and a value in the wrong field (``.s``,
    ``.i``, ``.b``) reads as zero. They have an effect in a script that imports ``npu_bridge``,
    which also has to run ``initialize_system`` before everything and, whatever happens,
    ``shutdown_system`` behind it. Without that the entry is ignored and TensorFlow computes on the
    CPU, which is how the examples run it, on every machine
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
    """Run both ways, each in a temporary folder of its own, and print the results.

    Args:
        without: The usual way. It knows no ranks: in a job each process does the whole work alone.
        with_ascend_session: The same with this package. In a job its ranks share the work.
    """
    # Read when TensorFlow is imported: say errors only, and use no operators but its own.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    from ascend_session.backends._tensorflow import tf1

    try:
        tf = tf1()  # an error says what to install if TensorFlow is missing
        tf.disable_eager_execution()
        tf.logging.set_verbosity(tf.logging.ERROR)
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            usual = without(Path(one))
            ours = with_ascend_session(Path(other))
    except AscendError as problem:
        sys.exit(str(problem))
    if not ours:
        return
    print(f"{'':<12} without  with ascend_session")
    for name, number in ours.items():
        print(f"{name:<10} {usual[name]:9.5f} {number:9.5f}")
    print(f"Largest difference: {difference(usual, ours):.1e}")


def difference(usual: Dict[str, float], ours: Dict[str, float]) -> float:
    """The largest difference between numbers of one name, of those that ``ours`` has."""
    return max(abs(usual[name] - number) for name, number in ours.items())
