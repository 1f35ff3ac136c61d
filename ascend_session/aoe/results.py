"""The results of tuning with AOE: read, summed up, sorted and compared.

Example::

    results = read_results(find_results())
    for operator in in_order(results.operators, "saved")[:10]:
        print(operator.name, operator.saved)
"""

import fnmatch
import os
from collections import defaultdict
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ascend_session.aoe.result_files import (
    FILE_NAMES,
    OPERATORS,
    SUBGRAPHS,
    WHERE_WRITTEN,
    ResultFile,
    Summary,
    Task,
    TunedItem,
    Tuning,
    files_in,
)
from ascend_session.aoe.result_files import find_results as find_results
from ascend_session.aoe.result_reader import read_file
from ascend_session.errors import ResultError
from ascend_session.option_files.base import PathLike

_TEXTS: Dict[str, Callable[[TunedItem], Sequence[str]]] = {
    "name": lambda item: (item.name,),
    "type": lambda item: item.types,
    "way": lambda item: item.ways,
    "update": lambda item: item.update_modes,
}
_NUMBERS: Dict[str, Callable[[TunedItem], Optional[float]]] = {
    "saved": lambda item: item.saved,
    "improvement": lambda item: item.improvement,
    "before": lambda item: item.before,
    "after": lambda item: item.after,
}
SORTS = (*_NUMBERS, "name", "type")
FILTERS = tuple(_TEXTS)


class Filter(NamedTuple):
    """A pattern for one of the texts of an operator or sub-graph.

    Attributes:
        what: Which texts, one of `FILTERS`.
        pattern: As of files, with ``*``, ``?`` and ``[...]``; upper and lower case differ.
    """

    what: str
    pattern: str

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """Make a filter of what is typed: ``type=MatMul*``, or a part of a name.

        Raises:
            ValueError: If there is nothing of that name to filter by.
        """
        what, equals, pattern = text.partition("=")
        if not equals:
            quoted = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)
            return cls("name", f"*{quoted}*")
        if what not in FILTERS:
            raise ValueError(f"{what!r} is not one of {', '.join(FILTERS)}.")
        return cls(what, pattern)

    def takes(self, item: TunedItem) -> bool:
        """Tell whether one of the texts matches the pattern."""
        return any(fnmatch.fnmatchcase(text, self.pattern) for text in _TEXTS[self.what](item))


def in_order(items: Iterable[TunedItem], by: str) -> List[TunedItem]:
    """Sort by one of `SORTS`: numbers from the largest, unknown ones last; texts from A.

    Raises:
        ValueError: If there is nothing of that name to sort by.
    """
    if by not in SORTS:
        raise ValueError(f"{by!r} is not one of {', '.join(SORTS)}.")
    if by in _TEXTS:
        return sorted(items, key=lambda item: (*_TEXTS[by](item), ""))
    numbered = [(_NUMBERS[by](item), item) for item in items]
    numbered.sort(key=lambda pair: (pair[0] is None, -(pair[0] or 0.0)))
    return [item for _, item in numbered]


class Totals(NamedTuple):
    """The sum over operators or sub-graphs whose times are both known.

    Attributes:
        number: How many they are.
        before: Their time before, each run once.
        after: Their time afterwards.
    """

    number: int
    before: float
    after: float

    @property
    def saved(self) -> float:
        """The time that is saved."""
        return self.before - self.after


def totals(items: Iterable[TunedItem]) -> Totals:
    """Add up the times of operators in microseconds, or of sub-graphs in milliseconds."""
    number, sum_before, sum_after = 0, 0.0, 0.0
    for before, after in ((item.before, item.after) for item in items):
        if before is not None and after is not None:
            number, sum_before, sum_after = number + 1, sum_before + before, sum_after + after
    return Totals(number, sum_before, sum_after)


class Results(NamedTuple):
    """Result files that were read, and those that could not be.

    Attributes:
        files: The files, in the order in which they were given.
        unread: Why others could not be read.
    """

    files: Tuple[ResultFile, ...]
    unread: Tuple[ResultError, ...] = ()

    @property
    def tasks(self) -> Tuple[Task, ...]:
        """The tasks of all files."""
        return tuple(task for file in self.files for task in file.tasks)

    @property
    def tunings(self) -> Tuple[Tuning, ...]:
        """The tunings of all tasks."""
        return tuple(tuning for task in self.tasks for tuning in task.tunings)

    @property
    def operators(self) -> Tuple[TunedItem, ...]:
        """The operators that were added or updated; one that two tasks tuned stands here twice."""
        return tuple(item for tuning in self.tunings for item in tuning.operators)

    @property
    def subgraphs(self) -> Tuple[TunedItem, ...]:
        """The sub-graphs that were added or updated."""
        return tuple(item for tuning in self.tunings for item in tuning.subgraphs)

    @property
    def failed(self) -> Tuple[str, ...]:
        """The operators that could not be tuned, each name once."""
        return tuple(dict.fromkeys(name for tuning in self.tunings for name in tuning.failed))

    @property
    def summary(self) -> Summary:
        """The counts of all tasks, added up; None where no task has one."""
        known = [tuning.summary for tuning in self.tunings if tuning.summary is not None]
        sums: List[Optional[int]] = []
        for counts in zip(*known):
            numbers = [count for count in counts if count is not None]
            sums.append(sum(numbers) if numbers else None)
        return Summary(*sums)

    @property
    def whole(self) -> bool:
        """Whether all was read: no file is missing or damaged."""
        return not self.unread and not any(file.damage for file in self.files)

    @property
    def ok(self) -> bool:
        """Whether all was read, and no tuning failed, is incomplete or was interrupted.

        Doubts do not count.
        """
        return not self.unread and all(file.ok for file in self.files)

    def only(self, filters: Sequence[Filter]) -> "Results":
        """Return the same with those operators and sub-graphs that all filters take.

        Counts and failed operators stay as they are: the files do not say whose counts they are.
        """

        def select(items: Tuple[TunedItem, ...]) -> Tuple[TunedItem, ...]:
            return tuple(item for item in items if all(each.takes(item) for each in filters))

        def narrow(task: Task) -> Task:
            tunings = (
                tuning._replace(
                    operators=select(tuning.operators), subgraphs=select(tuning.subgraphs)
                )
                for tuning in task.tunings
            )
            return task._replace(tunings=tuple(tunings))

        files = (file._replace(tasks=tuple(map(narrow, file.tasks))) for file in self.files)
        return self._replace(files=tuple(files))


