"""With a device: the vendor's packages are left alone, and what the script leaves open is closed.

At exit the vendor's package ends GE while the script's sessions are still open; they are destroyed
after it. When a signal ends the process nothing is closed at all. Here the sessions are closed
first, that which has run NPUInit last, whose end is the device's (npu_sys_ctl_ops.cc).
"""

import os
import threading
import weakref
from functools import partial
from typing import Any, Dict, List, Optional

from ascend_session.backends._tensorflow import destroy, disown, is_running
from ascend_session.process import on_close, on_fork
from ascend_session.session.signals import SignalGuard, close_all, close_at_once, log_failures


class _Watch:
    """The sessions of this process, and what looks after its signals.

    Attributes:
        closing: Held by whoever closes sessions: a signal, or what is done at exit.
    """

    references: List[Any] = []  # noqa: RUF012  (there is one of this class)
    guard: Optional[SignalGuard] = None
    closing = threading.RLock()
    pid = -1


def watch_sessions(request: Optional[Dict[str, str]] = None) -> None:
    """Begin to remember the sessions that are opened; imports TensorFlow.

    Args:
        request: What the command was called with; nothing here depends on it.
    """
    from tensorflow.python.client import session as module

    from ascend_session.backends.npu import NpuBackend

    if _Watch.guard is not None:
        return
    _Watch.pid = os.getpid()
    original = module.BaseSession.__init__

    def __init__(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:  # noqa: N807
        original(self, target, graph, config)
        _Watch.references.append(weakref.ref(self, _Watch.references.remove))
        # The vendor's exit handler, which ends GE, comes after what was registered after it.
        on_close("sessions", finish)

    __init__.__doc__ = original.__doc__
    module.BaseSession.__init__ = __init__
    _Watch.guard = SignalGuard(_interrupt, finish)
    _Watch.guard.install(NpuBackend.interrupted_run_s)
    on_fork(_abandon)


def _abandon() -> None:
    """Have a forked process leave the device and the parent's sessions alone, also when it ends."""
    from ascend_session.backends.npu import unregister_exit_handler

    for session in _sessions():
        disown(session)
    unregister_exit_handler()


def _sessions() -> List[Any]:
    alive = [reference() for reference in list(_Watch.references)]
    return [session for session in alive if session is not None]


def _keeper(sessions: List[Any]) -> Optional[Any]:
    """Find the session that has run NPUInit; None if there is none.

    Scripts open it first; later ones often have the same graph.
    """
    candidates = [each for each in sessions if _system_op(each, "NPUInit") is not None]
    return next((each for each in candidates if not each._closed), next(iter(candidates), None))


def _interrupt(signal_name: str) -> None:
    """Free threads that are blocked in a session; NPUShutdown needs its own as long as possible."""
    sessions = _sessions()
    keeper = _keeper(sessions)
    blocking = [each for each in sessions if each is not keeper or is_running(each)]
    with _Watch.closing:
        close_at_once([("closing a session", session.close) for session in blocking])


def finish() -> None:
    """Close what is open; nothing happens in a forked process. What fails is logged.

    Sessions that are closed already are destroyed, too: the end of NPUInit's ends the device.
    """
    if _Watch.pid != os.getpid():
        return
    if _Watch.guard is not None:
        _Watch.guard.begin_unwinding()
    with _Watch.closing:  # nothing is freed that is being closed
        sessions = _sessions()
        keeper = _keeper(sessions)
        closers = [partial(destroy, each) for each in reversed(sessions) if each is not keeper]
        if keeper is not None:
            closers.append(partial(_shut_down, keeper))
        log_failures(close_all([("closing a session", closer) for closer in closers]))
        del _Watch.references[:]
        if _Watch.guard is not None:
            _Watch.guard.remove()


def _shut_down(keeper: Any) -> None:
    shutdown = _system_op(keeper, "NPUShutdown")
    try:
        if shutdown is not None and not keeper._closed:
            keeper.run(shutdown)  # GE that has ended already is left as it is (ge_plugin.cc)
    finally:
        destroy(keeper)


def _system_op(session: Any, kind: str) -> Optional[Any]:
    """Find the operation of this type in the session's graph; None if there is none."""
    for operation in session.graph.get_operations():
        if operation.type == kind or operation.name.rpartition("/")[2].split("_")[0] == kind:
            return operation
    return None
