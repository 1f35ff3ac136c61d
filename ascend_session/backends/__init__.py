"""Backends: the registry, how one is chosen, and the reason for the choice."""

import importlib
from typing import TYPE_CHECKING, Mapping, NamedTuple, Tuple, Type

from ascend_session.errors import BackendError
from ascend_session.spelling import Message, option

if TYPE_CHECKING:
    from ascend_session.backends.base import Backend

BACKEND_VARIABLE = "ASCEND_SESSION_BACKEND"
STUB_DEVICES_VARIABLE = "ASCEND_SESSION_STUB_DEVICES"

# The class of each backend, in the order in which "auto" tries them.
_REGISTRY = {"npu": "npu:NpuBackend", "stub": "stub:StubBackend"}


class Choice(NamedTuple):
    """The chosen backend.

    Attributes:
        name: Its name.
        reason: Why it was chosen, in a few words.
        automatic: True if ``auto`` chose it.
    """

    name: str
    reason: str
    automatic: bool = False


def names() -> Tuple[str, ...]:
    """List the names of all backends."""
    return tuple(_REGISTRY)


def backend_class(name: str) -> "Type[Backend]":
    """Return the class of a backend, without importing TensorFlow or the vendor's packages."""
    module, class_name = _REGISTRY[name].split(":")
    kind: Type[Backend] = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)
    return kind


def choose(backend: str, environ: Mapping[str, str]) -> Choice:
    """Choose a backend.

    ``backend`` wins over ``ASCEND_SESSION_BACKEND``. If both are ``auto``, devices are used if this
    host has any, otherwise the stub.

    Raises:
        BackendError: If the name is neither ``auto`` nor that of a backend.
    """
    if check_name(backend) != "auto":
        given = option("backend", backend, write='"{}"'.format)
        return Choice(backend, Message(f"{given} is set"))
    variable = environ.get(BACKEND_VARIABLE) or "auto"
    if check_name(variable, BACKEND_VARIABLE) != "auto":
        return Choice(variable, f"{BACKEND_VARIABLE}={variable} is set")
    reasons = ((name, backend_class(name).detect(environ)) for name in _REGISTRY)
    return next(Choice(name, reason, True) for name, reason in reasons if reason is not None)


def check_name(name: str, variable: str = "") -> str:
    """Return ``name`` if it is ``auto`` or a backend; otherwise raise BackendError."""
    names = ("auto", *_REGISTRY)
    if name not in names:
        given = f"{variable}={name!r}" if variable else option("backend", name)
        raise BackendError(f"{given} is not a backend.", hint=f"Choose from {', '.join(names)}.")
    return name


def create(choice: Choice, environ: Mapping[str, str]) -> "Backend":
    """Create the chosen backend, which imports TensorFlow.

    Raises:
        BackendError: If it cannot run on this machine.
    """
    return backend_class(choice.name)(environ, choice.reason)
