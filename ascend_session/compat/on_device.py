"""The sessions of an unchanged script with a device: the vendor's packages are used as they are.

At exit the vendor's package ends GE first, and the sessions are destroyed after it; if a signal
ends the process, nothing is closed. Here the sessions that the script leaves open are closed first,
and the one that ran NPUInit last, which ends the device.

Sources: the adapter's geop_npu.cc, ge_plugin.cc and npu_sys_ctl_ops.cc;
guides/facts/process.md#life-of-ge-in-a-process.
"""

import functools
import os
import threading
import weakref
from typing import Any, Callable, List, Optional, Sequence

from ascend_session.backends import outside
from ascend_session.backends._tensorflow import destroy, disown, is_running
from ascend_session.backends.npu import NpuBackend, unregister_exit_handler
from ascend_session.backends.tf_sessions import SessionObserver, add_observer
from ascend_session.compat.finder import RunRequest
from ascend_session.process import on_close, on_fork
from ascend_session.session.signals import (
    SignalGuard,
    close_all,
    close_at_once,
    deferring,
    log_failures,
)
from ascend_session.user_code import UserLine


def begin(request: RunRequest, unread: Sequence[UserLine]) -> None:
    """Look after the sessions of a script from now on; imports TensorFlow.

    Args:
        request: What is asked of the run.
        unread: Lines that have opened a session with an entry before; there is no report on them.
    """
    outside.watch_sessions()  # first: it sets options of the sessions
    add_observer(OnDevice())


class OnDevice(SessionObserver):
    """Keeps track of the script's sessions, and closes them at the end."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        # By the id of the session, in the order of opening.
        self._sessions: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._closing = threading.RLock()  # held while sessions are closed
        self._guard = SignalGuard(self._interrupt, self.finish)
        self._take_signals()
        on_fork(self._leave_parent)

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Open a session, and have it closed at exit."""
        self._take_signals()
        create(session, target, graph, config)
        self._sessions[id(session)] = session
        # Registered last, so it runs before the vendor's exit handler, which ends GE.
        on_close("sessions", self.finish)

    def finish(self) -> None:
        """Close and destroy all sessions, and log what fails; does nothing in a forked process.

        Closed sessions are destroyed as well: destroying the one that ran NPUInit ends the device.
        A signal that comes meanwhile is raised afterwards.
        """
        if self._pid != os.getpid():
            return
        self._take_signals()
        self._guard.begin_unwinding()
        with deferring(), self._closing:  # none is destroyed while it closes
            sessions = self._list_alive()
            starter = _find_starter(sessions)
            closers = [
                functools.partial(destroy, each)
                for each in reversed(sessions)
                if each is not starter
            ]
            if starter is not None:
                closers.append(functools.partial(_shut_down_device, starter))
            log_failures(close_all([("closing a session", closer) for closer in closers]))
            self._sessions.clear()
            self._guard.remove()

    def _list_alive(self) -> List[Any]:
        alive = [reference() for reference in self._sessions.valuerefs()]
        return [session for session in alive if session is not None]

    def _take_signals(self) -> None:
        """Look after signals, unless a system of the script's own has a guard that does."""
        if self._pid == os.getpid():
            self._guard.install()
            self._guard.watch(NpuBackend.interrupted_run_s)

    def _interrupt(self, signal_name: str) -> None:
        """Close sessions so that threads blocked in them go on; NPUShutdown needs the first one."""
        sessions = self._list_alive()
        starter = _find_starter(sessions)
        blocking = [each for each in sessions if each is not starter or is_running(each)]
        with self._closing:
            close_at_once([("closing a session", session.close) for session in blocking])

    def _leave_parent(self) -> None:
        """Disown the parent's sessions and its device in a forked process."""
        for session in self._list_alive():
            disown(session)
        unregister_exit_handler()


def _find_starter(sessions: List[Any]) -> Optional[Any]:
    """Return the session that ran NPUInit, None without one.

    Scripts open it first; later sessions often have the same graph.
    """
    candidates = [each for each in sessions if _system_op(each, "NPUInit") is not None]
    return next((each for each in candidates if not each._closed), next(iter(candidates), None))


def _shut_down_device(starter: Any) -> None:
    shutdown = _system_op(starter, "NPUShutdown")
    try:
        if shutdown is not None and not starter._closed:
            starter.run(shutdown)  # does nothing if GE has ended (ge_plugin.cc)
    finally:
        destroy(starter)


def _system_op(session: Any, kind: str) -> Optional[Any]:
    """Return the operation of this type in the session's graph, None without one."""
    for operation in session.graph.get_operations():
        if operation.type == kind or operation.name.rpartition("/")[2].split("_")[0] == kind:
            return operation
    return None
