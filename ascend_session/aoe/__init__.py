"""Tuning with the vendor's AOE: what it needs, the tuning run, and what came of it."""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.aoe.conditions import TuningCondition
    from ascend_session.aoe.plan import AoePlan
    from ascend_session.aoe.results import (
        find_results,
        in_order,
        read_results,
    )
    from ascend_session.aoe.run import (
        TuningProgress,
        find_earlier_results,
        find_new_results,
        find_repository,
        make_variables,
    )

_HOMES = {
    "AoePlan": "plan",
    "TuningCondition": "conditions",
    "TuningProgress": "run",
    "find_earlier_results": "run",
    "find_new_results": "run",
    "find_repository": "run",
    "find_results": "results",
    "in_order": "results",
    "make_variables": "run",
    "read_results": "results",
}

__all__ = [
    "AoePlan",
    "TuningCondition",
    "TuningProgress",
    "find_earlier_results",
    "find_new_results",
    "find_repository",
    "find_results",
    "in_order",
    "make_variables",
    "read_results",
]

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())
