"""What the operators of the adapter's library have in common, where TensorFlow computes them here.

An operator takes certain types of inputs and certain attributes, and refuses others as TensorFlow
does of its registered operators; it has a scope of its own in the graph.
"""

import functools
import inspect
import re
from types import ModuleType
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from ascend_session.backends.training_operators import check_input
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import bind_arguments, signature_of
from ascend_session.errors import UnsupportedError

SAME = ()
"""Of an input: the type of the first input."""

_NAME = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)


def operator(
    kind: str,
    signature: str = "",
    *,
    only: Optional[Mapping[str, Any]] = None,
    has_gradient: bool = True,
    **inputs: Sequence[str],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function compute an operator; it gets its inputs as tensors, and all by name.

    Args:
        kind: The operator's type, ``FastGelu``.
        signature: What the operator takes but for ``name``, as text; empty for what the function
            takes.
        only: Attributes of which the device's operator takes one value alone.
        has_gradient: Whether the vendor registers a gradient; else one is refused.
        inputs: The types that each input takes, in the order in which they are checked. A number
            or a list becomes what an input of one type takes.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        plain = signature_of(signature) if signature else inspect.signature(function)
        takes = plain.replace(parameters=[*plain.parameters.values(), _NAME])

        @functools.wraps(function)
        def compute(*args: Any, **kwargs: Any) -> Any:
            given = bind_arguments(function_name(kind), takes, args, kwargs)
            name = given.pop("name") or kind
            _check_attributes(kind, given, only or {})
            _convert_inputs(kind, given, inputs)
            with tf.name_scope(name):
                result = function(**given)
            return result if has_gradient else _without_gradient(kind, result)

        untyped: Any = compute  # mypy knows no other attributes of a function
        untyped.__signature__, untyped.operator_type = takes, kind
        untyped.__name__ = untyped.__qualname__ = function_name(kind)
        return compute

    return decorate


# Where the rule that TensorFlow goes by is not the usual one
_SPELLED = {"LARS": "lars", "NPUInit": "npu_init", "NPUShutdown": "npu_shutdown"}


def function_name(operator: str) -> str:
    """Return the name that TensorFlow gives an operator's function (python_op_gen_internal.cc).

    An underscore stands before each capital that follows a small letter or a digit, and before the
    last of several capitals if a small letter follows it.
    """
    words = re.sub(r"(?<=[^A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operator)
    return _SPELLED.get(operator, words.lower())


def operators_of(module: ModuleType) -> Dict[str, Callable[..., Any]]:
    """Return the operators that a module defines, by their types."""
    values = list(vars(module).values())
    return {each.operator_type: each for each in values if hasattr(each, "operator_type")}


def _check_attributes(kind: str, given: Mapping[str, Any], only: Mapping[str, Any]) -> None:
    """Refuse values of attributes that the device's operators do not take."""
    for name, value in only.items():
        if name in given and given[name] != value:
            raise UnsupportedError(
                f"{kind} takes no {name}={given[name]!r}, neither here nor on a device.",
                hint=f"Leave {name} at {value!r}.",
            )


def _convert_inputs(kind: str, given: Dict[str, Any], inputs: Mapping[str, Sequence[str]]) -> None:
    """Put tensors of the types that the operator takes in place of what was given."""
    first_types: Sequence[str] = SAME
    first_dtype = None
    for name, types in inputs.items():
        if types == SAME:
            given[name] = check_input(kind, name, given[name], first_types, first_dtype)
            continue
        only = tf.as_dtype(types[0]) if len(types) == 1 else None
        given[name] = check_input(kind, name, given[name], types, only)
        if first_dtype is None:
            first_types, first_dtype = types, given[name].dtype.base_dtype


def _without_gradient(kind: str, tensor: Any) -> Any:
    """Refuse a gradient through a tensor, as TensorFlow does for the vendor's own."""
    with tf.get_default_graph().gradient_override_map({"Identity": f"NoGradientOf{kind}"}):
        return tf.identity(tensor, name=kind)


def last_only(steps: Any) -> Any:
    """Let gradients flow through the last step of a tensor alone, as the vendor registers it."""
    return tf.concat([tf.stop_gradient(steps[:-1]), steps[-1:]], axis=0)


def graph_only(call: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function raise RuntimeError under eager execution, as the vendor's functions do.

    Args:
        call: The function as the error names it.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def check(*args: Any, **kwargs: Any) -> Any:
            if tf.executing_eagerly():
                raise RuntimeError(f"{call}() is not compatible with eager execution.")
            return function(*args, **kwargs)

        return check

    return decorate
