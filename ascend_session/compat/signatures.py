"""Functions whose signature is a line of text, as in `ascend_session.vendor`.

A signature of ninety arguments is data, not code; `help` and `inspect` show it all the same.
"""

import ast
import inspect
from typing import Any, Callable, Dict, Tuple

__all__ = ["signature_of", "takes"]


def signature_of(text: str) -> inspect.Signature:
    """The signature that ``(x, keep_prob, noise_shape=None)`` says; defaults are literals."""
    function: Any = ast.parse(f"def function{text}: pass").body[0]
    arguments = function.args
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    missing = len(arguments.args) - len(arguments.defaults)
    defaults = [None] * missing + list(arguments.defaults)
    found = [_parameter(one, default, kind) for one, default in zip(arguments.args, defaults)]
    if arguments.vararg is not None:
        found.append(_parameter(arguments.vararg, None, inspect.Parameter.VAR_POSITIONAL))
    kind = inspect.Parameter.KEYWORD_ONLY
    found += [
        _parameter(one, default, kind)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults)
    ]
    if arguments.kwarg is not None:
        found.append(_parameter(arguments.kwarg, None, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(found)


def _parameter(argument: Any, default: Any, kind: Any) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
    return inspect.Parameter(argument.arg, kind, default=value)


def takes(text: str) -> Callable[[Callable[[Any, Dict[str, Any]], None]], Callable[..., None]]:
    """Makes an ``__init__`` that is given all its arguments as one dict, in their order.

    Args:
        text: The signature without ``self``.
    """
    signature = signature_of(text)

    def decorate(function: Callable[[Any, Dict[str, Any]], None]) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  (it is one)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            function(self, dict(given.arguments))

        me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        shown: Tuple[inspect.Parameter, ...] = (me, *signature.parameters.values())
        made: Any = __init__
        made.__signature__ = inspect.Signature(shown)
        made.__doc__ = function.__doc__
        return __init__

    return decorate
