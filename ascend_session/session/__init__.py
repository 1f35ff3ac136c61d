"""The two context managers, and the one object that owns the device in this process."""

from ascend_session.session.api import ascend_session, ascend_system, current_system
from ascend_session.session.system import AscendSystem, Event

__all__ = ["AscendSystem", "Event", "ascend_session", "ascend_system", "current_system"]
