"""The result files of AOE: their folders and content.

Times of operators are in microseconds, times of sub-graphs and models in milliseconds.

Sources: the manual of AOE, tables of the operator and of the sub-graph tuning result file, and
"ASCEND_WORK_PATH > default path (tuning working directory)"; the manual of that variable, which
puts the files into its folder ``aoe_data``.
"""

import math
import os
import re
from typing import List, Mapping, NamedTuple, NoReturn, Optional, Tuple

from ascend_session.errors import ResultError, UnsupportedError
from ascend_session.findings import Finding
from ascend_session.option_files.base import PathLike

OPERATORS, SUBGRAPHS = "OPAT", "SGAT"
SUCCESSFUL, FAILED, INCOMPLETE = "tuning successful", "tuning failed", "tune tuning incomplete"
OUTCOMES = (SUCCESSFUL, FAILED, INCOMPLETE)
FILE_NAMES = "aoe_result_opat_*.json or aoe_result_sgat_*.json"
WHERE_WRITTEN = (
    "AOE writes it where ASCEND_WORK_PATH says, else into the folder in which it tunes: "
    "work_path, WORK_PATH of aoe.ini, or where the training runs."
)
"""Hint about where result files are."""

_NAME = re.compile(r"aoe_result_(?:opat|sgat)_(.+)\.json")
_OF_SUBGRAPHS = "aoe_result_sgat_"


class TunedWay(NamedTuple):
    """One way in which an operator or sub-graph was tuned.

    Attributes:
        way: ``Format``, ``Schedule`` or ``Impl``; empty for sub-graphs, and in old files.
        before: The time before tuning.
        after: The time after tuning.
        improvement: The percentage in the file.
        update_mode: What happened to its tiling policy in the repository: ``add``, ``update``.
    """

    way: str
    before: Optional[float]
    after: Optional[float]
    improvement: Optional[float]
    update_mode: str


class TunedItem(NamedTuple):
    """An operator or a sub-graph whose tiling policy was added or updated.

    Attributes:
        name: An operator's name in the graph, or a sub-graph's key in the repository.
        types: The type of an operator, or the types fused in it; empty for a sub-graph.
        tuned: The ways in which it was tuned.
    """

    name: str
    types: Tuple[str, ...]
    tuned: Tuple[TunedWay, ...]

    @property
    def before(self) -> Optional[float]:
        """The time before any tuning: the longest of all ways; None if unknown."""
        return max((way.before for way in self.tuned if way.before is not None), default=None)

    @property
    def after(self) -> Optional[float]:
        """The time after all tuning: the shortest of all ways; None if unknown."""
        return min((way.after for way in self.tuned if way.after is not None), default=None)

    @property
    def saved(self) -> Optional[float]:
        """The time that each execution saves; None if unknown."""
        before, after = self.before, self.after
        return None if before is None or after is None else before - after

    @property
    def improvement(self) -> Optional[float]:
        """The improvement in percent as AOE computes it, ``100 * (before / after - 1)``.

        The manual calls it the percentage by which the time is reduced, and prints 118.71 % for
        58.781 and 26.876 microseconds. None if a time is unknown, or the result is not finite.
        """
        before, after = self.before, self.after
        if before is None or not after:
            return None
        improvement = 100.0 * (before / after - 1.0)
        return improvement if math.isfinite(improvement) else None

    @property
    def ways(self) -> Tuple[str, ...]:
        """The names of the ways in which it was tuned."""
        return tuple(way.way for way in self.tuned if way.way)

    @property
    def update_modes(self) -> Tuple[str, ...]:
        """What happened to its tiling policies, each word once."""
        return tuple(dict.fromkeys(way.update_mode for way in self.tuned))


class Summary(NamedTuple):
    """Numbers of tiling policies; None for a number that the file does not have.

    Attributes:
        added: New in the repository.
        updated: In the repository before, and updated.
        reserved: In the repository before, and left unchanged.
        hit: Found in the repository while tuning.
        unsatisfied: Not in the repository before, and not added.
        total: All policies that were tuned.
    """

    added: Optional[int] = None
    updated: Optional[int] = None
    reserved: Optional[int] = None
    hit: Optional[int] = None
    unsatisfied: Optional[int] = None
    total: Optional[int] = None


class ModelTime(NamedTuple):
    """The time of the whole model, in milliseconds; ``reported`` is the percentage in the file."""

    before: Optional[float]
    after: Optional[float]
    reported: Optional[float]


