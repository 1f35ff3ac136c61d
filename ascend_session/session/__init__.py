"""The two context managers, and the one object that owns the device in this process."""

from ascend_session.session.contexts import ascend_session, ascend_system
from ascend_session.session.events import Event
from ascend_session.session.registry import current_system
from ascend_session.session.system import AscendSystem

__all__ = ["AscendSystem", "Event", "ascend_session", "ascend_system", "current_system"]
