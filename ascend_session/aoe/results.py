"""The results of tuning with AOE: found, read, summed up and compared.

Example::

    results = read_results(find_results())
    for operator in in_order(results.operators, "saved")[:10]:
        print(operator.name, operator.saved)
"""

import os
from typing import Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ascend_session.aoe.results_compare import Change, Comparison, compare
from ascend_session.aoe.results_files import (
    FILE_NAMES,
    WRITTEN,
    files_in,
    find_results,
    is_folder,
    result_folders,
)
from ascend_session.aoe.results_model import (
    OPERATORS,
    OUTCOMES,
    SUBGRAPHS,
    ModelTime,
    Operator,
    ResultFile,
    Subgraph,
    Summary,
    Task,
    Tuned,
    Tuning,
    percent_faster,
)
from ascend_session.aoe.results_order import FILTERS, SORTS, Filter, chosen, in_order
from ascend_session.aoe.results_reading import parse_result, read_file
from ascend_session.errors import ResultError
from ascend_session.option_files.base import PathLike

__all__ = [
    "FILTERS",
    "OPERATORS",
    "OUTCOMES",
    "SORTS",
    "SUBGRAPHS",
    "WRITTEN",
    "Change",
    "Comparison",
    "Filter",
    "ModelTime",
    "Operator",
    "ResultFile",
    "Results",
    "Subgraph",
    "Summary",
    "Task",
    "Totals",
    "Tuned",
    "Tuning",
    "chosen",
    "compare",
    "find_results",
    "in_order",
    "parse_result",
    "percent_faster",
    "read_results",
    "result_folders",
    "totals",
]


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


class Results(NamedTuple):
    """What was read.

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
        """What was tuned in them."""
        return tuple(tuning for task in self.tasks for tuning in task.tunings)

    @property
    def operators(self) -> Tuple[Operator, ...]:
        """The operators that were added or updated; one that two tasks tuned stands here twice."""
        return tuple(one for tuning in self.tunings for one in tuning.operators)

    @property
    def subgraphs(self) -> Tuple[Subgraph, ...]:
        """The sub-graphs that were added or updated."""
        return tuple(one for tuning in self.tunings for one in tuning.subgraphs)

    @property
    def failed(self) -> Tuple[str, ...]:
        """The operators that could not be tuned, each name once."""
        return tuple(dict.fromkeys(name for tuning in self.tunings for name in tuning.failed))

    @property
    def summary(self) -> Summary:
        """The counts of all tasks, added up; None where no task has one."""
        known = [one.summary for one in self.tunings if one.summary is not None]
        return Summary(*(_sum(counts) for counts in zip(*known))) if known else Summary()

    @property
    def whole(self) -> bool:
        """Whether all was read: no file is missing or damaged."""
        return not self.unread and not any(file.damage for file in self.files)

    def only(self, filters: Sequence[Filter]) -> "Results":
        """The same with those operators and sub-graphs that all filters take.

        Counts and failed operators stay as they are: the files do not say whose counts they are.
        """
        return self._replace(files=tuple(_only(file, filters) for file in self.files))

    @property
    def ok(self) -> bool:
        """Whether all was read, and no tuning failed, is incomplete or was interrupted.

        Doubts do not count.
        """
        return not self.unread and all(file.ok for file in self.files)


def totals(items: Iterable[Union[Operator, Subgraph]]) -> Totals:
    """The times of operators in microseconds, or of sub-graphs in milliseconds, added up."""
    number, before, after = 0, 0.0, 0.0
    for one in items:
        early, late = one.before, one.after
        if early is not None and late is not None:
            number, before, after = number + 1, before + early, after + late
    return Totals(number, before, after)


def read_results(paths: Union[PathLike, Sequence[PathLike]]) -> Results:
    """Reads result files.

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
        for name in _files_of(os.fspath(path), unread):
            real = _real(name)
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


def _files_of(path: str, unread: List[ResultError]) -> List[str]:
    if not is_folder(path):
        return [path]
    try:
        found = files_in(path)
    except ResultError as error:
        unread.append(error)
        return []
    if not found:
        unread.append(
            ResultError(
                f"{path}: there is no file {FILE_NAMES} in this folder.",
                hint=WRITTEN,
            )
        )
    return found


def _only(file: ResultFile, filters: Sequence[Filter]) -> ResultFile:
    def narrowed(tuning: Tuning) -> Tuning:
        return tuning._replace(
            operators=tuple(chosen(tuning.operators, filters)),
            subgraphs=tuple(chosen(tuning.subgraphs, filters)),
        )

    tasks = (task._replace(tunings=tuple(map(narrowed, task.tunings))) for task in file.tasks)
    return file._replace(tasks=tuple(tasks))


def _real(path: str) -> str:
    """The name of a file without links."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a null character, or links in a circle
        return path


def _sum(counts: Iterable[Optional[int]]) -> Optional[int]:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
