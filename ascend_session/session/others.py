"""Sessions on the system's device that other code opens, as MonitoredTrainingSession does.

Their proto has an NpuOptimizer entry, as `AscendSystem.session_config` gives it. A signal closes
them as it closes the system's own sessions, and on a device they are closed before it is shut down.
On the stub nothing is lost if one stays open, so it does.

The adapter leaves sessions without the entry on the host, and nothing says so. Those that only
read, initialise, save or evaluate may be meant so; one that trains is worth a warning. They are
closed only where they block a main thread that a signal needs.
"""

import contextlib
import logging
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Iterator, List, Optional

from ascend_session.backends._tensorflow import (
    destroy,
    find_keras_session,
    find_runs,
    is_running,
)
from ascend_session.backends.averaging import plan_run
from ascend_session.backends.tf_sessions import SessionObserver, open_sessions
from ascend_session.config.entry import ENTRY_NAME
from ascend_session.errors import AscendConfigWarning
from ascend_session.session.signals import log
from ascend_session.user_code import UserLine, user_line

_logger = logging.getLogger(__name__)

_WAIT_S = 5.0  # after which closing a session says what it waits for


class OtherSessions(SessionObserver):
    """The sessions that have been opened while the system was open, with their lines.

    Those that the system makes itself are among them.

    Attributes:
        warns: Whether sessions that train on the host, or are open when the system closes, are
            mistakes worth a warning.
    """

    def __init__(self) -> None:
        self.warns = True
        self._has_warned_of_host = False  # one warning is enough
        # The lines by the sessions.
        self._on_device: weakref.WeakKeyDictionary[Any, Optional[UserLine]]
        self._on_host: weakref.WeakKeyDictionary[Any, Optional[UserLine]]
        self._on_device, self._on_host = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Open a session, and note where the user's code does so."""
        create(session, target, graph, config)
        optimizers = session._config.graph_options.rewrite_options.custom_optimizers
        is_on_device = any(each.name == ENTRY_NAME for each in optimizers)
        lines = self._on_device if is_on_device else self._on_host
        lines[session] = user_line(sys._getframe())

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Warn once of a session on the host that runs an optimizer's update."""
        if self._has_warned_of_host or session not in self._on_host or not self.warns:
            return
        if plan_run(session.graph, list_operations()).has_updates:
            self._has_warned_of_host = True
            line = self._on_host[session] or UserLine(sys.argv[0], 1)
            warnings.warn_explicit(
                f"The session that is opened at {line} trains, but it has none of the system's "
                "options: on a device it computes on the host. Use system.session(), or give it "
                "config=system.session_config().",
                AscendConfigWarning,
                line.file,
                line.number,
            )

    def list_alive(self, ours: List[Any]) -> List[Any]:
        """List those on the device that are not freed, in the order of opening, without ``ours``.

        A closed one lives on as long as something refers to it, such as an exception's traceback.
        """
        sessions = [reference() for reference in self._on_device.keyrefs()]
        alive = [each for each in sessions if each is not None and each._session is not None]
        return _without(alive, ours)

    def list_blocking(self, ours: List[Any]) -> List[Any]:
        """List those on the device that are open, and the one that blocks the main thread."""
        main = threading.main_thread().ident
        sessions = _without(open_sessions(), ours)
        return [each for each in sessions if each in self._on_device or main in find_runs(each)]

    def warn_of(self, sessions: List[Any]) -> None:
        """Warn of those that are open when the system closes, but not of the one of Keras."""
        still_open = [each for each in sessions if self.warns and not each._closed]
        for session in _without(still_open, [find_keras_session()]):
            line = self._on_device.get(session)
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
