"""The small graphs that are computed on the device, and what numpy makes of the same numbers.

All inputs are fed: what depends on constants alone is folded on the host and offloads nothing.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np

__all__ = ["ACCUMULATIONS", "CASES", "HALF_WAY", "Case", "list_offloaded", "product", "train"]


class Case(NamedTuple):
    """One computation.

    Attributes:
        inputs: What is fed.
        build: Makes the graph of TensorFlow and the placeholders.
        expected: The result in numpy, of the inputs in double precision.
    """

    inputs: Tuple[Any, ...]
    build: Callable[..., Any]
    expected: Callable[..., Any]

    def in_graph(self, tf: Any) -> Tuple[Any, Dict[Any, Any]]:
        """Adds it to the default graph: the tensor to fetch, and what to feed."""
        placeholders = [tf.placeholder(value.dtype, value.shape) for value in self.inputs]
        return self.build(tf, *placeholders), dict(zip(placeholders, self.inputs))

    def in_numpy(self) -> Any:
        """The result to be expected."""
        return self.expected(*(value.astype(np.float64) for value in self.inputs))


def product(tf: Any, factor: float = 1.0) -> Tuple[Any, Dict[Any, Any], Any]:
    """A matrix product of small whole numbers, exact in half precision.

    Returns:
        The tensor to fetch, what to feed, and the result.
    """
    whole = (np.arange(256).reshape(16, 16) % 3).astype(np.float32)
    x = tf.placeholder(tf.float32, whole.shape)
    return tf.matmul(x, x * factor), {x: whole}, whole @ whole * factor


def list_offloaded(tf: Any, sess: Any, fetch: Any, feed: Dict[Any, Any]) -> List[str]:
    """Run a graph, and list the operators that stand for what was given to the device."""
    options = tf.RunOptions(output_partition_graphs=True)
    metadata = tf.RunMetadata()
    sess.run(fetch, feed, options=options, run_metadata=metadata)
    assert metadata.partition_graphs, "TensorFlow did not say what it executed"
    executed = [node for graph in metadata.partition_graphs for node in graph.node]
    return [node.name for node in executed if node.op == "GeOp"]


def _numbers(seed: int, *shape: int) -> Any:
    """Positive, so that nothing cancels out and a relative tolerance means something."""
    return np.random.RandomState(seed).uniform(0.5, 1.5, shape).astype(np.float32)


def _of_all_sizes(seed: int, *shape: int) -> Any:
    """Of both signs and of magnitudes from 0.03 to 30, so that the order of adding shows."""
    random = np.random.RandomState(seed)
    signs = random.choice([-1.0, 1.0], shape)
    return (signs * 10 ** random.uniform(-1.5, 1.5, shape)).astype(np.float32)


def _convolution(image: Any, kernel: Any) -> Any:
    height, width = (image.shape[n] - kernel.shape[n - 1] + 1 for n in (1, 2))
    result = np.zeros((image.shape[0], height, width, kernel.shape[3]))
    for row in range(kernel.shape[0]):
        for column in range(kernel.shape[1]):
            part = image[:, row : row + height, column : column + width]
            result += part @ kernel[row, column]
    return result


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _normalised_in_graph(tf: Any, x: Any) -> Any:
    mean = tf.reduce_mean(x, 1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), 1, keepdims=True)
    return (x - mean) * tf.rsqrt(variance + 1e-3)


def _normalised(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3)


def _filter_gradient(image: Any, gradient: Any) -> Any:
    height, width = gradient.shape[1:3]
    parts = [
        np.einsum("nhwc,nhwd->cd", image[:, row : row + height, column : column + width], gradient)
        for row in range(_KERNEL)
        for column in range(_KERNEL)
    ]
    return np.stack(parts).reshape(_KERNEL, _KERNEL, image.shape[3], gradient.shape[3])


# Half the distance between two numbers of half precision above 1, which has 10 bits there.
HALF_WAY = 2.0**-11
_KERNEL = 3
_SEGMENTS = 8

CASES = {
    "matmul": Case(
        (_numbers(1, 32, 64), _numbers(2, 64, 16)),
        lambda tf, x, y: tf.matmul(x, y),
        lambda x, y: x @ y,
    ),
    "convolution": Case(
        (_numbers(3, 2, 16, 16, 16), _numbers(4, 3, 3, 16, 16)),
        lambda tf, x, kernel: tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="VALID"),
        _convolution,
    ),
    # Each number lies half way between two of half precision, and is one of single precision and of
    # HF32, which has 11 bits. Nothing is added to it, so that nothing but its rounding shows.
    "rounding": Case(
        (
            1 + HALF_WAY * (2 * np.arange(256).reshape(16, 16) + 1).astype(np.float32),
            np.eye(16, dtype=np.float32),
        ),
        lambda tf, x, one: tf.matmul(x, one),
        lambda x, one: x @ one,
    ),
    "softmax": Case((_numbers(5, 16, 64),), lambda tf, x: tf.nn.softmax(x), _softmax),
    "normalisation": Case((_numbers(6, 16, 64),), _normalised_in_graph, _normalised),
}

# What may be added in any order, unless the option deterministic is on; the vendor's manual names
# both operators, Conv2DBackpropFilter and UnsortedSegmentSum, among those that the option concerns
# (CANN 8.0.RC3, operator specifications, operatorlist_0093).
ACCUMULATIONS = {
    "filter gradient": Case(
        (_of_all_sizes(10, 8, 34, 34, 16), _of_all_sizes(11, 8, 32, 32, 16)),
        lambda tf, image, gradient: tf.nn.conv2d_backprop_filter(
            image, [_KERNEL, _KERNEL, 16, 16], gradient, strides=[1, 1, 1, 1], padding="VALID"
        ),
        _filter_gradient,
    ),
    "segment sum": Case(
        (_of_all_sizes(12, 1 << 16), np.arange(1 << 16, dtype=np.int32) % _SEGMENTS),
        lambda tf, values, segments: tf.math.unsorted_segment_sum(values, segments, _SEGMENTS),
        lambda values, segments: np.bincount(segments.astype(int), values, _SEGMENTS),
    ),
}


def train(tf: Any, session: Callable[[Any], Any], steps: int = 10) -> List[float]:
    """Trains a small dense net.

    Args:
        tf: TensorFlow.
        session: Makes the session, a context manager, for a graph.
        steps: How many steps.

    Returns:
        The loss before each step.
    """
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [64, 16])
        first = tf.Variable(_numbers(7, 16, 32) - 1)
        second = tf.Variable(_numbers(8, 32, 1) - 1)
        predicted = tf.matmul(tf.tanh(tf.matmul(x, first)), second)
        loss = tf.reduce_mean(tf.square(predicted - tf.reduce_sum(x, 1, keepdims=True)))
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        start = tf.global_variables_initializer()
    with session(graph) as sess:
        sess.run(start)
        feed = {x: _numbers(9, 64, 16) - 1}
        return [float(sess.run([loss, step], feed)[0]) for _ in range(steps)]
