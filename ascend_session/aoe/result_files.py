"""The result files of AOE: their folders and content.

Times of operators are in microseconds, those of sub-graphs and models in milliseconds.

Sources: the manual of AOE, tables of the operator and of the sub-graph tuning result file, and
"ASCEND_WORK_PATH > default path (tuning working directory)"; the manual of that variable, which
puts the files into its folder ``aoe_data``.
"""

import math
import os
import re
from typing import List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.errors import ResultError
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
"""Where to look, as a hint."""

_NAME = re.compile(r"aoe_result_(?:opat|sgat)_(.+)\.json")
_OF_SUBGRAPHS = "aoe_result_sgat_"


def percent_faster(before: Optional[float], after: Optional[float]) -> Optional[float]:
    """Compute the improvement in percent as AOE counts it, which is ``before / after - 1``.

    The manual calls it the percentage by which the time is reduced, and prints 118.71 % for 58.781
    and 26.876 microseconds. None if a time is unknown, or nothing beside the other.
    """
    if before is None or not after:
        return None
    improvement = 100.0 * (before / after - 1.0)
    return improvement if math.isfinite(improvement) else None


class TunedWay(NamedTuple):
    """One way in which something was tuned.

    Attributes:
        way: ``Format``, ``Schedule`` or ``Impl``; empty for sub-graphs, and in old files.
        before: Its time before.
        after: Its time afterwards.
        improvement: The percentage that the file has for it.
        update_mode: What became of its tiling policy in the repository, as ``add``.
    """

    way: str
    before: Optional[float]
    after: Optional[float]
    improvement: Optional[float]
    update_mode: str


class TunedItem(NamedTuple):
    """An operator or a sub-graph of which a tiling policy was added or updated.

    Attributes:
        name: An operator's name in the graph, a sub-graph's key in the repository.
        types: An operator's type, or those of which it was fused; empty for a sub-graph.
        tuned: Each way in which it was tuned.
    """

    name: str
    types: Tuple[str, ...]
    tuned: Tuple[TunedWay, ...]

    @property
    def before(self) -> Optional[float]:
        """Its time before any tuning: the longest of all ways."""
        return max((way.before for way in self.tuned if way.before is not None), default=None)

    @property
    def after(self) -> Optional[float]:
        """Its time after all tuning: the shortest of all ways."""
        return min((way.after for way in self.tuned if way.after is not None), default=None)

    @property
    def saved(self) -> Optional[float]:
        """The time that it takes less, each time it runs."""
        before, after = self.before, self.after
        return None if before is None or after is None else before - after

    @property
    def improvement(self) -> Optional[float]:
        """The same in percent, counted as `percent_faster`."""
        return percent_faster(self.before, self.after)

    @property
    def ways(self) -> Tuple[str, ...]:
        """The ways in which it was tuned, as far as they have names."""
        return tuple(way.way for way in self.tuned if way.way)

    @property
    def update_modes(self) -> Tuple[str, ...]:
        """What became of its tiling policies, each word once."""
        return tuple(dict.fromkeys(way.update_mode for way in self.tuned))


class Summary(NamedTuple):
    """The number of tiling policies by what became of them.

    Attributes:
        added: Not in the repository before, and added.
        updated: In it before, and updated.
        reserved: In it before, and left as they were.
        hit: In it during the tuning.
        unsatisfied: Not in it before, and not written.
        total: All that were tuned.
    """

    added: Optional[int] = None
    updated: Optional[int] = None
    reserved: Optional[int] = None
    hit: Optional[int] = None
    unsatisfied: Optional[int] = None
    total: Optional[int] = None


class ModelTime(NamedTuple):
    """How long the whole model takes, in milliseconds; ``reported`` is the file's percentage."""

    before: Optional[float]
    after: Optional[float]
    reported: Optional[float]


class Tuning(NamedTuple):
    """What was tuned in a task.

    Attributes:
        kind: `OPERATORS` or `SUBGRAPHS`.
        outcome: What the file says became of it, one of `OUTCOMES`; empty if it says nothing, as
            of sub-graphs.
        operators: The operators whose policies were added or updated.
        subgraphs: The sub-graphs of which that is true.
        summary: The counts; None if there are none.
        failed: The names of the operators that could not be tuned.
        model: The time of the model, where it was measured.
    """

    kind: str
    outcome: str
    operators: Tuple[TunedItem, ...]
    subgraphs: Tuple[TunedItem, ...]
    summary: Optional[Summary]
    failed: Tuple[str, ...]
    model: Optional[ModelTime]


class Task(NamedTuple):
    """A task of tuning.

    Attributes:
        key: Its key in the file, as ``report_20240101_120000123_4711``; empty in files of old
            releases, which hold one task.
        name: Its name.
        seconds: How long it took; None if that is not known.
        interrupted: Whether the file has no time for it, as after a core dump or out of memory.
        line: The line in which it begins.
        tunings: What was tuned; empty if there was nothing to tune, or the tuning of sub-graphs
            failed.
    """

    key: str
    name: str
    seconds: Optional[float]
    interrupted: bool
    line: int
    tunings: Tuple[Tuning, ...]


class ResultFile(NamedTuple):
    """A result file.

    Attributes:
        name: Its name, as it was given.
        tasks: The tasks that are whole, in the order of the file.
        damage: Why the rest could not be read, and where; None if all was.
        doubts: Values that are impossible or contradictory.
    """

    name: str
    tasks: Tuple[Task, ...]
    damage: Optional[Finding]
    doubts: Tuple[Finding, ...]

    def outcomes(self, task: Task) -> Tuple[str, ...]:
        """Return what became of each tuning of a task of this file, at least one.

        A task of sub-graphs without any tuning has failed, says the manual; one of operators had
        none that could be tuned.
        """
        if task.tunings:
            return tuple(tuning.outcome for tuning in task.tunings)
        return (FAILED if os.path.basename(self.name).startswith(_OF_SUBGRAPHS) else "",)

    @property
    def ok(self) -> bool:
        """True if all of it was read and no tuning failed, is incomplete or was interrupted."""
        return self.damage is None and not any(
            task.interrupted or {FAILED, INCOMPLETE} & set(self.outcomes(task))
            for task in self.tasks
        )


def result_folders(environ: Mapping[str, str], folder: PathLike = ".") -> List[str]:
    """Return the folders in which AOE may have left its results, by priority.

    Args:
        environ: The environment of the training; of it ASCEND_WORK_PATH counts.
        folder: The working directory of the training.
    """
    work_path = environ.get("ASCEND_WORK_PATH", "")
    return [*([work_path] if work_path else []), os.fspath(folder)]


def find_results(environ: Optional[Mapping[str, str]] = None, folder: PathLike = ".") -> List[str]:
    """Return the result files of the first folder that has any, the oldest name first.

    Args:
        environ: As of `result_folders`; that of this process if None.
        folder: As of `result_folders`.

    Raises:
        ResultError: As of `files_in`; results of another folder are not given instead.
    """
    for place in result_folders(os.environ if environ is None else environ, folder):
        paths = files_in(place)
        if paths:
            return paths
    return []


def files_in(folder: str) -> List[str]:
    """Return the result files in a folder and its ``aoe_data``, by time and process in their names.

    Raises:
        ResultError: If there is such a folder, and it cannot be read.
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
