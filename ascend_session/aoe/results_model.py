"""What AOE has tuned, as objects: files of tasks, and in them operators, sub-graphs and counts.

Source: the manual's tables of the operator and of the sub-graph tuning result file. Times of
operators are in microseconds, those of sub-graphs and models in milliseconds. What the file does
not say, or says wrongly, is None.
"""

import math
import os
from typing import NamedTuple, Optional, Tuple

from ascend_session.option_files.remarks import Remark

__all__ = [
    "INCOMPLETE",
    "OPERATORS",
    "OUTCOMES",
    "SUBGRAPHS",
    "ModelTime",
    "Operator",
    "ResultFile",
    "Subgraph",
    "Summary",
    "Task",
    "Tuned",
    "Tuning",
    "percent_faster",
]

OPERATORS, SUBGRAPHS = "OPAT", "SGAT"
SUCCESSFUL, FAILED, INCOMPLETE = "tuning successful", "tuning failed", "tune tuning incomplete"
_OF_SUBGRAPHS = "aoe_result_sgat_"
OUTCOMES = (SUCCESSFUL, FAILED, INCOMPLETE)


def percent_faster(before: Optional[float], after: Optional[float]) -> Optional[float]:
    """The improvement in percent as AOE counts it, which is ``before / after - 1``.

    The manual calls it the percentage by which the time is reduced, and prints 118.71 % for 58.781
    and 26.876 microseconds. None if a time is unknown, or nothing beside the other.
    """
    if before is None or not after:
        return None
    improvement = 100.0 * (before / after - 1.0)
    return improvement if math.isfinite(improvement) else None


class Tuned(NamedTuple):
    """One way in which an operator was tuned.

    Attributes:
        way: ``Format``, ``Schedule`` or ``Impl``; empty in files of old releases.
        before: Its time before, in microseconds.
        after: Its time afterwards, in microseconds.
        improvement: The percentage that the file has for it.
        update_mode: What became of its tiling policy in the repository, as ``add``.
    """

    way: str
    before: Optional[float]
    after: Optional[float]
    improvement: Optional[float]
    update_mode: str


class Operator(NamedTuple):
    """An operator of which a tiling policy was added or updated.

    Attributes:
        name: Its name in the graph.
        types: Its type, or those of which it was fused.
        tuned: Each way in which it was tuned.
    """

    name: str
    types: Tuple[str, ...]
    tuned: Tuple[Tuned, ...]

    @property
    def before(self) -> Optional[float]:
        """Its time before any tuning, in microseconds: the longest of all ways."""
        return max((one.before for one in self.tuned if one.before is not None), default=None)

    @property
    def after(self) -> Optional[float]:
        """Its time after all tuning, in microseconds: the shortest of all ways."""
        return min((one.after for one in self.tuned if one.after is not None), default=None)

    @property
    def saved(self) -> Optional[float]:
        """The microseconds that it takes less, each time it runs."""
        return _less(self.before, self.after)

    @property
    def improvement(self) -> Optional[float]:
        """The same in percent, counted as `percent_faster`."""
        return percent_faster(self.before, self.after)

    @property
    def ways(self) -> Tuple[str, ...]:
        """In which ways it was tuned."""
        return tuple(one.way for one in self.tuned)

    @property
    def update_modes(self) -> Tuple[str, ...]:
        """What became of its tiling policies, each word once."""
        return tuple(dict.fromkeys(one.update_mode for one in self.tuned))


class Subgraph(NamedTuple):
    """A sub-graph of which a tiling policy was added or updated.

    Attributes:
        name: Its key in the repository.
        update_mode: ``add`` or ``update``.
        before: Its time before, in milliseconds.
        after: Its time afterwards, in milliseconds.
        said: The percentage that the file has for it.
    """

    name: str
    update_mode: str
    before: Optional[float]
    after: Optional[float]
    said: Optional[float]

    @property
    def saved(self) -> Optional[float]:
        """The milliseconds that it takes less, each time it runs."""
        return _less(self.before, self.after)

    @property
    def improvement(self) -> Optional[float]:
        """The same in percent, counted as `percent_faster`."""
        return percent_faster(self.before, self.after)

    @property
    def types(self) -> Tuple[str, ...]:
        """None: a sub-graph has no type."""
        return ()

    @property
    def ways(self) -> Tuple[str, ...]:
        """None: a sub-graph is tuned in one way."""
        return ()

    @property
    def update_modes(self) -> Tuple[str, ...]:
        """What became of its tiling policy."""
        return (self.update_mode,)


class Summary(NamedTuple):
    """How many tiling policies had which fate.

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
    """How long the whole model takes, in milliseconds; ``said`` is the percentage in the file."""

    before: Optional[float]
    after: Optional[float]
    said: Optional[float]


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
    operators: Tuple[Operator, ...]
    subgraphs: Tuple[Subgraph, ...]
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
        damage: What could not be read: where, and what is missing because of it.
        doubts: What is there and cannot be, or does not add up.
    """

    name: str
    tasks: Tuple[Task, ...]
    damage: Tuple[Remark, ...]
    doubts: Tuple[Remark, ...]

    def outcomes(self, task: Task) -> Tuple[str, ...]:
        """What became of each tuning of a task of this file, in words; at least one.

        A task of sub-graphs of which nothing is told has failed, says the manual; one of operators
        had none that could be tuned.
        """
        if task.tunings:
            return tuple(tuning.outcome for tuning in task.tunings)
        return (FAILED if os.path.basename(self.name).startswith(_OF_SUBGRAPHS) else "",)

    @property
    def ok(self) -> bool:
        """Whether all of it was read and no tuning failed, is incomplete or was interrupted."""
        return not self.damage and not any(
            task.interrupted or {FAILED, INCOMPLETE} & set(self.outcomes(task))
            for task in self.tasks
        )


def _less(before: Optional[float], after: Optional[float]) -> Optional[float]:
    return None if before is None or after is None else before - after
