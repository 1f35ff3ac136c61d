"""Ctrl-C and SIGTERM, wherever the main thread is; no opening or closing is cut short.

A signal is an exception in the main thread, KeyboardInterrupt or `Terminated`, by which the blocks
are left; after SIGTERM the process then ends by it. Where the main thread is when it comes:

- In Python: the exception is raised there, or where the method of a block returns. If code in C
  that has called back into Python drops it, it is raised once more where that code was called:
  delivery.py follows it, and leaves alone what handles it, however long that takes.
- Opening or closing something, `deferring`: it is raised when all is opened or closed, and leaves
  the blocks around. What may take long while something opens is `interruptible`. A second signal
  says so and ends the process at once; Ctrl-C in an interactive Python is raised at once instead
  while the system opens. SIGTERMs within a second, and the launcher's, are one signal.
- Blocked in TensorFlow: a handler runs between two bytecodes, so not now. But Python writes the
  number of the signal to the wakeup descriptor at once, and the handler writes there when it runs.
  The guard's thread reads both. If no handler has run after half a second, it closes the sessions,
  which cancels their runs, and the exception is raised. A run that does not react, such as a graph
  on a device, is waited for as long as the backend allows; then the signal ends the process.
- Blocked in an interactive Python, whose variables are somebody's work: the first Ctrl-C closes
  nothing, and KeyboardInterrupt comes when the call returns. A second one during the same call
  does what the first one does in a script.

The guard is there from the opening until the shutdown, in the main thread only, and only over the
default handlers. Jupyter gives these to each cell, and the guard takes them again.
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
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ascend_session import channel
from ascend_session.backends._tensorflow import is_of_session
from ascend_session.cluster.variables import GRACE, read_seconds
from ascend_session.process import find_frames, on_close, on_fork
from ascend_session.rank_folder import ONE_STOP_S, find_own_folder, write_record
from ascend_session.session.delivery import Delivery
from ascend_session.user_code import user_line

_logger = logging.getLogger(__name__)

_NOTICE_S = 0.5  # in which a main thread that is not blocked notices a signal
_FORCED_END_S = 2.0  # for what is still to be done once a run was waited for in vain
_SHUTDOWN_S = 30.0  # for a shutdown that has begun
_WRITE_S = 0.5  # for a sentence that nobody may be reading: a full pipe must not keep a process
_MARGIN_S = 1.0  # by which all of that ends before a launcher kills this process

_NOTICED = 0  # what the handler writes among the numbers of signals, which begin at 1

_DEFAULTS: Dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}

# Code in which nothing is raised, but where it was called. In the first file, a graph's lock would
# count as taken for ever (``GroupLock``); in the second, TensorFlow 2's C++ code would make it a
# RuntimeError ("MISMATCH of ... exception types"); in the others, the block would never be left.
_WITHOUT_INTERRUPTS = ("util/lock_util.py:", "framework/errors_impl.py:")
_ENDS_OF_BLOCKS = ("ascend_session/session/api.py:", "ascend_session/fanout.py:__exit__")

Closer = Tuple[str, Callable[[], object]]
"""What is closed, as the subject of a sentence, and how."""

Failed = List[Tuple[str, BaseException]]
"""What failed while closing, each with its exception."""

_guards: "List[SignalGuard]" = []  # that watch
_last_words: List[Callable[[], None]] = []
_has_received = False  # whether a signal has come while the latest guard was there


class _MainThread:
    """What keeps the main thread from raising a signal, whichever guard has received it."""

    deferring = 0  # how deep it is in blocks
    is_interruptible = False
    deferred: Optional[BaseException] = None


def at_forced_end(say: Callable[[], None]) -> None:
    """Have ``say`` called, for 2 s at most, before a signal ends a process that is still blocked.

    Such a process comes to no exit handler.
    """
    _last_words.append(say)


class Terminated(SystemExit):
    """SIGTERM arrived; raised in the main thread so that every ``with`` block is left in order."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum


