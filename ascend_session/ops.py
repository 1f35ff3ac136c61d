"""``gelu`` and ``dropout`` with the vendor's signatures, on the device and on the stub.

On a device each is one operator of the vendor's library, which is faster than several of
TensorFlow's. On the stub TensorFlow computes the same formula. Both add to the default graph; they
import TensorFlow when they are called. They raise

* LifecycleError under eager execution;
* TypeError for a tensor of a type that the operator does not take;
* BackendError if the chosen backend cannot run here.

Sources: npu_bridge/estimator/npu_ops.py, npu_unary_ops.py; ops/npu_ops.cc,
ops/aicore/npu_unary_ops.cc.
"""

from typing import Any, Callable, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import LifecycleError
from ascend_session.session.graphs import graph_backend

__all__ = ["dropout", "gelu"]


def gelu(features: Any, name: Optional[str] = None) -> Any:
    """Add ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`` to the graph, with its gradient.

    Args:
        features: bfloat16, float16, float32 or float64, of any shape.
        name: Name of the operator.

    Returns:
        A tensor of the same type and shape.
    """
    return _operator("gelu")(features, name=name)


def dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: Optional[int] = None,
    name: Optional[str] = None,
) -> Any:
    """Add ``x / keep_prob`` to the graph, with zeros in random places, and its gradient.

    Args:
        x: float16 or float32, of any shape.
        keep_prob: Probability to keep an element: a number above 0 and up to 1, or a scalar tensor
            of the type of x, through which no gradient flows.
        noise_shape: Shape of the random mask, broadcast to that of x; None means the shape of x.
        seed: With a seed, each run of a program has the same masks, but a device has others than
            TensorFlow.
        name: Name of the operator.

    Returns:
        A tensor of the same type and shape; x itself if ``keep_prob`` is 1.0.

    Raises:
        ValueError: If x is not of a floating point type, or ``keep_prob`` not above 0 and up to 1.
    """
    return _operator("dropout")(x, keep_prob, noise_shape=noise_shape, seed=seed, name=name)


def _operator(name: str) -> Callable[..., Any]:
    """Return the function of the backend for which the default graph is built."""
    if tf1().executing_eagerly():
        raise LifecycleError(
            f"ops.{name} adds an operator to a graph, but eager execution is on here.",
            hint="Call tf.disable_eager_execution() (tf.compat.v1 in TensorFlow 2) before "
            "building the model.",
        )
    function: Callable[..., Any] = getattr(graph_backend().training_operators, name)
    return function
