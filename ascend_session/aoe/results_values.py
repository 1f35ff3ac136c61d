"""From the values of a result file to its objects: each of the right type and possible, or None.

Source: the manual's tables of both result files. What is wrong is noted with its place and left
out; nothing here raises.
"""

import math
import re
import sys
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

from ascend_session.aoe.results_cursor import Notes, word_for
from ascend_session.aoe.results_model import (
    ModelTime,
    Operator,
    Subgraph,
    Summary,
    Tuned,
    percent_faster,
)

__all__ = ["Values"]

_Path = Tuple[Union[str, int], ...]
_PERCENT = re.compile(r"-?[0-9]+(\.[0-9]+)?%")
_TOLERANCE = 0.01 + 1e-9  # AOE rounds some percentages to two digits and cuts others off
_TASK_TIME = "tuning_time(s)"
# No time is longer, in any unit: 30 years of microseconds. Sums of all in a file stay finite.
_LONGEST = 1e15
_COUNTS = {
    "added": "repo_add_num",
    "updated": "repo_update_num",
    "reserved": "repo_reserved_num",
    "hit": "repo_hit_num",
    "unsatisfied": "repo_unsatisfied_num",
    "total": "total_num",
}


class _Times(NamedTuple):
    """The names of the two times and the percentage of something that was tuned."""

    before: str
    after: str
    percent: str = "performance_improvement"


_OPERATOR = _Times("performance_before_tune(us)", "performance_after_tune(us)")
_SUBGRAPH = _Times("performance_before_tune(ms)", "performance_after_tune(ms)")
_MODEL = _Times(
    "model_baseline_performance(ms)",
    "model_result_performance(ms)",
    "model_performance_improvement",
)
_Measured = Tuple[Optional[float], Optional[float], Optional[float]]


