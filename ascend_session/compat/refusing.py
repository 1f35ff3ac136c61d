"""What only a device can do: refused by the vendor's full name, when it is used, never before.

The stub never pretends: an operator whose mathematics is not public, or that is about the device
itself, has no result here.
"""

import functools
import inspect
from typing import Any, Callable, Optional, TypeVar

from ascend_session.errors import UnsupportedError

__all__ = ["DEVICE_ONLY", "device_only", "device_only_class", "refuse", "refused", "vendor_name"]

DEVICE_ONLY = "it is a kernel of the device, and its mathematics is not public"
"""The usual reason."""

_ROOM = "ascend_session.compat."
_HINT = "Run this part of the script on a machine with an Ascend processor, or leave it out here."

_Function = TypeVar("_Function", bound=Callable[..., Any])


def refuse(name: str, why: str = DEVICE_ONLY, hint: Optional[str] = None) -> UnsupportedError:
    """The error for something that has no meaning on the CPU; to be raised.

    Args:
        name: The vendor's full name, ``npu_bridge.estimator.npu_ops.outfeed_enqueue_op``.
        why: Why, as a clause: "it ...".
        hint: What to do instead of going to a device.
    """
    return UnsupportedError(
        f"{name} was used, but there is no Ascend processor here: {why}.", hint=hint or _HINT
    )


def device_only(name: str, why: str = DEVICE_ONLY) -> Callable[..., Any]:
    """A function that raises UnsupportedError, whatever it is called with.

    Args:
        name: As of `refuse`.
        why: As of `refuse`.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        raise refuse(name, why)

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Raises UnsupportedError: {why}."
    return function


def device_only_class(name: str, why: str = DEVICE_ONLY) -> Any:
    """A class whose making raises UnsupportedError; it can be imported and derived from."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        raise refuse(name, why)

    members = {"__init__": __init__, "__doc__": f"Raises UnsupportedError: {why}."}
    return type(name.rpartition(".")[2], (), members)


def refused(
    why: str = DEVICE_ONLY, module: Optional[str] = None
) -> Callable[[_Function], _Function]:
    """Decorates a function that has the vendor's signature and nothing to do.

    A call that does not fit the signature is a TypeError, as the vendor's; every other raises
    UnsupportedError by the vendor's name of the function.

    Args:
        why: As of `refuse`.
        module: The vendor's, if the function stands in another one here.
    """

    def decorated(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = function.__qualname__.replace(".__init__", "")
        name = f"{module or vendor_name(function.__module__)}.{own}"

        @functools.wraps(function)
        def refusing(*args: Any, **kwargs: Any) -> Any:
            signature.bind(*args, **kwargs)
            raise refuse(name, why)

        return refusing  # type: ignore[return-value]

    return decorated


def vendor_name(module: str) -> str:
    """What the vendor calls a module of this room."""
    return module[len(_ROOM) :] if module.startswith(_ROOM) else module
