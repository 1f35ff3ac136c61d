"""What the small examples share: a plane is fitted to points, in the usual way and in this one."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

from ascend_session import AscendError

# Takes an empty folder to write into; returns numbers by name, or none on some ranks.
Way = Callable[[Path], Dict[str, float]]

SLOPES = (2.0, -3.0, 0.5)  # of the plane, which the points have with noise
POINTS = 480
BATCH = 48  # points in one step of all ranks together
EPOCHS = 4
STEPS = EPOCHS * POINTS // BATCH
RATE = 0.1


def points(rank: int = 0, size: int = 1) -> Tuple[Any, Any]:
    """Return the points of a rank: float32 arrays of [n, 3] inputs and [n, 1] goals."""
    import numpy

    random = numpy.random.RandomState(20)
    inputs, noise = random.standard_normal([POINTS, 3]), random.standard_normal([POINTS, 1])
    goals = inputs.dot(numpy.array([SLOPES]).T) + noise
    return inputs[rank::size].astype("float32"), goals[rank::size].astype("float32")


def share_of_batch(size: int) -> int:
    """Return the number of points for one rank in a step, in which all ranks have `BATCH`."""
    if BATCH % size:
        raise SystemExit(f"This example divides {BATCH} points among the ranks, not among {size}.")
    return BATCH // size


def batches(rank: int = 0, size: int = 1) -> Any:
    """Return an endless ``tf.data.Dataset`` of a rank's inputs and goals.

    All batches have one size, because the device compiles the graph for each size.
    """
    import tensorflow.compat.v1 as tf

    dataset = tf.data.Dataset.from_tensor_slices(points(rank, size)).repeat()
    return dataset.batch(share_of_batch(size), drop_remainder=True)


def build_loss(inputs: Any, goals: Any) -> Any:
    """Build the model ``inputs @ slopes``, and return its mean squared error, a scalar.

    Args:
        inputs: ``[batch, len(SLOPES)]``.
        goals: ``[batch, 1]``.
    """
    import tensorflow.compat.v1 as tf

    slopes = tf.get_variable("slopes", [len(SLOPES), 1], initializer=tf.zeros_initializer())
    return tf.reduce_mean(tf.squared_difference(tf.matmul(inputs, slopes), goals))


def load_slopes(folder: Path) -> Dict[str, float]:
    """Return the slopes in the latest checkpoint; none if another rank wrote it."""
    import tensorflow.compat.v1 as tf

    if tf.train.latest_checkpoint(str(folder)) is None:
        return {}
    return name_slopes(tf.train.load_variable(str(folder), "slopes"))


def name_slopes(slopes: Any) -> Dict[str, float]:
    """Return the slopes in an array of shape [3, 1], by name."""
    return {f"slope {number}": float(slope) for number, slope in enumerate(slopes.ravel())}


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
