"""The open system of a process that runs a script written for the vendor's packages.

Such a script opens nothing itself: the adapter starts the device with the first session, or with
the operator ``NPUInit``, and ends it at exit. Here the system opens on the stub at first need, with
the options of the session that needs it first, and stays open until the run ends.

Sources: the adapter's geop_npu.cc, ge_plugin.cc and npu_sys_ctl_ops.cc;
guides/facts/process.md#life-of-ge-in-a-process.
"""

import atexit
import os
import threading
import warnings
from typing import Any, Mapping, Optional

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendConfigWarning
from ascend_session.session import AscendSystem, ascend_system, current_system


class _Life:
    """What this process has opened.

    Attributes:
        context: The block that is entered until `end`.
        pid: The process that entered it.
        opening: Held by the thread that enters it; others, whose sessions need it, too, wait.
        opener: That thread: sessions that it makes meanwhile are the system's own.
    """

    context: Optional[Any] = None
    pid = -1
    opening = threading.RLock()
    opener: Optional[int] = None


def system() -> AscendSystem:
    """Give the open system of this process; open one on the stub if there is none.

    One that the script has opened itself with `ascend_session` is taken as well.

    Raises:
        AscendError: If none can be opened in this environment; the leaf that fits.
        LifecycleError: In a process that was forked after it was opened.
    """
    return open_with({})


def open_with(parameters: Mapping[str, Any]) -> AscendSystem:
    """Do as `system`, with the options of the first session, if this call opens it.

    Args:
        parameters: Keys of the NpuOptimizer entry, and values that were found to be in order.
    """
    with _Life.opening:
        return current_system() or _open(parameters)


def _open(parameters: Mapping[str, Any]) -> AscendSystem:
    end()  # what is left of one that something else has closed
    with warnings.catch_warnings():
        # What there is to say of the options is said where the session is checked.
        warnings.simplefilter("ignore", AscendConfigWarning)
        context = ascend_system(AscendConfig.from_parameter_map(parameters), backend="stub")
        _Life.opener = threading.get_ident()
        try:
            opened: AscendSystem = context.__enter__()
        finally:
            _Life.opener = None
    _Life.context, _Life.pid = context, os.getpid()
    atexit.register(end)
    return opened


def is_of_parent() -> bool:
    """Whether the process that this one was forked from had opened a system by then."""
    return _Life.context is not None and _Life.pid != os.getpid()


def is_opening() -> bool:
    """Whether this thread is just opening the system, so that its new sessions are that one's."""
    return _Life.opener == threading.get_ident()


def has_opened() -> bool:
    """Whether the open system was opened here, and not by the script with `ascend_session`."""
    return _Life.context is not None


def fail(error: BaseException) -> None:
    """Tell the other ranks that this one fails, before anything is closed."""
    opened = current_system()
    if opened is not None and _Life.context is not None:
        opened.fail(error)


def end() -> None:
    """Close the system that `system` has opened, if any; nothing happens in a forked process.

    Raises:
        ShutdownError: If something could not be closed.
    """
    context, _Life.context = _Life.context, None
    atexit.unregister(end)
    if context is not None and _Life.pid == os.getpid():
        context.__exit__(None, None, None)


def _forget_opener_in_child() -> None:
    """Have a forked process not wait for a thread that it does not have."""
    _Life.opening, _Life.opener = threading.RLock(), None


os.register_at_fork(after_in_child=_forget_opener_in_child)
