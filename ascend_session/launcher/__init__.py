"""One process per device: the plan of a job, its supervision, and what becomes of it.

Names are loaded when they are first used: a command that only plans loads no supervision.
"""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.launcher.api import launch as launch
    from ascend_session.launcher.api import launch_within as launch_within
    from ascend_session.launcher.cause import find_first_failed as find_first_failed
    from ascend_session.launcher.config import LaunchConfig as LaunchConfig
    from ascend_session.launcher.devices import parse_devices as parse_devices
    from ascend_session.launcher.environment import OWNED as OWNED
    from ascend_session.launcher.events import Ended as Ended
    from ascend_session.launcher.events import Event as Event
    from ascend_session.launcher.events import EventFile as EventFile
    from ascend_session.launcher.events import Finished as Finished
    from ascend_session.launcher.events import Killing as Killing
    from ascend_session.launcher.events import NotBound as NotBound
    from ascend_session.launcher.events import NotStarted as NotStarted
    from ascend_session.launcher.events import Over as Over
    from ascend_session.launcher.events import Planned as Planned
    from ascend_session.launcher.events import Restarting as Restarting
    from ascend_session.launcher.events import Resumed as Resumed
    from ascend_session.launcher.events import Stalled as Stalled
    from ascend_session.launcher.events import StallNote as StallNote
    from ascend_session.launcher.events import Started as Started
    from ascend_session.launcher.events import Stopping as Stopping
    from ascend_session.launcher.events import Waiting as Waiting
    from ascend_session.launcher.lines import LineSplitter as LineSplitter
    from ascend_session.launcher.lines import clean as clean
    from ascend_session.launcher.output import Latest as Latest
    from ascend_session.launcher.output import Outlet as Outlet
    from ascend_session.launcher.output import Output as Output
    from ascend_session.launcher.plan import Plan as Plan
    from ascend_session.launcher.plan import make_plan as make_plan
    from ascend_session.launcher.preflight import checked_plan as checked_plan
    from ascend_session.launcher.process import Signals as Signals
    from ascend_session.launcher.pump import FailureFilter as FailureFilter
    from ascend_session.launcher.pump import LogFile as LogFile
    from ascend_session.launcher.pump import Notices as Notices
    from ascend_session.launcher.pump import Pump as Pump
    from ascend_session.launcher.pump import Source as Source
    from ascend_session.launcher.rank_main import RUNNER as RUNNER
    from ascend_session.launcher.result import Attempt as Attempt
    from ascend_session.launcher.result import Cause as Cause
    from ascend_session.launcher.result import LaunchResult as LaunchResult
    from ascend_session.launcher.result import Outcome as Outcome
    from ascend_session.launcher.result import RankResult as RankResult
    from ascend_session.launcher.result import judge as judge
    from ascend_session.launcher.stall import StallWatch as StallWatch
    from ascend_session.launcher.supervisor import supervise as supervise

_NAMES = {
    "api": "launch launch_within",
    "cause": "find_first_failed",
    "config": "LaunchConfig",
    "devices": "parse_devices",
    "environment": "OWNED",
    "events": "Ended Event EventFile Finished Killing NotBound NotStarted Over Planned Restarting "
    "Resumed StallNote Stalled Started Stopping Waiting",
    "lines": "LineSplitter clean",
    "output": "Latest Outlet Output",
    "plan": "Plan make_plan",
    "preflight": "checked_plan",
    "process": "Signals",
    "pump": "FailureFilter LogFile Notices Pump Source",
    "rank_main": "RUNNER",
    "result": "Attempt Cause LaunchResult Outcome RankResult judge",
    "stall": "StallWatch",
    "supervisor": "supervise",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())