@contextlib.contextmanager
def deferring(is_opening: bool = False) -> Iterator[Failed]:
    """Raise a signal only when all in the block is opened or closed; the outermost block does.

    What failed while closing is attached to the signal: an error that ends the block, or what is in
    the list that it gets.
    """
    failures: Failed = []
    if not _in_main_thread():  # where no handler runs
        yield failures
        return
    # Without a guard the count means nothing: Python's handler may have cut an earlier block short.
    outside = _MainThread.deferring if _guarded_signals() else 0
    try:
        _MainThread.deferring, _MainThread.is_interruptible = outside + 1, False
        yield failures
    except BaseException as error:
        failures[:] = [] if is_opening else [("", error)]
        raise
    finally:
        _MainThread.deferring = outside
        if not outside:
            _raise_deferred(failures)


def _raise_deferred(failures: Failed) -> None:
    deferred, _MainThread.deferred = _MainThread.deferred, None
    if deferred is not None:
        join_errors(deferred, [error for _, error in failures])
        raise deferred


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within `deferring`, raise one signal in the block, or one from before, but no second."""
    if not _in_main_thread():
        yield
        return
    _MainThread.is_interruptible = True
    try:
        _raise_deferred([])
        yield
    finally:
        _MainThread.is_interruptible = False


class _Terminations:
    """The SIGTERMs that this process has got, of which several may be one wish to stop it."""

    def __init__(self) -> None:
        self._first_s: Optional[float] = None
        self._last_s = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether one has come."""
        return self._first_s is not None

    def note(self) -> bool:
        """Note one; return whether it asks for the end at once.

        It does not within a second of the first, nor if it comes from the launcher's guardian.
        """
        now_s = time.monotonic()
        before_s, self._last_s = self._last_s, now_s
        if self._first_s is None:
            self._first_s = now_s
            return False
        sent_s = channel.read_stop()
        is_from_launcher = sent_s is not None and before_s < sent_s <= now_s
        return now_s - self._first_s > ONE_STOP_S and not is_from_launcher


