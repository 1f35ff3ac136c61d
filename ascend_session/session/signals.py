"""Ctrl-C and SIGTERM, also while the main thread is blocked inside TensorFlow.

A Python signal handler runs in the main thread between two bytecodes, so never while TensorFlow
blocks it. But the byte that Python writes to the wakeup descriptor is written at once, and a
thread that reads it can close the sessions, which cancels their runs: a run that reacts to that
ends within milliseconds, and the main thread unwinds. A run that does not react, such as a large
matrix product or a graph on a device, is waited for as long as the backend allows; then the signal
ends the process. The guard is there from before the initialisation until the shutdown, in the main
thread only, and only over the default handlers.

In an interactive Python, whose variables are somebody's work, the first Ctrl-C while a run blocks
closes nothing: it says that the run is waited for, and KeyboardInterrupt comes when that returns.
Only a second one during the same run does what the first one does in a script. A kernel of Jupyter
gives each cell Python's own handler; there the guard's thread cannot know from its handler that
Ctrl-C has been noticed, and looks whether the main thread is in a run.
"""

import contextlib
import ctypes
import functools
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from traceback import walk_stack
from types import FrameType
from typing import Any, Callable, ClassVar, Dict, Iterator, List, Optional

from ascend_session.backends._tensorflow import is_of_session
from ascend_session.cluster.variables import GRACE, read_seconds
from ascend_session.process import on_close, on_fork
from ascend_session.user_code import user_line

_logger = logging.getLogger(__name__)

_NOTICE_S = 0.5  # in which a main thread that is not blocked notices a signal
_LATE_S = 0.25  # by which the guard's thread may learn later of a signal that was noticed
_FORCED_END_S = 2.0  # for what is still to be done once a run was waited for in vain
_LOOK_S = 0.1  # between two looks at whether a run has returned
_RESEND_S = 0.01  # after which a signal comes again that could not be raised
_SHUTDOWN_S = 30.0  # for a shutdown that has begun
_WRITE_S = 0.5  # for a sentence that nobody may be reading: a full pipe must not keep a process
_MARGIN_S = 1.0  # by which all of that ends before a launcher kills this process

_DEFAULTS: Dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}

_last_words: List[Callable[[], None]] = []


def at_forced_end(say: Callable[[], None]) -> None:
    """Have ``say`` called before a signal ends a process whose main thread TensorFlow still blocks.

    Such a process comes to no exit handler. The call is made in a thread that is waited for as
    long as for the shutdown, 2 s.
    """
    if say not in _last_words:
        _last_words.append(say)


