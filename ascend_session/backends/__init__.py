"""Which machine runs the graph: the known backends, the choice of one, and why it fell."""

import importlib
from typing import TYPE_CHECKING, Mapping, NamedTuple, Tuple, Type

from ascend_session.errors import BackendError
from ascend_session.spelling import Message, option

if TYPE_CHECKING:
    from ascend_session.backends.base import Backend

BACKEND_VARIABLE = "ASCEND_SESSION_BACKEND"
STUB_DEVICES_VARIABLE = "ASCEND_SESSION_STUB_DEVICES"

# The class of each backend, in the order in which "auto" asks them whether they fit this host.
_REGISTRY = {"npu": "npu:NpuBackend", "stub": "stub:StubBackend"}


class Choice(NamedTuple):
    """A backend's name, the reason for it in a few words, and whether nobody asked for it."""

    name: str
    reason: str
    automatic: bool = False


def names() -> Tuple[str, ...]:
    """List the names of all backends."""
    return tuple(_REGISTRY)


def backend_class(name: str) -> "Type[Backend]":
    """Return the class of a backend, which answers what is to be known of it beforehand.

    This costs some milliseconds: neither TensorFlow nor the vendor's packages are imported.
    """
    module, class_name = _REGISTRY[name].split(":")
    kind: Type[Backend] = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)
    return kind


def choose(backend: str, environ: Mapping[str, str]) -> Choice:
    """Decide between the backends.

    What the code says counts first, then ``ASCEND_SESSION_BACKEND``; ``auto`` is the stub exactly
    when no Ascend processor is present.

    Raises:
        BackendError: If the name is neither ``auto`` nor that of a backend.
    """
    if check_name(backend) != "auto":
        return Choice(backend, Message(f"{_name_backend(backend)} is set"))
    variable = environ.get(BACKEND_VARIABLE) or "auto"
    if check_name(variable, BACKEND_VARIABLE) != "auto":
        return Choice(variable, f"{BACKEND_VARIABLE}={variable} is set")
    reasons = ((name, backend_class(name).detect(environ)) for name in _REGISTRY)
    return next(Choice(name, reason, True) for name, reason in reasons if reason is not None)


def _name_backend(name: str) -> str:
    return option("backend", name, write='"{}"'.format)


def check_name(name: str, variable: str = "") -> str:
    """Return ``name`` if it is ``auto`` or that of a backend.

    Raises:
        BackendError: If it is not.
    """
    known = ("auto", *_REGISTRY)
    if name not in known:
        given = f"{variable}={name!r}" if variable else option("backend", name)
        raise BackendError(f"{given} is not a backend.", hint=f"Choose from {', '.join(known)}.")
    return name


def create(choice: Choice, environ: Mapping[str, str]) -> "Backend":
    """Make the backend that was chosen; TensorFlow is imported here.

    Raises:
        BackendError: If it cannot run on this machine.
    """
    return backend_class(choice.name)(environ, choice.reason)
