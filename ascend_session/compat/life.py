"""The open system of a process that runs a script written for the vendor's packages.

Such a script opens nothing itself: the adapter starts the device with the first session, or with
the operator ``NPUInit``, and ends it at exit. Here the system opens on the stub at first need, with
the options of the session that needs it first, and stays open until the run ends.

Sources: the adapter's geop_npu.cc, ge_plugin.cc and npu_sys_ctl_ops.cc.
"""

import atexit
import os
import warnings
from typing import Any, Callable, List, Mapping, Optional

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendConfigWarning
from ascend_session.session import AscendSystem, ascend_system, current_system


class _Life:
    """What this process has opened.

    Attributes:
        context: The block that is entered until `end`.
        opened: Its system.
        pid: The process that entered it.
        opening: Whether it is being entered: sessions that are made then are the system's own.
        enders: Called by `shut_down`.
    """

    context: Optional[Any] = None
    opened: Optional[AscendSystem] = None
    pid = -1
    opening = False
    enders: List[Callable[[], None]] = []  # noqa: RUF012  (there is one of this class)


def system() -> AscendSystem:
    """The open system of this process; opens one on the stub if there is none.

    One that the script has opened itself with `ascend_session` is taken as well.

    Raises:
        AscendError: If none can be opened in this environment; the leaf that fits.
        LifecycleError: In a process that was forked after it was opened.
    """
    found = current_system()
    return found if found is not None else open_with({})


def open_with(parameters: Mapping[str, Any]) -> AscendSystem:
    """As `system`, with the options of the first session, if this call opens it.

    Args:
        parameters: Keys of the NpuOptimizer entry, and values that were found to be in order.
    """
    found = current_system()
    if found is not None:
        return found
    end()  # what is left of one that something else has closed
    with warnings.catch_warnings():
        # What there is to say of the options is said where the session is looked at.
        warnings.simplefilter("ignore", AscendConfigWarning)
        context = ascend_system(AscendConfig.from_parameter_map(parameters), backend="stub")
        _Life.opening = True
        try:
            opened = context.__enter__()
        finally:
            _Life.opening = False
    _Life.context, _Life.opened, _Life.pid = context, opened, os.getpid()
    atexit.register(end)
    return opened


def is_ours(open_system: AscendSystem) -> bool:
    """Whether a system was opened here, and not by the script with `ascend_session`."""
    return open_system is _Life.opened


def is_of_parent() -> bool:
    """Whether the process that this one was forked from had opened a system by then."""
    return _Life.context is not None and _Life.pid != os.getpid()


def is_opening() -> bool:
    """Whether the system is just being opened, so that new sessions are its own."""
    return _Life.opening


def on_shut_down(ender: Callable[[], None]) -> None:
    """Has ``ender`` called at each `shut_down`."""
    _Life.enders.append(ender)


def shut_down() -> None:
    """What ``NPUShutdown`` and ``npu_close`` do: sessions that are open now cannot run any more.

    The ranks stay together: a session that is opened later starts the device again.
    """
    for ender in _Life.enders:
        ender()


def fail(error: BaseException) -> None:
    """Says to the other ranks that this one fails, before anything is closed."""
    found = current_system()
    if found is not None and _Life.context is not None:
        found.fail(error)


def end() -> None:
    """Closes the system that `system` has opened, if any; nothing happens in a forked process.

    Raises:
        ShutdownError: If something could not be closed.
    """
    context, _Life.context, _Life.opened = _Life.context, None, None
    atexit.unregister(end)
    if context is not None and _Life.pid == os.getpid():
        context.__exit__(None, None, None)