def read_results(paths: Union[PathLike, Sequence[PathLike]]) -> Results:
    """Read result files.

    Args:
        paths: A file or several, and folders in which all result files are meant. A file that
            is named twice, or by itself and with its folder, is read and counted once.

    Raises:
        ResultError: If none of them can be read.
    """
    files: List[ResultFile] = []
    unread: List[ResultError] = []
    seen: Set[str] = set()
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        try:
            names = _files_of(os.fspath(path))
        except ResultError as error:
            unread.append(error)
            continue
        for name in names:
            real = name if "\0" in name else os.path.realpath(name)
            if real in seen:
                continue
            seen.add(real)
            try:
                files.append(read_file(name))
            except ResultError as error:
                unread.append(error)
    if unread and not files:
        raise unread[0]
    return Results(tuple(files), tuple(unread))


def _files_of(path: str) -> List[str]:
    if "\0" in path or not os.path.isdir(path):
        return [path]
    paths = files_in(path)
    if not paths:
        message = f"{path}: there is no file {FILE_NAMES} in this folder."
        raise ResultError(message, hint=WHERE_WRITTEN)
    return paths


class Change(NamedTuple):
    """One operator or sub-graph in two runs.

    Attributes:
        kind: `OPERATORS`, whose times are in microseconds, or `SUBGRAPHS`, in milliseconds.
        name: The name of the operator, or the key of the sub-graph.
        there: The time after the tuning of the other run.
        here: The time after the tuning of this run.
    """

    kind: str
    name: str
    there: Optional[float]
    here: Optional[float]

    @property
    def difference(self) -> float:
        """By how much this run is slower; 0 if one of the times is not known."""
        return 0.0 if self.there is None or self.here is None else self.here - self.there


class Comparison(NamedTuple):
    """What differs between two runs.

    Attributes:
        there: The other run.
        faster: What takes less time in this run, the largest difference first.
        slower: What takes more, the largest difference first.
        same: How many take the same time, or an unknown one.
        only_here: What only this run has tuned; its ``there`` is None.
        only_there: What only the other has.
        failed_here: Operators whose tuning failed in this run only.
        failed_there: Operators whose tuning failed in the other only.
    """

    there: Results
    faster: Tuple[Change, ...]
    slower: Tuple[Change, ...]
    same: int
    only_here: Tuple[Change, ...]
    only_there: Tuple[Change, ...]
    failed_here: Tuple[str, ...]
    failed_there: Tuple[str, ...]


def compare(here: Results, there: Results) -> Comparison:
    """Compare a run with another; of equal names, the first is compared with the first."""
    both: List[Change] = []
    only_here: List[Change] = []
    only_there: List[Change] = []
    for kind, ours, theirs in (
        (OPERATORS, _numbered(here.operators), _numbered(there.operators)),
        (SUBGRAPHS, _numbered(here.subgraphs), _numbered(there.subgraphs)),
    ):
        for key, item in ours.items():
            other = theirs.get(key)
            change = Change(kind, item.name, other.after if other else None, item.after)
            (both if other else only_here).append(change)
        only_there += [
            Change(kind, item.name, item.after, None)
            for key, item in theirs.items()
            if key not in ours
        ]
    both.sort(key=lambda change: change.difference)
    faster = tuple(change for change in both if change.difference < 0)
    slower = tuple(change for change in reversed(both) if change.difference > 0)
    return Comparison(
        there,
        faster,
        slower,
        len(both) - len(faster) - len(slower),
        tuple(only_here),
        tuple(only_there),
        tuple(name for name in here.failed if name not in set(there.failed)),
        tuple(name for name in there.failed if name not in set(here.failed)),
    )


def _numbered(items: Iterable[TunedItem]) -> Dict[Tuple[str, int], TunedItem]:
    """Key items by their name, and those of the same name by their number."""
    seen: Dict[str, int] = defaultdict(int)
    numbered: Dict[Tuple[str, int], TunedItem] = {}
    for item in items:
        numbered[item.name, seen[item.name]] = item
        seen[item.name] += 1
    return numbered