class Values:
    """Makes objects of values; ``at`` is always the place of the JSON value that is looked at."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def basic(self, found: Any, at: int) -> Tuple[str, Optional[float], bool]:
        """The name of a task, the seconds that it took, and whether they are missing."""
        if not self._is(dict, found, at, ("basic",)):
            return "", None, False
        name = self._text(found, "tuning_name", at, ())
        if _TASK_TIME not in found:
            return name, None, True
        return name, self._number(found[_TASK_TIME], at, (), _TASK_TIME), False

    def operator(self, found: Any, at: int, mode: str = "") -> Optional[Operator]:
        """An operator; None if it is none.

        Args:
            found: The value.
            at: Its place.
            mode: In files of old releases, what became of it.
        """
        if not self._is(dict, found, at, ("an operator",)):
            return None
        name = self._text(found, "op_name", at, ())
        types = self._types(found, at)
        if mode and "tune_performance" not in found:
            before, after, said = self._measured(found, at, (), _OPERATOR, name)
            return Operator(name, types, (Tuned("", before, after, said, mode),))
        ways = found.get("tune_performance")
        if not self._is(dict, ways, at, ("tune_performance",)):
            return Operator(name, types, ())
        return Operator(name, types, tuple(self._tuned(name, way, ways[way], at) for way in ways))

    def subgraph(self, found: Any, at: int, mode: str) -> Optional[Subgraph]:
        """A sub-graph that was added or updated, as ``mode`` says; None if it is none."""
        if not self._is(dict, found, at, ("a sub-graph",)):
            return None
        name = self._text(found, "repo_key", at, ())
        return Subgraph(name, mode, *self._measured(found, at, (), _SUBGRAPH, name))

    def model(self, found: Dict[str, Any], at: int) -> Optional[ModelTime]:
        """The time of the model, of which ``found`` has some members; None if it has none."""
        if not any(name in found for name in _MODEL):
            return None
        return ModelTime(*self._measured(found, at, (), _MODEL, "the model"))

    def summary(self, found: Any, at: int) -> Optional[Summary]:
        """The counts of a tuning."""
        if not self._is(dict, found, at, ("repo_summary",)):
            return None
        counts = {ours: self._count(found, name, at) for ours, name in _COUNTS.items()}
        return Summary(**counts)

    def failed(self, found: Any, at: int) -> Tuple[str, ...]:
        """The names of operators that could not be tuned."""
        if not self._is(list, found, at, ("tuning_failed_operators",)):
            return ()
        names = tuple(name for name in found if isinstance(name, str))
        others = len(found) - len(names)
        if others:
            first = next(place for place, name in enumerate(found) if not isinstance(name, str))
            said = f"{word_for(found[first])} is" if others == 1 else f"{others:,} items are"
            message = f"{said} no name of an operator, in tuning_failed_operators."
            self._notes.doubt(at, (first,), message)
        return names

    def outcome(self, found: Any, at: int) -> str:
        """What became of a tuning."""
        return str(found) if self._is(str, found, at, ("opat_tuning_result",)) else ""

    def is_array(self, found: Any, at: int, name: str) -> bool:
        """Whether a value is an array; if not, it is noted."""
        return self._is(list, found, at, (name,))

    def _tuned(self, name: str, way: str, found: Any, at: int) -> Tuned:
        path: _Path = ("tune_performance", way)
        if not self._is(dict, found, at, path):
            return Tuned(way, None, None, None, "")
        times = self._measured(found, at, path, _OPERATOR, name)
        mode = self._text(found, "update_mode", at, path)
        return Tuned(sys.intern(way), *times, sys.intern(mode))

    def _measured(
        self, found: Dict[str, Any], at: int, path: _Path, names: _Times, what: str
    ) -> _Measured:
        before = self._number(found.get(names.before), at, path, names.before)
        after = self._number(found.get(names.after), at, path, names.after)
        said = self._percent(found.get(names.percent), at, path, names.percent)
        real = percent_faster(before, after)
        if said is not None and real is not None and not abs(said - real) <= _TOLERANCE:
            message = (
                f"{names.percent} of {word_for(what)} is {said:g} %, and {before:g} before and "
                f"{after:g} after make {real:.2f} %."
            )
            self._notes.doubt(at, (*path, names.percent), message)
        return before, after, said

    def _types(self, found: Dict[str, Any], at: int) -> Tuple[str, ...]:
        types = found.get("op_type")
        if isinstance(types, str):
            return (sys.intern(types),)
        if isinstance(types, list) and all(isinstance(one, str) for one in types):
            return tuple(map(sys.intern, types))
        self._wrong(at, ("op_type",), "op_type", types, "the name of a type, or an array of them")
        return ()

    def _number(self, found: Any, at: int, path: _Path, name: str) -> Optional[float]:
        if type(found) in (float, int) and 0 <= found <= _LONGEST:
            return float(found)
        large = type(found) in (float, int) and found > _LONGEST
        wanted = "a number below 1e15" if large else "a number that is not negative"
        self._wrong(at, (*path, name), name, found, wanted)
        return None

    def _count(self, found: Dict[str, Any], name: str, at: int) -> Optional[int]:
        number = found.get(name)
        if type(number) is int and number >= 0:
            return number
        self._wrong(at, (name,), name, number, "a whole number that is not negative")
        return None

    def _percent(self, found: Any, at: int, path: _Path, name: str) -> Optional[float]:
        if isinstance(found, str) and _PERCENT.fullmatch(found):
            number = float(found[:-1])
            if math.isfinite(number):
                return number
        self._wrong(at, (*path, name), name, found, "a percentage as text, as in '12.34%'")
        return None

    def _text(self, found: Dict[str, Any], name: str, at: int, path: _Path) -> str:
        text = found.get(name)
        if isinstance(text, str):
            return text
        self._wrong(at, (*path, name), name, text, "text")
        return ""

    def _is(self, kind: type, found: Any, at: int, path: Sequence[Union[str, int]]) -> bool:
        if isinstance(found, kind):
            return True
        self._wrong(at, tuple(path), path[-1], found, _KINDS[kind])
        return False

    def _wrong(self, at: int, path: _Path, name: object, found: Any, wanted: str) -> None:
        if found is None:
            said = f"{name} is missing or null; it should be {wanted}."
        else:
            said = f"{name} is {word_for(found)}; it should be {wanted}."
        self._notes.doubt(at, path, said)


_KINDS: Dict[type, str] = {dict: "an object", list: "an array", str: "text"}
