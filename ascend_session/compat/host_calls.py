"""Host calls of NPUEstimatorSpec: a function that makes summaries of a step's tensors.

On a device the tensors are sent to the host, where a thread runs what the function has made. Here
that is part of the step itself. Source: npu_estimator.py, ``_OutfeedHostCall``.
"""

from typing import Any, Dict, List

from tensorflow.python.util import function_utils, tf_inspect

from ascend_session.compat.tensorflow_names import tf

__all__ = ["host_call_operations", "validate"]


def validate(host_calls: Dict[str, Any]) -> None:
    """Checks pairs of a function and its tensors, as the vendor's.

    Raises:
        ValueError: If it is no pair, or its second part is neither list nor dict.
        TypeError: If its first part cannot be called.
        RuntimeError: If the function takes another number of tensors.
    """
    for name, call in host_calls.items():
        if not isinstance(call, (tuple, list)):
            raise ValueError(f"{name} should be tuple or list")
        if len(call) != 2:
            raise ValueError(f"{name} should have two elements.")
        if not callable(call[0]):
            raise TypeError(f"{name}[0] should be callable.")
        if not isinstance(call[1], (tuple, list, dict)):
            raise ValueError(f"{name}[1] should be tuple or list, or dict.")
        if isinstance(call[1], dict):
            continue
        takes_any = tf_inspect.getfullargspec(call[0]).varargs is not None
        count = len(function_utils.fn_args(call[0]))
        if not takes_any and count != len(call[1]):
            raise RuntimeError(
                f"In NPUEstimatorSpec.{name}, length of tensors {len(call[1])} does not match "
                f"method args of the function, which takes {count}."
            )


def host_call_operations(host_call: Any, after: List[Any]) -> List[Any]:
    """Calls the function with the step's tensors.

    Args:
        host_call: The function, and its tensors in a list or dict.
        after: What the tensors wait for.

    Returns:
        The operations and tensors that it gives.
    """
    function, tensors = host_call
    names = list(tensors) if isinstance(tensors, dict) else None
    given = list(tensors) if names is None else list(tensors.values())
    with tf.control_dependencies(after):
        copies = [tf.identity(one) for one in given]
    # What the function makes besides, a writer's initialiser for one, must not wait for a step.
    made = function(*copies) if names is None else function(**dict(zip(names, copies)))
    return [one for one in tf.nest.flatten(made) if one is not None]
