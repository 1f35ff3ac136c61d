"""Sessions on the system's device that other code opens, as MonitoredTrainingSession does.

Their proto has an NpuOptimizer entry, as `AscendSystem.session_config` gives it; a device leaves
all others on the host, and so does this module, unless they block a main thread that a signal
needs. A signal closes them as it closes the system's own sessions, and on a device they are closed
before it is shut down. On the stub nothing is lost if one stays open, so it does.
"""

import contextlib
import logging
import sys
import threading
import weakref
from typing import Any, Callable, Iterator, List, MutableMapping, Optional

from ascend_session.backends._tensorflow import (
    destroy,
    find_keras_session,
    find_runs,
    is_running,
)
from ascend_session.backends.tf_sessions import SessionObserver, open_sessions
from ascend_session.config.entry import ENTRY_NAME
from ascend_session.session.signals import log
from ascend_session.user_code import UserLine, user_line

_logger = logging.getLogger(__name__)

_WAIT_S = 5.0  # after which closing a session says what it waits for


class OtherSessions(SessionObserver):
    """The sessions that have been opened on the device while the system was open, with their lines.

    Those that the system makes itself are among them.
    """

    def __init__(self) -> None:
        self._lines: MutableMapping[Any, Optional[UserLine]] = weakref.WeakKeyDictionary()

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Open a session, and note where the user's code does so if it is on the device."""
        create(session, target, graph, config)
        optimizers = session._config.graph_options.rewrite_options.custom_optimizers
        if any(each.name == ENTRY_NAME for each in optimizers):
            self._lines[session] = user_line(sys._getframe())

    def list_open(self, own: List[Any]) -> List[Any]:
        """List those that are open, in the order of opening, without the system's ``own``."""
        return [each for each in _without(open_sessions(), own) if each in self._lines]

    def list_blocking(self, own: List[Any]) -> List[Any]:
        """List those that are open, and the one on the host that blocks the main thread."""
        main = threading.main_thread().ident
        sessions = _without(open_sessions(), own)
        return [each for each in sessions if each in self._lines or main in find_runs(each)]

    def warn_of(self, sessions: List[Any]) -> None:
        """Warn of sessions that are open when the system closes, but not of the one of Keras."""
        for session in _without(sessions, [find_keras_session()]):
            line = self._lines.get(session)
            log(
                _logger.warning,
                "The session%s is still open although its Ascend system closes: on a device its "
                "runs fail from now on. Close it inside the block of ascend_system(...).",
                "" if line is None else f" that was opened at {line}",
            )


def close_before_device(session: Any, holds_npus: bool) -> None:
    """Close and free a session of others before the device is shut down.

    Without a device only a run is ended, and an idle session can be used on.
    """
    if holds_npus or is_running(session):
        with reporting_wait(session):
            destroy(session)


@contextlib.contextmanager
def reporting_wait(session: Any) -> Iterator[None]:
    """Warn if the block, which closes ``session``, waits long for other threads that run it."""
    if not is_running(session):
        yield
        return
    timer = threading.Timer(_WAIT_S, _report_wait, [session, threading.get_ident()])
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # at exit Python may start no thread any more
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _report_wait(session: Any, closing: int) -> None:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for thread, frame in find_runs(session).items():
        if thread != closing:
            line = user_line(frame)
            log(
                _logger.warning,
                "Closing a session waits for its run in thread %r%s to return, because the device "
                "cannot be shut down before. Join your threads before you leave the block.",
                names.get(thread, str(thread)),
                "" if line is None else f" ({line})",
            )


def _without(sessions: List[Any], excluded: List[Any]) -> List[Any]:
    return [each for each in sessions if not any(each is other for other in excluded)]
