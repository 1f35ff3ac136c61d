"""One condition of tuning: what it needs, what was measured, and what to do."""

import math
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

__all__ = ["FAILS", "NOT_CHECKED", "OK", "Condition", "Value", "judged", "shown"]

OK = "ok"
"""Measured, and nothing is against it."""

FAILS = "fails"
"""Measured, and not as tuning needs it."""

NOT_CHECKED = "not checked"
"""Nobody could say; who knows can give what is missing."""

Value = Union[int, float, str, None]

_GIB = 2**30


class Condition(NamedTuple):
    """One condition.

    Attributes:
        name: What it is about, in a few words that stay the same: ``home disk``.
        verdict: ``ok``, ``fails`` or ``not checked``.
        measured: What there is, in ``unit``, or as text; None if nobody could say.
        needed: What is needed, likewise.
        unit: ``bytes``, ``CPUs`` or whatever is counted, in the plural; empty for text.
        said: What was found, in full sentences.
        todo: What to do; None if there is nothing to do.
        asks: The members of `Asked` that would supply what is missing; or ``config``, which is the
            configuration itself.
    """

    name: str
    verdict: str
    measured: Value
    needed: Value
    unit: str
    said: str
    todo: Optional[str] = None
    asks: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """The condition as plain values, which JSON can hold."""
        return {**self._asdict(), "asks": list(self.asks)}


def judged(
    name: str,
    fulfilled: bool,
    measured: Value,
    needed: Value,
    unit: str,
    said: str,
    todo: str,
) -> Condition:
    """A condition that was measured; ``todo`` counts if it is not fulfilled."""
    verdict, rest = (OK, None) if fulfilled else (FAILS, todo)
    return Condition(name, verdict, measured, needed, unit, said, rest)


def shown(value: Value, unit: str = "") -> str:
    """A value as a person reads it: ``18.6 GiB``, ``74 CPUs``, ``off``; ``-`` for an unknown one.

    Sizes are rounded down to a tenth, so that one that is too small never looks large enough.
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return f"{math.floor(value / _GIB * 10) / 10:g} GiB"
    return f"{value:g} {unit[:-1] if value == 1 else unit}".rstrip()
