"""Signatures of the vendor's as text: one of ninety arguments is data, not code.

`help` and `inspect` show them all the same.
"""

import functools
import inspect
from typing import Any, Callable, Dict, Mapping, Sequence


def signature_of(text: str) -> inspect.Signature:
    """Parse a signature like ``(x, keep_prob, noise_shape=None)``; defaults are literals."""
    names: Dict[str, Any] = {}
    exec(f"def function{text}: pass", names)
    return inspect.signature(names["function"])


def bind_arguments(
    called: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Dict[str, Any]:
    """Return all arguments of a call by their names, in their order.

    Args:
        called: The name of what is called, for the error.
        signature: What it takes.
        args: What was given by position.
        kwargs: What was given by name.

    Raises:
        TypeError: If the arguments do not fit the signature; names ``called``.
    """
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{called}() {error}") from None
    given.apply_defaults()
    return dict(given.arguments)


def with_signature(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function a signature that is data; it gets all arguments by name.

    Args:
        text: The signature without ``self`` or ``cls``.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        first = next(iter(inspect.signature(function).parameters), "")
        is_method = first in ("self", "cls")
        signature = signature_of(f"({first}, {text[1:]}" if is_method else text)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            called = function.__name__
            if is_method:
                called = getattr(args[0], "__name__", type(args[0]).__name__)
            return function(**bind_arguments(called, signature, args, kwargs))

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def keep_arguments(text: str, public: Sequence[str] = ()) -> Any:
    """Make an ``__init__`` that keeps each argument behind an underscore.

    Args:
        text: The signature without ``self``.
        public: Arguments that are kept under their own names.
    """

    @with_signature(text)
    def __init__(self: Any, **given: Any) -> None:  # noqa: N807  (it is one)
        """Keep the arguments."""
        for name, value in given.items():
            setattr(self, name if name in public else f"_{name}", value)

    return __init__
