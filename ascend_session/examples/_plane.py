"""The training task of the small examples: fit a plane to points, the same in every run."""

from pathlib import Path
from typing import Any, Dict, Tuple

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
