"""Exit and fork handlers of this process.

There is one exit hook and one fork hook. Code that opens something calls `on_close` to have it
closed at exit; a module with state that only the parent may use calls `on_fork` when it is
imported.

Two files have exit hooks of their own: ``witness.py``, which imports nothing of this package, and
``compat/npu_bridge``, which registers what the vendor's package registers.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from types import FrameType
from typing import Callable, Dict, List, Sequence

CLOSING_ORDER = (
    "advice",
    "steps",
    "signal",
    "run",
    "system",
    "sessions",
    "exchange",
    "record",
    "report",
    "models",
)
"""Names for `on_close`, in the order in which they are closed at exit.

- ``advice``: what to do about the exception that ends a script, right below its traceback.
- ``steps``: the last steps that a rank reports to the launcher.
- ``signal``: a process that got SIGTERM shuts down what is open and ends by that signal; nothing
  of what follows happens then.
- ``run``: the system that a script for the vendor's packages has had opened.
- ``system``: one that was left open.
- ``sessions``: those of a script that uses the vendor's packages on a device.
- ``exchange``: the socket at which the ranks of a stub's job meet.
- ``record``: what the launcher reads about how this process ended, with all that came before.
- ``report``: what the options of a script would do on a device. It comes after the exit handlers
  of the script, which may open sessions as well.
- ``models``: the error that ends a job on the stub whose ranks hold different models.
"""

_AFTER_SCRIPT = ("report", "models")  # these come after the exit handlers of the script

_closers: Dict[str, Callable[[], None]] = {}
_forgetters: List[Callable[[], None]] = []
_forking = threading.local()  # the signal mask of a thread that forks


def on_close(name: str, function: Callable[[], None]) -> None:
    """Call a function once when this process exits, in its name's place in `CLOSING_ORDER`.

    What comes before it in that order and is still open is closed before it. Functions that others
    have given to `atexit` since then run earlier; those that they have given before run later, but
    never after ``report`` and ``models``. All of these run, even if one of them raises. A forked
    child calls none of its parent's.

    Args:
        name: One of `CLOSING_ORDER`; a second function of that name replaces the first.
        function: Is harmless if everything has been closed before.
    """
    if name not in CLOSING_ORDER:
        raise ValueError(f"{name!r} has no place in CLOSING_ORDER: {', '.join(CLOSING_ORDER)}.")
    _closers[name] = function
    place = CLOSING_ORDER.index(name)
    if name not in _AFTER_SCRIPT:
        atexit.register(_close, CLOSING_ORDER[: place + 1])


def on_fork(function: Callable[[], None]) -> None:
    """Call a function in each child that this process forks, before the child does anything else.

    The functions run in the order in which they were given, all of them, even if one raises. They
    only forget: a child that closed in order what it has inherited would close it for its parent.
    """
    _forgetters.append(function)


def find_frames() -> Dict[int, FrameType]:
    """Find the innermost frame of each thread: identity to frame.

    Python 3.11 would hang if it began to collect garbage meanwhile (python/cpython, issue 106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


def skip_exit_handlers_of_parent() -> None:
    """Have a forked child end without what compiled libraries do when a process ends.

    Such handlers and destructors are inherited, and would finalise for the parent what they belong
    to. All that Python does at its end is done before, and the exit code stays what it is. What a
    library adds in the child runs, too. Does nothing where the C library has no ``on_exit``.

    The C library runs the handlers of a process in reverse order, after Python has ended: the one
    that is added here ends the process before it comes to those of the parent.
    """
    import ctypes  # slow to import, and needed only here

    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):
        # Called as _exit(status, NULL), which takes the first.
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)  # of all streams of C, and before _exit


def _close(names: Sequence[str]) -> None:
    with contextlib.ExitStack() as stack:
        for name in reversed(names):
            if name in _closers:
                stack.callback(_closers.pop(name))


def _block_signals() -> None:
    """Keep signals from a child until it has forgotten its parent's handlers and descriptors.

    Python writes the number of a signal to the wakeup descriptor, at the other end of which the
    parent would take it for its own.
    """
    signals = {signal.SIGINT, signal.SIGTERM}
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _forget_in_child() -> None:
    _closers.clear()
    with contextlib.ExitStack() as stack:
        stack.callback(_unblock_signals)
        for forget in reversed(_forgetters):
            stack.callback(forget)


atexit.register(_close, CLOSING_ORDER)  # what is left after all others
os.register_at_fork(
    before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_forget_in_child
)


def is_in_front(fd: int) -> bool:
    """Tell whether a terminal is this process's, which does not run in a shell's background."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # a terminal, but not one that controls this process
        return True
