"""The small graphs that are computed on the device, and what numpy makes of the same numbers.

All inputs are fed: what depends on constants alone is folded on the host and offloads nothing.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np

__all__ = ["CASES", "Case", "product", "train"]


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
        placeholders = [tf.placeholder(tf.float32, value.shape) for value in self.inputs]
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


def _numbers(seed: int, *shape: int) -> Any:
    """Positive, so that nothing cancels out and a relative tolerance means something."""
    return np.random.RandomState(seed).uniform(0.5, 1.5, shape).astype(np.float32)


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
    "softmax": Case((_numbers(5, 16, 64),), lambda tf, x: tf.nn.softmax(x), _softmax),
    "normalisation": Case((_numbers(6, 16, 64),), _normalised_in_graph, _normalised),
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
