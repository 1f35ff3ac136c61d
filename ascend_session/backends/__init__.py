"""Which machine runs the graph: the choice of a backend, and why it fell."""

from typing import TYPE_CHECKING, Mapping, NamedTuple

from ascend_session.errors import BackendError
from ascend_session.hardware.nodes import device_nodes, host_root, node_name

if TYPE_CHECKING:  # it loads the config room, which a choice does not need
    from ascend_session.backends.base import Backend

__all__ = ["BACKEND_VARIABLE", "Choice", "choose", "create", "known"]

BACKEND_VARIABLE = "ASCEND_SESSION_BACKEND"

_NAMES = ("auto", "npu", "stub")


class Choice(NamedTuple):
    """A backend's name, and the reason for it in a few words."""

    name: str
    reason: str


def choose(asked: str, environ: Mapping[str, str]) -> Choice:
    """Decides between the backends.

    What the code says counts first, then ``ASCEND_SESSION_BACKEND``; ``auto`` is the stub exactly
    when no Ascend processor is present.

    Raises:
        BackendError: If the name is none of ``auto``, ``npu`` and ``stub``.
    """
    if known(asked) != "auto":
        return Choice(asked, f'backend="{asked}" was asked for')
    variable = environ.get(BACKEND_VARIABLE) or "auto"
    if known(variable, BACKEND_VARIABLE) != "auto":
        return Choice(variable, f"{BACKEND_VARIABLE}={variable} is set")
    root = host_root(environ)
    nodes = device_nodes(root)
    if nodes:
        first = node_name(root, nodes[0])
        return Choice("npu", f"{len(nodes)} Ascend device(s) are present, first /dev/{first}")
    return Choice("stub", "no Ascend processor is present (there is no /dev/davinci*)")


def known(name: str, where: str = "backend") -> str:
    """``name``, if it is one of ``auto``, ``npu`` and ``stub``.

    Raises:
        BackendError: If it is not.
    """
    if name not in _NAMES:
        raise BackendError(
            f"{where}={name!r} is no backend.", hint=f"Known are {', '.join(_NAMES)}."
        )
    return name


def create(choice: Choice, environ: Mapping[str, str]) -> "Backend":
    """Makes the backend that was chosen; TensorFlow is imported here.

    Raises:
        BackendError: If it cannot run on this machine.
    """
    if choice.name == "stub":
        from ascend_session.backends.stub import StubBackend

        return StubBackend(environ)
    from ascend_session.backends.npu import NpuBackend

    return NpuBackend(environ, choice.reason)