class Terminated(SystemExit):
    """SIGTERM arrived; raised in the main thread so that every ``with`` block is left in order."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum


class SignalGuard:
    """Turns SIGINT and SIGTERM into an orderly shutdown.

    Args:
        interrupt: Closes the open sessions, and returns when their runs have ended.
        shut_down: Shuts the system down, for a main thread that cannot.

    Both are called in threads of their own.
    """

    has_received: ClassVar[bool] = False  # the guard of the latest system

    def __init__(self, interrupt: Callable[[str], None], shut_down: Callable[[], Any]) -> None:
        SignalGuard.has_received = False
        self._interrupt = interrupt
        self._shut_down = shut_down
        self._noticed = threading.Event()
        self._noticed_at: Dict[int, float] = {}
        self._known_at: Dict[int, float] = {}
        self._received_terms = 0
        self._resent: List[int] = []
        self._terminating = False
        self._unwinding = threading.Event()
        self._done = threading.Event()
        self._attended = 0
        self._is_waiting_for_run = False  # after a first Ctrl-C in an interactive Python
        self._run_s = 0.0
        self._previous_fd = -1
        self._deferring = 0
        self._deferred: List[BaseException] = []
        self._reader: Optional[socket.socket] = None
        self._writer: Optional[socket.socket] = None

    def install(self, run_s: float) -> None:
        """Take over the default handlers; do nothing outside the main thread.

        Args:
            run_s: How long a signal waits for a run that does not react to the end of its session.
        """
        self._run_s = run_s
        if not _in_main_thread():
            return
        for earlier in [guard for guard in _guards if guard._done.is_set()]:
            earlier.remove()
        own = [
            number for number, default in _DEFAULTS.items() if signal.getsignal(number) == default
        ]
        if not own:
            return
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        _guards.append(self)  # first, for a process that another thread forks meanwhile
        fd = self._writer.fileno()
        self._previous_fd = signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        for number in own:
            signal.signal(number, self._handle)
        threading.Thread(target=self._watch, name="ascend-session-signals", daemon=True).start()

    def begin_unwinding(self) -> None:
        """Tell the guard's thread that the main thread is shutting the system down itself."""
        self._unwinding.set()

    @property
    def is_terminating(self) -> bool:
        """Whether SIGTERM has come, so that nothing new should begin in this process."""
        return self._terminating or self._received_terms > 0

    def cause_of(self, error: Optional[BaseException]) -> Optional[BaseException]:
        """Return ``error``, or the interrupt for which the guard's thread closed the sessions.

        TensorFlow 2 turns an exception that a handler raises while it reports another into a
        RuntimeError ("MISMATCH of original and normalized active exception types"), and a body
        may have swallowed the error of the run that was ended.
        """
        other = error is not None and not isinstance(error, Exception)
        if not self._attended or other or not _in_main_thread():
            return error
        number, self._attended = self._attended, 0
        return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)

    @contextlib.contextmanager
    def deferring(self) -> Iterator[List[BaseException]]:
        """Put off interrupts while something is closed that has to be closed to the end.

        Yields:
            The list in which they wait when the block has ended; whoever closes raises them.
        """
        waiting: List[BaseException] = []
        if not _in_main_thread():  # where no handler runs
            yield waiting
            return
        self._deferring += 1
        try:
            yield waiting
        finally:
            self._deferring -= 1
            if not self._deferring:
                waiting += self._deferred
                self._deferred = []

    def remove(self) -> None:
        """Give the default handlers back; do nothing if they were not taken."""
        self._unwinding.set()
        self._done.set()
        if self._writer is None or not _in_main_thread():
            return  # handlers belong to the main thread: the next signal or guard removes this one
        self._restore()
        self._writer.close()  # ends the thread, whose recv returns nothing
        self._writer = None
        if self in _guards:
            _guards.remove(self)

    def _restore(self) -> None:
        """Give back what is still ours; what the body has installed stays."""
        for number, default in _DEFAULTS.items():
            if self._owns(number):
                signal.signal(number, default)
        replaced_fd = signal.set_wakeup_fd(self._previous_fd)
        if self._writer is not None and replaced_fd != self._writer.fileno():
            signal.set_wakeup_fd(replaced_fd)

    def _owns(self, number: int) -> bool:
        return signal.getsignal(number) == self._handle

    def _is_interactive_default(self, number: int) -> bool:
        is_default = signal.getsignal(number) == signal.default_int_handler
        return number == signal.SIGINT and is_default and is_interactive()

    def abandon(self) -> None:
        """Give a forked child, in which this runs, the default handlers; it has no thread."""
        self._restore()
        signal.set_wakeup_fd(-1)

    def _handle(self, number: int, frame: Optional[FrameType]) -> None:
        if _is_taking_lock(frame):
            self._resent.append(number)
            again = threading.Timer(_RESEND_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        self._noticed_at[number] = time.monotonic()
        self._noticed.set()
        SignalGuard.has_received = True
        if self._done.is_set():  # the system was closed by another thread
            self.remove()
            if signal.getsignal(number) == self._handle:  # somebody has put it back since
                signal.signal(number, _DEFAULTS[number])
            os.kill(os.getpid(), number)
            return
        if number == signal.SIGTERM:
            if self._terminating:
                self._end_at_once(number)
            self._terminating = True
            on_close("signal", functools.partial(self._end_by, number))
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)
        if not self._deferring:
            raise error
        self._deferred.append(error)

    def _end_by(self, number: int) -> None:
        """Shut down what is still open at exit, then end the process by its signal."""
        self._shut_down()
        _die_of(number)

    def _watch(self) -> None:
        assert self._reader is not None
        with self._reader:
            while True:
                numbers = self._reader.recv(64)
                if not numbers:
                    return
                if self._previous_fd != -1:
                    with contextlib.suppress(OSError):  # nobody may be reading there any more
                        os.write(self._previous_fd, numbers)
                for number in numbers:
                    is_owned = self._owns(number) or self._is_interactive_default(number)
                    if is_owned and not self._done.is_set():
                        self._receive(number)

    def _receive(self, number: int) -> None:
        if number in self._resent:  # by the handler: of all these only the user's own counts
            self._resent.remove(number)
            return
        SignalGuard.has_received = True
        if number == signal.SIGINT and is_interactive() and not self._is_waiting_for_run:
            _start_thread(self._wait_for_run, number)
            return
        self._received_terms += number == signal.SIGTERM
        if self._attended or self._received_terms > 1:
            self._end_at_once(number)
        _start_thread(self._attend, number)
        grace_s = read_seconds(os.environ, GRACE)
        if number == signal.SIGTERM and grace_s is not None:
            _start_thread(_end_where_nobody_reads, number, grace_s - _MARGIN_S)

    def _end_at_once(self, number: int) -> None:
        log(_logger.error, "Second signal (%s): ending at once.", _name(number))
        _die_of(number)

    def _wait_for_run(self, number: int) -> None:
        """Say that the run in which Ctrl-C has come is waited for, and wait until it returns."""
        run = _run_of_main_thread()
        if self._main_thread_notices(number) or self._is_waiting_for_run:
            return
        if run is None or _run_of_main_thread() is not run:
            return
        self._is_waiting_for_run = True
        log(
            _logger.warning,
            "%s: waiting for the call in %s to return; KeyboardInterrupt comes then. A second "
            "Ctrl-C closes the sessions, and ends this Python with all its variables if the call "
            "does not return within %g s.",
            *(_name(number), user_line(run) or "a run", self._run_s),
        )
        while _run_of_main_thread() is run:
            time.sleep(_LOOK_S)
        self._is_waiting_for_run = False
        self._noticed.wait(_NOTICE_S)
        self._known_at[number] = self._noticed_at.get(number, float("-inf"))
        if self._attended:
            time.sleep(_NOTICE_S)  # in which the block is left that is told of the interrupt
            self._attended = 0

    def _attend(self, number: int) -> None:
        if self._main_thread_notices(number):
            return  # it runs Python and unwinds by itself
        if self._attended:
            self._end_at_once(number)
        self._attended = number
        is_waited_for = self._is_waiting_for_run
        run_s = self._time_for_run()
        line = user_line(sys._current_frames().get(threading.main_thread().ident or 0))
        call = f"the call in {line}" if line else "the call that blocks"
        closing = _start_thread(self._interrupt, _name(number))
        log(
            _logger.warning,
            "%s: closing the sessions, and waiting up to %g s for %s to return. A second signal "
            "ends the process at once.",
            *(_name(number), run_s, call),
        )
        if self._unwinding.wait(run_s):
            if self._done.wait(_SHUTDOWN_S):
                return
            call = "the shutdown"
        elif self._noticed.is_set() or (is_waited_for and not self._is_waiting_for_run):
            return  # the run has ended meanwhile, and what the user does then may take its time
        else:
            _start_thread(self._end_forcedly, closing).join(_FORCED_END_S)
            if is_waited_for and not self._is_waiting_for_run:
                return  # it has ended after all, and Python goes on
            if self._noticed.is_set() and self._done.is_set():
                return  # it has ended after all, and the system is closed
        if not self._done.is_set():
            log(
                _logger.error,
                "%s: ending now, because %s has not returned. The device was not finalised.",
                *(_name(number), call),
            )
        _die_of(number)

    def _time_for_run(self) -> float:
        """Compute how long to wait for a run, so that all ends before a launcher's SIGKILL."""
        grace_s = read_seconds(os.environ, GRACE)
        if grace_s is None:
            return self._run_s
        return max(min(self._run_s, grace_s - _NOTICE_S - _FORCED_END_S - _MARGIN_S), 0)

    def _end_forcedly(self, closing: threading.Thread) -> None:
        for say in _last_words:
            say()
        if not closing.is_alive():  # else a run is still on, and the shutdown would wait for it
            self._shut_down()

    def _main_thread_notices(self, number: int) -> bool:
        """Wait for the handler to run; it may have been quicker than this thread.

        A run of the handler that is not known yet belongs to this signal, however late this thread
        is; one that is known may stand for two signals that came together.
        """
        noticed_at = self._noticed_at.get(number, float("-inf"))
        news = noticed_at != self._known_at.get(number, float("-inf"))
        self._known_at[number] = noticed_at
        if news or time.monotonic() - noticed_at < _LATE_S:
            return True
        self._noticed.clear()
        noticed = self._noticed.wait(_NOTICE_S)
        self._known_at[number] = self._noticed_at.get(number, float("-inf"))
        return noticed


