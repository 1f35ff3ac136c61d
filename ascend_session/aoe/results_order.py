"""Which operators and sub-graphs are looked at, and in which order."""

import fnmatch
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, TypeVar, Union

from ascend_session.aoe.results_model import Operator, Subgraph

__all__ = ["FILTERS", "SORTS", "Filter", "chosen", "in_order"]

_Item = TypeVar("_Item", Operator, Subgraph)
_Any = Union[Operator, Subgraph]

_TEXTS: Dict[str, Callable[[_Any], Sequence[str]]] = {
    "name": lambda one: (one.name,),
    "type": lambda one: one.types,
    "way": lambda one: one.ways,
    "update": lambda one: one.update_modes,
}
_NUMBERS: Dict[str, Callable[[_Any], Optional[float]]] = {
    "saved": lambda one: one.saved,
    "improvement": lambda one: one.improvement,
    "before": lambda one: one.before,
    "after": lambda one: one.after,
}
SORTS = (*_NUMBERS, "name", "type")
FILTERS = tuple(_TEXTS)


class Filter(NamedTuple):
    """Those of which one of the texts is like a pattern.

    Attributes:
        what: Which texts, one of `FILTERS`.
        pattern: As of files, with ``*``, ``?`` and ``[...]``; upper and lower case differ.
    """

    what: str
    pattern: str

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """A filter as it is typed: ``type=MatMul*``, or a part of a name.

        Raises:
            ValueError: If there is nothing of that name to filter by.
        """
        what, equals, pattern = text.partition("=")
        if not equals:
            return cls("name", f"*{_plain(text)}*")
        if what not in FILTERS:
            raise ValueError(f"{what!r} is none of {', '.join(FILTERS)}.")
        return cls(what, pattern)

    def takes(self, one: _Any) -> bool:
        """Whether it is among those that are looked at."""
        return any(fnmatch.fnmatchcase(text, self.pattern) for text in _TEXTS[self.what](one))


def chosen(items: Iterable[_Item], filters: Sequence[Filter]) -> List[_Item]:
    """Those that all filters take."""
    return [one for one in items if all(single.takes(one) for single in filters)]


def in_order(items: Iterable[_Item], by: str) -> List[_Item]:
    """Sorted by one of `SORTS`: numbers from the largest, unknown ones last; texts from A.

    Raises:
        ValueError: If there is nothing of that name to sort by.
    """
    if by in _TEXTS and by in SORTS:
        return sorted(items, key=lambda one: (*_TEXTS[by](one), ""))
    if by not in _NUMBERS:
        raise ValueError(f"{by!r} is none of {', '.join(SORTS)}.")
    number = _NUMBERS[by]
    known = [(number(one), place, one) for place, one in enumerate(items)]
    known.sort(key=lambda one: (one[0] is None, -(one[0] or 0.0), one[1]))
    return [one for _, _, one in known]


def _plain(text: str) -> str:
    """A pattern for just this text."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)
