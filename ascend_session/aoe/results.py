"""The results of tuning with AOE: read, summed up and sorted.

Example::

    results = read_results(find_results())
    for operator in in_order(results.operators, "saved")[:10]:
        print(operator.name, operator.saved)
"""

import os
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ascend_session.aoe.result_files import (
    FILE_NAMES,
    WHERE_WRITTEN,
    ResultFile,
    Summary,
    Task,
    TunedItem,
    Tuning,
    list_files,
)
from ascend_session.aoe.result_files import find_results as find_results
from ascend_session.aoe.result_reader import read_file
from ascend_session.errors import ResultError
from ascend_session.option_files.base import PathLike

_TEXTS: Dict[str, Callable[[TunedItem], Sequence[str]]] = {
    "name": lambda item: (item.name,),
    "type": lambda item: item.types,
}
_NUMBERS: Dict[str, Callable[[TunedItem], Optional[float]]] = {
    "saved": lambda item: item.saved,
    "improvement": lambda item: item.improvement,
    "before": lambda item: item.before,
    "after": lambda item: item.after,
}
SORTS = (*_NUMBERS, *_TEXTS)


def in_order(items: Iterable[TunedItem], by: str) -> List[TunedItem]:
    """Sort operators or sub-graphs: numbers descending, unknown ones last; names from A.

    Args:
        items: What to sort.
        by: One of `SORTS`: ``saved``, ``improvement``, ``before``, ``after``, ``name``, ``type``.

    Raises:
        ValueError: If ``by`` is not one of them.
    """
    if by not in SORTS:
        raise ValueError(f"{by!r} is not one of {', '.join(SORTS)}.")
    if by in _TEXTS:
        return sorted(items, key=lambda item: (*_TEXTS[by](item), ""))
    numbered = [(_NUMBERS[by](item), item) for item in items]
    numbered.sort(key=lambda pair: (pair[0] is None, -(pair[0] or 0.0)))
    return [item for _, item in numbered]


class Totals(NamedTuple):
    """The sum over the operators or sub-graphs for which both times are known.

    Attributes:
        number: How many they are.
        before: The sum of their times before tuning.
        after: The sum of their times after tuning.
    """

    number: int
    before: float
    after: float

    @property
    def saved(self) -> float:
        """The time that is saved."""
        return self.before - self.after


def compute_totals(items: Iterable[TunedItem]) -> Totals:
    """Add up the times of operators (microseconds) or of sub-graphs (milliseconds)."""
    number, sum_before, sum_after = 0, 0.0, 0.0
    for before, after in ((item.before, item.after) for item in items):
        if before is not None and after is not None:
            number, sum_before, sum_after = number + 1, sum_before + before, sum_after + after
    return Totals(number, sum_before, sum_after)


class Results(NamedTuple):
    """The result files that were read, and errors about those that could not be read.

    Attributes:
        files: The files, in the order given.
        unread: One error for each file or folder that could not be read.
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
        """The operators that were added or updated; twice if two tasks tuned the same one."""
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
        """The sum of the counts of all tasks; None for a count that no task has."""
        summaries = [tuning.summary for tuning in self.tunings if tuning.summary is not None]
        sums: List[Optional[int]] = []
        for counts in zip(*summaries):
            numbers = [count for count in counts if count is not None]
            sums.append(sum(numbers) if numbers else None)
        return Summary(*sums)

    @property
    def ok(self) -> bool:
        """True if everything was read, and no tuning failed, is incomplete or was interrupted."""
        return not self.unread and all(file.ok for file in self.files)


def read_results(paths: Union[PathLike, Sequence[PathLike]]) -> Results:
    """Read result files.

    Args:
        paths: One or several files, or folders of which all result files are read. A file that is
            given twice, or also with its folder, is read once.

    Raises:
        ResultError: If none of them can be read.
    """
    files: List[ResultFile] = []
    unread: List[ResultError] = []
    seen: Set[str] = set()
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        try:
            names = _list_result_files(os.fspath(path))
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


def _list_result_files(path: str) -> List[str]:
    if "\0" in path or not os.path.isdir(path):
        return [path]
    paths = list_files(path)
    if not paths:
        message = f"{path}: there is no file {FILE_NAMES} in this folder."
        raise ResultError(message, hint=WHERE_WRITTEN)
    return paths
