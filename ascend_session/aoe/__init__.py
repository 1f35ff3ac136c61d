"""Tuning with the vendor's AOE: what it needs, the tuning run, and what came of it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascend_session.aoe.plan import AoePlan as AoePlan

__all__ = ["AoePlan"]


def __getattr__(name: str) -> Any:
    """Loads the plan, and all that it measures with, when it is asked for."""
    if name != "AoePlan":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ascend_session.aoe.plan import AoePlan

    return AoePlan