class SignalGuard:
    """Turns SIGINT and SIGTERM into an orderly shutdown.

    Args:
        interrupt: Closes the open sessions, and returns when their runs have ended.
        shut_down: Shuts the system down, for a main thread that cannot.

    Both are called in threads of their own.

    Attributes:
        is_terminating: Whether SIGTERM has come, so that nothing new should begin in this process.
    """

    def __init__(self, interrupt: Callable[[str], None], shut_down: Callable[[], Any]) -> None:
        global _has_received
        _has_received = self.is_terminating = False
        self._interrupt = interrupt
        self._shut_down = shut_down
        self._run_s = 0.0
        self._previous_fd = -1
        self._reader: Optional[socket.socket] = None
        self._writer: Optional[socket.socket] = None
        # Of the main thread:
        self._unwinding = threading.Event()  # the system is being closed
        self._done = threading.Event()  # it is closed
        self._has_raised_term = False
        self._terminations = _Terminations()
        # Of the guard's thread:
        self._noticed = threading.Event()  # the handler has run since sessions were closed
        self._is_attended = False  # sessions were closed
        self._awaited_call: Optional[FrameType] = None  # after a first Ctrl-C

    def install(self) -> None:
        """Take over the default handlers; do nothing outside the main thread."""
        if not _in_main_thread():
            return
        for earlier in [guard for guard in _guards if guard._done.is_set()]:
            earlier.remove()
        self._take_handlers()

    def watch(self, run_s: float) -> None:
        """Attend to signals while TensorFlow blocks the main thread, if this is installed.

        Args:
            run_s: How long a signal waits for a run that does not react to the end of its session.
        """
        is_installed = any(signal.getsignal(number) == self._take_signal for number in _DEFAULTS)
        if not is_installed or self in _guards:
            return
        self._run_s = run_s
        _guards.append(self)  # first, for a process that another thread forks meanwhile
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        fd = self._writer.fileno()
        self._previous_fd = signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        shell = _shell()
        if shell is not None:
            shell.events.register("pre_run_cell", self._take_handlers)
        threading.Thread(target=self._watch, name="ascend-session-signals", daemon=True).start()

    def begin_unwinding(self) -> None:
        """Tell the guard's thread that the system is being shut down."""
        self._unwinding.set()

    def remove(self) -> None:
        """Give the default handlers back; do nothing if they were not taken."""
        self._unwinding.set()
        self._done.set()
        if _in_main_thread():
            self._restore()  # else, since handlers are the main thread's, the next signal or guard

    def _take_handlers(self, *cell: Any) -> None:
        for number, default in _DEFAULTS.items():
            if signal.getsignal(number) == default:
                signal.signal(number, self._take_signal)

    def _restore(self) -> None:
        """Give back what is still ours; what the body has installed stays."""
        shell = _shell()
        if shell is not None:
            with contextlib.suppress(ValueError):
                shell.events.unregister("pre_run_cell", self._take_handlers)
        if self._writer is not None:
            replaced_fd = signal.set_wakeup_fd(self._previous_fd)
            if replaced_fd != self._writer.fileno():
                signal.set_wakeup_fd(replaced_fd)
            self._writer.close()  # ends the thread, whose recv returns nothing
            self._writer = None
        if self in _guards:
            _guards.remove(self)
        for number, default in _DEFAULTS.items():  # last, since a signal cuts short from then on
            if number == signal.SIGTERM and self._has_raised_term:
                continue  # the process exits, and what the user still does then is not cut short
            if signal.getsignal(number) == self._take_signal:
                signal.signal(number, default)

    def _take_signal(self, number: int, frame: Optional[FrameType]) -> None:
        """Raise the exception in the main thread, where Python calls this, or defer it."""
        global _has_received
        _has_received = True
        writer = self._writer
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.send(bytes([_NOTICED]))
        if self._done.is_set():  # and the process exits, or another thread has closed the system
            if self._has_raised_term and number == signal.SIGTERM and not self._terminations.note():
                return
            self._has_raised_term = False
            self._restore()
            os.kill(os.getpid(), number)
            return
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)
        if number == signal.SIGTERM:
            # The thread sees when they come, this function only when Python calls it.
            asks_again = writer is None and self._terminations.note()
            if self._has_raised_term:
                if asks_again:
                    _end_at_once(number)
                return
            self._has_raised_term = self.is_terminating = True
            on_close("signal", functools.partial(self._end_by_term, error))
        is_second = _MainThread.deferred is not None
        may_come_again = number == signal.SIGINT and is_interactive()
        if is_second and (self._unwinding.is_set() or not may_come_again):
            _end_at_once(number)
        if _MainThread.deferring and not (_MainThread.is_interruptible or is_second):
            _MainThread.deferred = error
            return
        _MainThread.is_interruptible, _MainThread.deferred = False, None
        ends = () if _MainThread.deferring else _ENDS_OF_BLOCKS
        _raise_outside(_WITHOUT_INTERRUPTS + ends, error, frame)

    def _end_by_term(self, error: BaseException) -> None:
        """Shut down what is still open at exit, then end the process by SIGTERM."""
        folder = find_own_folder()
        if folder:
            write_record(error, folder, ends_program=True)
        self._shut_down()
        _die_of(signal.SIGTERM)

    def _watch(self) -> None:
        """Attend to signals that the main thread does not notice; this is the guard's thread."""
        assert self._reader is not None
        unnoticed: List[int] = []
        until = 0.0
        terminations = self._terminations
        with self._reader:
            while True:
                remaining_s = max(until - time.monotonic(), 0.001)
                self._reader.settimeout(remaining_s if unnoticed else None)
                try:
                    numbers = self._reader.recv(64)
                except socket.timeout:
                    for number in unnoticed:
                        self._attend(number)
                    unnoticed = []
                    continue
                if not numbers:
                    return
                if self._previous_fd != -1:
                    with contextlib.suppress(OSError):  # nobody may be reading there any more
                        os.write(self._previous_fd, numbers.replace(bytes([_NOTICED]), b""))
                for number in numbers:
                    if number == _NOTICED:
                        unnoticed, self._awaited_call = [], None
                        self._noticed.set()
                        if is_interactive():
                            self._is_attended = False  # Python goes on
                    elif signal.getsignal(number) == self._take_signal and not self._done.is_set():
                        is_repeated = number == signal.SIGTERM and terminations.has_begun
                        asks_again = number == signal.SIGTERM and terminations.note()
                        if is_repeated and not asks_again:
                            continue
                        if self._is_attended or asks_again:
                            _end_at_once(number)
                        self._receive(number)
                        until = until if unnoticed else time.monotonic() + _NOTICE_S
                        unnoticed.append(number)

    def _receive(self, number: int) -> None:
        global _has_received
        _has_received = True
        if number == signal.SIGTERM:
            self.is_terminating = True
            _start_thread(_end_where_nobody_reads, number, read_seconds(os.environ, GRACE))

    def _attend(self, number: int) -> None:
        """Free a main thread that is blocked, or say that it is waited for."""
        if self._is_attended:
            _end_at_once(number)
        call = _blocking_call()
        if number == signal.SIGINT and is_interactive() and call is not self._awaited_call:
            self._awaited_call = call
            log(
                _logger.warning,
                "%s: waiting for the call in %s to return; KeyboardInterrupt will be raised "
                "then. A second Ctrl-C closes the sessions, and kills this Python with all its "
                "variables if the call does not return within %g s.",
                *(_name(number), user_line(call) or "a run", self._run_s),
            )
            return
        self._is_attended = True
        self._noticed.clear()
        _start_thread(self._close_sessions, number)

    def _close_sessions(self, number: int) -> None:
        """Close the sessions, and end the process if that does not free the main thread."""
        line = user_line(_blocking_call())
        call = f"the call in {line}" if line else "the call that blocks"
        run_s = self._time_for_run()
        if self._unwinding.is_set():
            call, run_s = "the shutdown", _SHUTDOWN_S
        closing = _start_thread(self._interrupt, _name(number))
        log(
            _logger.warning,
            "%s: closing the sessions, and waiting up to %g s for %s to return. A second signal "
            "kills the process at once.",
            *(_name(number), run_s, call),
        )
        if self._unwinding.wait(run_s):
            if self._done.wait(_SHUTDOWN_S):
                return
            call = "the shutdown"
        elif self._noticed.is_set():
            return  # the run has ended, and what the user does then may take its time
        else:
            _start_thread(self._end_forcedly, closing).join(_FORCED_END_S)
            if self._noticed.is_set() and (self._done.is_set() or is_interactive()):
                return  # it has ended after all
        if not self._done.is_set():
            log(
                _logger.error,
                "%s: exiting now, because %s has not returned. The device was not finalised.",
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


def close_all(closers: List[Closer]) -> Failed:
    """Run every closer, whatever the others do; return what failed, with its exception."""
    failed: Failed = []
    for what, closer in closers:
        try:
            closer()
        except BaseException as error:  # an interrupt must not keep the device from closing
            failed.append((what, error))
    return failed


def close_at_once(closers: List[Closer], head_start_s: float = 0) -> None:
    """Run every closer in a thread of its own, since a run that does not react blocks its own.

    All are waited for. What fails here fails again when the blocks are left.
    """
    threads: List[threading.Thread] = []
    for closer in closers:
        threads.append(_start_thread(close_all, [closer]))
        threads[0].join(0 if threads[1:] else head_start_s)
    for thread in threads:
        thread.join()


def join_errors(
    first: Optional[BaseException], others: List[BaseException]
) -> Optional[BaseException]:
    """Return what the user sees of several errors: ``first``, else an interrupt, else any.

    The others are its ``closing_errors``. Those that are no interrupts are logged, and in its notes
    from Python 3.11 on.
    """
    others = sorted(others, key=lambda error: isinstance(error, Exception))
    if first is None:
        if not others:
            return None
        first = others.pop(0)
    for error in others:
        earlier = getattr(first, "closing_errors", None) or ()
        first.closing_errors = [*earlier, error]  # type: ignore[attr-defined]
        if not isinstance(error, Exception):
            continue
        name = type(first).__name__
        log(_logger.error, "Closing failed after %s: %s", name, error, exc_info=error)
        if hasattr(first, "add_note"):
            first.add_note(f"Closing failed as well: {error}")
    return first


def log_failures(failed: Failed) -> None:
    """Log what failed while closing, where nobody is left to catch it."""
    for what, error in failed:
        log(_logger.error, "%s failed: %s", what, error, exc_info=error)


def log(function: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Call a method of a logger; once a signal has come, go on after a while if nobody reads there.

    Nothing that has to be closed may wait for a pipe that is full.
    """
    if _has_received:
        with contextlib.suppress(RuntimeError):  # at exit Python may start no thread any more
            _start_thread(functools.partial(function, *args, **named)).join(_WRITE_S)
            return
    function(*args, **named)


def _raise_outside(code: Tuple[str, ...], error: BaseException, frame: Optional[FrameType]) -> None:
    """Raise an exception at once, or as soon as functions of these, ``file:name``, are left."""
    frames = [each for each, _ in walk_stack(frame)] if frame is not None else []
    names = [f"{each.f_code.co_filename}:{each.f_code.co_name}" for each in frames]
    inside = [each for each, name in zip(frames, names) if any(part in name for part in code)]
    caller = inside[-1].f_back if inside else None
    if caller is None:
        Delivery(error).raise_from_handler(frame)
    else:
        Delivery(error).raise_in(caller)


def _end_where_nobody_reads(number: int, grace_s: Optional[float]) -> None:
    """End a process that would never exit, since nobody reads the pipes into which it writes.

    That is so if it is about to be killed, or if only Python's own last flush is left: that one may
    also wait for a thread that is writing a message of ours.
    """
    end_s = time.monotonic() + (float("inf") if grace_s is None else grace_s - _MARGIN_S)
    is_late = False
    while not is_late:
        time.sleep(min(max(end_s - time.monotonic(), 0), _WRITE_S))
        is_late = time.monotonic() >= end_s
        has_run = threading.main_thread().ident not in find_frames()
        if (is_late or has_run) and _are_pipes_full():
            _die_of(number)


def _are_pipes_full() -> bool:
    """Return whether stdout or stderr takes nothing at present."""
    pipes = select.poll()
    for fd in (1, 2):
        pipes.register(fd, select.POLLOUT)
    return len(pipes.poll(0)) < 2  # a descriptor that is closed is ready as well


def _start_thread(function: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(
        target=function, args=args, name="ascend-session-shutdown", daemon=True
    )
    thread.start()
    return thread


def is_interactive() -> bool:
    """Return whether somebody types into this Python: a REPL, ``python -i``, IPython, Jupyter."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _shell() -> Optional[Any]:
    """Return the IPython that runs the cells of this process, if there is one."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def _blocking_call() -> FrameType:
    """Return the main thread's innermost frame of TensorFlow's sessions, else of all."""
    innermost = find_frames()[threading.main_thread().ident or 0]
    frames = (each for each, _ in walk_stack(innermost))
    return next((each for each in frames if is_of_session(each)), innermost)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _guarded_signals() -> List[int]:
    """List the signals that a guard handles."""
    handlers = ((number, signal.getsignal(number)) for number in _DEFAULTS)
    return [n for n, each in handlers if isinstance(getattr(each, "__self__", None), SignalGuard)]


def _name(number: int) -> str:
    return signal.Signals(number).name


def _end_at_once(number: int) -> None:
    log(_logger.error, "Second signal (%s): exiting at once.", _name(number))
    _die_of(number)


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


def _abandon() -> None:
    """Give a forked process, in which this runs, the default handlers; it has no thread."""
    for number in _guarded_signals():
        signal.signal(number, _DEFAULTS[number])
    _MainThread.deferred = None
    if _guards:
        signal.set_wakeup_fd(-1)
        _guards.clear()


on_fork(_abandon)
