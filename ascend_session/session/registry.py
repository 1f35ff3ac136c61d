"""The one system of this process: who opens it, who shares it, who closes it last."""

import atexit
import logging
import os
import threading
from typing import Callable, List, Optional, Tuple

from ascend_session.errors import LifecycleError
from ascend_session.session.system import AscendSystem
from ascend_session.session.teardown import log_failures

_logger = logging.getLogger(__name__)


class _Slot:
    """The place for the system. Opening and closing take long, so they are noted, not locked.

    Attributes:
        system: The open system.
        opening: The system that a thread is opening, for a process that is forked meanwhile.
        owner: The process that has a system, or begins to open one; 0 if there is none.
        users: The threads of the blocks that use it.
        busy: Which thread opens or closes at this moment, empty if none does.
    """

    def __init__(self) -> None:
        self.system: Optional[AscendSystem] = None
        self.opening: Optional[AscendSystem] = None
        self.owner = 0
        self.users: List[int] = []
        self.lock = threading.RLock()  # garbage collection may leave a block meanwhile
        self.busy = ""


_slot = _Slot()


def current_system() -> Optional[AscendSystem]:
    """Return the open `AscendSystem` of this process, or None."""
    system = _slot.system
    return system if system is not None and system.pid == os.getpid() else None


def enter(make: Callable[[], AscendSystem], check: Callable[[AscendSystem], None]) -> AscendSystem:
    """Give the open system one more user, or open one.

    Args:
        make: Makes a system that is not open yet.
        check: Raises an error if the system that is open is not what the user needs.

    Raises:
        LifecycleError: While another thread opens or closes, or after a fork.
    """
    refuse_after_fork()
    me = threading.get_ident()
    with _slot.lock:
        if _slot.busy:
            raise LifecycleError(
                f"{_slot.busy} the Ascend system of this process at this moment.",
                hint="Open one ascend_system(...) first, then start threads that open sessions.",
            )
        if _slot.system is not None:
            check(_slot.system)
            _slot.users.append(me)
            return _slot.system
        _slot.busy = f"Thread {threading.current_thread().name!r} is opening"
        _slot.owner = os.getpid()
    try:
        system = _slot.opening = make()
        system.open()
        atexit.register(_close_at_exit, system)
        _slot.system, _slot.users = system, [me]
        return system
    except BaseException:  # an interrupt may arrive after the last line of open()
        _slot.system, _slot.users = None, []
        if _slot.opening is not None:
            log_failures(_slot.opening.close())
        _slot.owner = 0  # a child that is forked before is told to start another way
        raise
    finally:
        _slot.opening, _slot.busy = None, ""


def join(system: AscendSystem) -> AscendSystem:
    """Give ``system`` one more user.

    Raises:
        LifecycleError: If it is not the open system of this process any more.
    """
    with _slot.lock:
        system.check_usable()
        _slot.users.append(threading.get_ident())
    return system


def is_last_user(system: AscendSystem) -> bool:
    """Tell whether ``system`` is closed when the block that asks is left."""
    with _slot.lock:
        return _slot.system is system and len(_slot.users) == 1


def leave(system: AscendSystem, *, ending: bool = False) -> List[Tuple[str, BaseException]]:
    """Take one user from ``system``; the last one out shuts it down.

    Does nothing in a process that was forked from the system's own.

    Args:
        system: The system that a block of this thread has used.
        ending: Whether the process ends, so that the last block of this thread shuts the system
            down although other threads still use it.

    Returns:
        What failed while shutting down, each with its exception.
    """
    if system.pid != os.getpid():
        return []
    with _slot.lock:
        if _slot.system is not system:
            return []
        me = threading.get_ident()
        # A block may be left by another thread than the one that entered it.
        _slot.users.remove(me if me in _slot.users else _slot.users[0])
        if _slot.users and not (ending and me not in _slot.users):
            return []
        _slot.busy = f"Thread {threading.current_thread().name!r} is closing"
    try:
        return _shut(system)
    finally:
        _slot.busy = ""


def _shut(system: AscendSystem) -> List[Tuple[str, BaseException]]:
    try:
        return system.close()
    finally:
        _slot.system, _slot.users, _slot.owner = None, [], 0
        atexit.unregister(_close_at_exit)


def refuse_after_fork() -> None:
    """Raise LifecycleError in a process that was forked from one with a system, or opening one.

    The latter also has to import nothing: a module that a thread of its parent was importing stays
    locked for ever.
    """
    if _slot.owner not in (0, os.getpid()):
        raise LifecycleError(
            f"This process was forked from process {_slot.owner} while that process had "
            "an Ascend system open; neither TensorFlow nor the device survives a fork.",
            hint="Start workers as fresh processes (subprocess, or multiprocessing's 'spawn').",
        )


def _close_at_exit(system: AscendSystem) -> None:
    if system.pid == os.getpid() and _slot.system is system:
        _logger.warning("An Ascend system was left open; it is shut down at exit.")
        log_failures(_shut(system))


def _forget_in_child() -> None:
    """Have a forked process touch nothing of what its parent has open, nor at its exit."""
    _slot.lock, _slot.busy = threading.RLock(), ""  # of threads that are not here
    system = _slot.system or _slot.opening
    if system is not None:
        atexit.unregister(_close_at_exit)
        system.forget_in_child()


os.register_at_fork(after_in_child=_forget_in_child)
