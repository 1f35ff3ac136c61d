"""The two context managers, and the one object that owns the device in this process."""

from ascend_session.session.api import SessionContext, ascend_session, ascend_system, join_errors
from ascend_session.session.system import AscendSystem, Event, close_all, current_system

__all__ = [
    "AscendSystem",
    "Event",
    "SessionContext",
    "ascend_session",
    "ascend_system",
    "close_all",
    "current_system",
    "join_errors",
]
