"""What a job needs of its host: each check once, a function that yields findings and never raises.

The launcher asks before it starts a job (preflight), ``ascend-session doctor`` when it is asked.
Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.checks.devices import await_free as await_free
    from ascend_session.checks.devices import check_holders as check_holders
    from ascend_session.checks.devices import look as look
    from ascend_session.checks.interpreter import check_interpreter as check_interpreter
    from ascend_session.checks.interpreter import inspect_interpreter as inspect_interpreter
    from ascend_session.checks.job import check_folder as check_folder
    from ascend_session.checks.job import check_hccl_variables as check_hccl_variables
    from ascend_session.checks.job import check_limits as check_limits
    from ascend_session.checks.job import check_module as check_module
    from ascend_session.checks.job import check_script as check_script
    from ascend_session.checks.network import Interfaces as Interfaces
    from ascend_session.checks.network import Need as Need
    from ascend_session.checks.network import need_of as need_of
    from ascend_session.checks.toolkit import check_versions as check_versions

_NAMES = {
    "devices": ("await_free", "check_holders", "look"),
    "interpreter": ("check_interpreter", "inspect_interpreter"),
    "job": (
        "check_folder",
        "check_hccl_variables",
        "check_limits",
        "check_module",
        "check_script",
    ),
    "network": ("Interfaces", "Need", "need_of"),
    "toolkit": ("check_versions",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())
