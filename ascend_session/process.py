"""What this process does when it exits, and what a forked child forgets of its parent.

It has one exit hook and one fork hook, both here. Whatever opens something that has to be closed
calls `on_close` then; whatever keeps something that only the parent may use calls `on_fork` once,
when it is imported.
"""

import atexit
import contextlib
import ctypes
import os
from typing import Callable, Dict, List

CLOSING_ORDER = ("exchange", "record")
"""What is closed at exit, first to last, whenever it was opened.

- ``exchange``: the socket at which the ranks of a stub's job meet.
- ``record``: what the launcher reads about how this process ended. It comes last, since nothing
  that happens before may be missing there.
"""

_closers: Dict[str, Callable[[], None]] = {}
_forgetters: List[Callable[[], None]] = []


def on_close(name: str, function: Callable[[], None]) -> None:
    """Call a function when this process exits, in the place of its name in `CLOSING_ORDER`.

    Functions that others have given to `atexit` since the last call run before all of these. All
    of these run, even if one of them raises. A forked child calls none of its parent's.

    Args:
        name: One of `CLOSING_ORDER`; a second function of that name replaces the first.
        function: Is harmless if everything has been closed before.
    """
    if name not in CLOSING_ORDER:
        raise ValueError(f"{name!r} has no place in CLOSING_ORDER: {', '.join(CLOSING_ORDER)}.")
    _closers[name] = function
    atexit.unregister(_close)
    atexit.register(_close)


def on_fork(function: Callable[[], None]) -> None:
    """Call a function in each child that this process forks, before the child does anything else.

    The functions run in the order in which they were given. They only forget: a child that closed
    in order what it has inherited would close it for its parent.
    """
    _forgetters.append(function)


def skip_exit_handlers_of_parent() -> None:
    """Have a forked child end without what compiled libraries do when a process ends.

    Such handlers and destructors are inherited, and would finalise for the parent what they belong
    to. All that Python does at its end is done before, and the exit code stays what it is. What a
    library adds in the child runs, too. Does nothing where the C library has no ``on_exit``.

    The C library runs the handlers of a process in reverse order, after Python has ended: the one
    that is added here ends the process before it comes to those of the parent.
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):
        # Called as _exit(status, NULL), which takes the first.
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)  # of all streams of C, and before _exit


def _close() -> None:
    with contextlib.ExitStack() as stack:
        for name in reversed(CLOSING_ORDER):
            if name in _closers:
                stack.callback(_closers[name])


def _forget_in_child() -> None:
    _closers.clear()
    for forget in _forgetters:
        forget()


os.register_at_fork(after_in_child=_forget_in_child)