def log(function: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Call a method of a logger; once a signal has come, go on after a while if nobody reads there.

    Nothing that has to be closed may wait for a pipe that is full.
    """
    if SignalGuard.has_received:
        with contextlib.suppress(RuntimeError):  # at exit Python may start no thread any more
            _start_thread(functools.partial(function, *args, **named)).join(_WRITE_S)
            return
    function(*args, **named)


def _end_where_nobody_reads(number: int, seconds: float) -> None:
    """End a process that is about to be killed and writes into full pipes: it may never unwind."""
    time.sleep(min(max(seconds, 0), threading.TIMEOUT_MAX))
    pipes = select.poll()
    for fd in (1, 2):
        pipes.register(fd, select.POLLOUT)
    if len(pipes.poll(0)) < 2:  # a descriptor that is closed is ready as well
        _die_of(number)


def _start_thread(function: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(
        target=function, args=args, name="ascend-session-shutdown", daemon=True
    )
    thread.start()
    return thread


def _is_taking_lock(frame: Optional[FrameType]) -> bool:
    """Tell whether a thread is taking or releasing a graph's lock, as each run does.

    An exception there leaves the lock counted as taken, and the next thing that changes the graph
    waits for ever (TensorFlow's ``GroupLock`` in python/util/lock_util.py).
    """
    if frame is None:
        return False
    files = (each.f_code.co_filename for each, _ in walk_stack(frame))
    return any(file.endswith("util/lock_util.py") for file in files)


def is_interactive() -> bool:
    """Tell whether somebody types into this Python: a REPL, ``python -i``, IPython, Jupyter."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _run_of_main_thread() -> Optional[FrameType]:
    """Return the innermost frame of TensorFlow's sessions in the main thread, if it is in one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return None
    frames = (each for each, _ in walk_stack(frame))
    return next((each for each in frames if is_of_session(each)), None)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _name(number: int) -> str:
    return signal.Signals(number).name


def _die_of(number: int) -> None:
    """Restore the default action, from any thread, and raise the signal again."""
    with contextlib.suppress(RuntimeError):  # at exit Python may start no thread any more
        _start_thread(_flush_streams).join(_WRITE_S)
    ctypes.pythonapi.PyOS_setsig(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed terminal does not matter now
            stream.flush()


_guards: List[SignalGuard] = []


def _abandon() -> None:
    while _guards:
        _guards.pop().abandon()


on_fork(_abandon)
