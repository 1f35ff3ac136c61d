"""Two ways to the same result: a script as it usually is, and the same with this package.

What they train on is a plane to fit, small and the same in every run.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

from ascend_session import AscendError

SLOPES = (2.0, -3.0, 0.5)  # what is to be found, but for noise
POINTS = 480
BATCH = 48  # points in one step, of all ranks together
EPOCHS = 4
STEPS = EPOCHS * POINTS // BATCH
RATE = 0.1

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


def side_by_side(
    without: Way, with_ascend_session: Way, require: Optional[Callable[[], None]] = None
) -> None:
    """Run both ways, each in a temporary folder of its own, and print the results.

    Args:
        without: The usual way. It knows no ranks: in a job each process does the whole work alone.
        with_ascend_session: The same with this package. In a job its ranks share the work.
        require: Ends the program if TensorFlow has no longer what both need.
    """
    # Read when TensorFlow is imported: say errors only, and use no operators but its own.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    from ascend_session.backends._tensorflow import tf1

    try:
        tf = tf1()  # an error says what to install if TensorFlow is missing
        tf.disable_eager_execution()
        tf.logging.set_verbosity(tf.logging.ERROR)
        if require is not None:
            require()
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            usual = without(Path(one))
            ours = with_ascend_session(Path(other))
    except AscendError as problem:
        sys.exit(str(problem))
    if ours:
        _print(usual, ours)


def difference(usual: Dict[str, float], ours: Dict[str, float]) -> float:
    """The largest difference between numbers of one name, of those that ``ours`` has."""
    return max(abs(usual[name] - number) for name, number in ours.items())


def _print(usual: Dict[str, float], ours: Dict[str, float]) -> None:
    print(f"{'':<12} without  with ascend_session")
    for name, number in ours.items():
        print(f"{name:<10} {usual[name]:9.5f} {number:9.5f}")
    print(f"Largest difference: {difference(usual, ours):.1e}")


def points(rank: int = 0, size: int = 1) -> Tuple[Any, Any]:
    """The points that a rank sees: float32 arrays of [n, 3] inputs and [n, 1] goals."""
    import numpy

    random = numpy.random.RandomState(20)
    inputs, noise = random.standard_normal([POINTS, 3]), random.standard_normal([POINTS, 1])
    goals = inputs.dot(numpy.array([SLOPES]).T) + noise
    return inputs[rank::size].astype("float32"), goals[rank::size].astype("float32")


def share_of_batch(size: int) -> int:
    """Return the number of points of a step for one rank; all ranks together take `BATCH`."""
    if BATCH % size:
        raise SystemExit(f"This example divides {BATCH} points among the ranks, not among {size}.")
    return BATCH // size


def batches(rank: int = 0, size: int = 1) -> Any:
    """A ``tf.data.Dataset`` without end of a rank's inputs and goals.

    All batches are of one size, for the device compiles a graph for each.
    """
    import tensorflow.compat.v1 as tf

    dataset = tf.data.Dataset.from_tensor_slices(points(rank, size)).repeat()
    return dataset.batch(share_of_batch(size), drop_remainder=True)


def build_loss(inputs: Any, goals: Any) -> Any:
    """Build the model, one variable ``slopes`` in a matrix product, and its squared error."""
    import tensorflow.compat.v1 as tf

    slopes = tf.get_variable("slopes", [len(SLOPES), 1], initializer=tf.zeros_initializer())
    return tf.reduce_mean(tf.squared_difference(tf.matmul(inputs, slopes), goals))


def load_slopes(folder: Path) -> Dict[str, float]:
    """The slopes in the latest checkpoint; none where another rank has written it."""
    import tensorflow.compat.v1 as tf

    if tf.train.latest_checkpoint(str(folder)) is None:
        return {}
    return name_slopes(tf.train.load_variable(str(folder), "slopes"))


def name_slopes(slopes: Any) -> Dict[str, float]:
    """The slopes of an array [3, 1], by name."""
    return {f"slope {number}": float(slope) for number, slope in enumerate(slopes.ravel())}