class Tuning(NamedTuple):
    """The operators or sub-graphs that a task tuned.

    Attributes:
        kind: `OPERATORS` or `SUBGRAPHS`.
        outcome: The result, one of `OUTCOMES`; empty if the file does not tell, as for sub-graphs.
        operators: The operators whose policies were added or updated.
        subgraphs: The sub-graphs whose policies were added or updated.
        summary: The numbers of policies; None if the file has none.
        failed: The names of the operators that could not be tuned.
        model: The time of the model; None if it was not measured.
    """

    kind: str
    outcome: str
    operators: Tuple[TunedItem, ...]
    subgraphs: Tuple[TunedItem, ...]
    summary: Optional[Summary]
    failed: Tuple[str, ...]
    model: Optional[ModelTime]


class Task(NamedTuple):
    """A tuning task.

    Attributes:
        key: Its key in the file, ``report_20240101_120000123_4711``; empty in files of old
            releases, which have one task.
        name: Its name.
        seconds: How long it took; None if unknown.
        interrupted: Whether the file has no time for it, as after a crash.
        line: The line in which it begins, from 1.
        tunings: What was tuned; empty if there was nothing to tune, or if tuning sub-graphs
            failed.
    """

    key: str
    name: str
    seconds: Optional[float]
    interrupted: bool
    line: int
    tunings: Tuple[Tuning, ...]


class ResultFile(NamedTuple):
    """The content of one AOE result file.

    Attributes:
        name: Its path, as given.
        tasks: The complete tasks, in the order of the file.
        damage: Why the rest could not be read, and where; None if the whole file was read.
    """

    name: str
    tasks: Tuple[Task, ...]
    damage: Optional[Finding]

    @property
    def doubts(self) -> NoReturn:
        """Refuse the access: this attribute has been removed."""
        raise UnsupportedError(
            "ResultFile.doubts has been removed: numbers are shown as AOE wrote them, and what "
            "cannot be read is in damage."
        )

    def outcomes(self, task: Task) -> Tuple[str, ...]:
        """Return the outcome of each tuning of a task of this file; at least one.

        According to the manual a task of sub-graphs without tunings has failed, and one of
        operators had nothing to tune.
        """
        if task.tunings:
            return tuple(tuning.outcome for tuning in task.tunings)
        return (FAILED if os.path.basename(self.name).startswith(_OF_SUBGRAPHS) else "",)

    @property
    def ok(self) -> bool:
        """True if the whole file was read, and every tuning was completed without failure."""
        return self.damage is None and not any(
            task.interrupted or {FAILED, INCOMPLETE} & set(self.outcomes(task))
            for task in self.tasks
        )


def result_folders(environ: Mapping[str, str], folder: PathLike = ".") -> List[str]:
    """Return the folders in which AOE may have written its results, by priority.

    Args:
        environ: The environment of the training, for ``ASCEND_WORK_PATH``.
        folder: The working directory of the training.
    """
    work_path = environ.get("ASCEND_WORK_PATH", "")
    return [*([work_path] if work_path else []), os.fspath(folder)]


def find_results(environ: Optional[Mapping[str, str]] = None, folder: PathLike = ".") -> List[str]:
    """Find the result files in the first of `result_folders` that has any, the oldest first.

    Args:
        environ: The environment of the training; None means that of this process.
        folder: The working directory of the training.

    Raises:
        ResultError: If a folder exists and cannot be read; the next folder is not tried.
    """
    for place in result_folders(os.environ if environ is None else environ, folder):
        paths = list_files(place)
        if paths:
            return paths
    return []


def list_files(folder: str) -> List[str]:
    """List the result files in a folder and its ``aoe_data``, oldest first by their names.

    Raises:
        ResultError: If a folder exists and cannot be read.
    """
    paths = []
    for place in (folder, os.path.join(folder, "aoe_data")):
        try:
            names = os.listdir(place)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError as error:
            raise ResultError(
                f"{place}: this folder cannot be read: {error.strerror}.",
                hint="Check that this user may read it.",
            ) from error
        matches = [(_NAME.fullmatch(name), name) for name in names]
        inside = "" if place == os.curdir else place
        paths += [(match[1], os.path.join(inside, name)) for match, name in matches if match]
    return [path for _, path in sorted(paths)]
