"""The two context managers, and the one object that owns the device in this process."""

from ascend_session.session.api import (
    SessionContext,
    SystemContext,
    ascend_session,
    ascend_system,
    device_check,
    join_errors,
)
from ascend_session.session.conditions import (
    LOOPS_APPLIED,
    RANKS_OF_GRAPH,
    TAILING,
    Leftovers,
    check_tailing,
    init_options,
    refuse_one_shot,
)
from ascend_session.session.graphs import graph_backend, job_size, note_size
from ascend_session.session.signals import SignalGuard, Terminated, at_forced_end
from ascend_session.session.system import (
    AscendSystem,
    Event,
    close_all,
    close_at_once,
    current_system,
    log_failures,
)

__all__ = [
    "LOOPS_APPLIED",
    "RANKS_OF_GRAPH",
    "TAILING",
    "AscendSystem",
    "Event",
    "Leftovers",
    "SessionContext",
    "SignalGuard",
    "SystemContext",
    "Terminated",
    "ascend_session",
    "ascend_system",
    "at_forced_end",
    "check_tailing",
    "close_all",
    "close_at_once",
    "current_system",
    "device_check",
    "graph_backend",
    "init_options",
    "job_size",
    "join_errors",
    "log_failures",
    "note_size",
    "refuse_one_shot",
]
