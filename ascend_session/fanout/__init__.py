"""One process, several devices: a graph and a session for each, and work on all at the same time.

Not a job: there each device has a process of its own, and they are joined by HCCL.
"""

from ascend_session.fanout.contexts import fan_out
from ascend_session.fanout.sessions import FanOut

__all__ = ["FanOut", "fan_out"]
