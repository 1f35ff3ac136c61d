"""Tuning with the vendor's AOE: what it needs, the tuning run, and what came of it."""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.aoe.plan import AoePlan as AoePlan

__all__ = ["AoePlan"]

__getattr__, __dir__ = late_names(__name__, {"AoePlan": "plan"}, globals())
