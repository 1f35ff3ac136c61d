"""Which collective of one rank belongs to which of another: those with the same number.

HCCL has no names for what a rank calls: communicators are queues. hicann/hccl, docs/en/user_guide/
fault_diagnosis/task_exec_stage.md, "opData information": "index", that "of the operator within the
communicator". So the operators of a run are numbered by group, each run going on where the one
before ended; those of a pair of ranks that send and receive by their tag.

ASSUMED: within a run the order is that in which the graph was made (GE sorts the graph, for all
ranks alike); what a loop repeats is counted by itself; runs of one graph do not overlap.
"""

import contextlib
import threading
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from fake_ge.engine import ENGINE
from fake_ge.fatal import internal_error
from fake_ge.messages import said

__all__ = ["Run", "Site", "Turn", "forget", "running", "sites_of"]

# What TensorFlow 2 makes of loops and branches; their bodies are graphs of their own.
_FUNCTIONAL = ("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase")

_by_graph: Any = weakref.WeakKeyDictionary()
_locks: Any = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_numbers: Dict[Any, int] = {}


class Run:
    """One run of a graph that has collectives.

    Attributes:
        failure: What HCCL says went wrong; the other collectives of the run then give up.
    """

    def __init__(self) -> None:
        self.failure: Optional[str] = None


class Turn:
    """One execution of a collective: its run, and its number, the same on all ranks."""

    def __init__(self, run: Run, number: Any) -> None:
        self.run = run
        self.number = number


class Site:
    """An operator of a graph that stands for a collective.

    Attributes:
        kind: The vendor's operator.
        channel: What it is numbered in.
    """

    def __init__(self, kind: str, channel: Tuple[Any, ...]) -> None:
        self.kind = kind
        self.channel = channel
        self._run = Run()
        self._number = 0
        self._times = 0

    def add(self, operation: Any) -> None:
        """Makes it known as this operator of its graph."""
        graph = operation.graph
        _by_graph.setdefault(graph, {})[operation.name] = self
        while getattr(graph, "outer_graph", None) is not None:
            graph = graph.outer_graph
            inner = _by_graph.setdefault(graph, {}).setdefault(_FUNCTIONAL, [])
            inner.append((operation.name, self))

    def begin(self, run: Run) -> None:
        """Takes its number in a run."""
        key = (ENGINE.age, self.channel)
        _numbers[key] = _numbers.get(key, 0) + 1
        self._run, self._number, self._times = run, _numbers[key], 0

    def turn(self) -> Turn:
        """Called when it is executed."""
        with _lock:
            self._times += 1
            return Turn(self._run, (ENGINE.age, self.channel, self._number, self._times))


def forget(group: str) -> None:
    """A group ends: another of its name is numbered from the beginning."""
    with _lock:
        for key in [key for key in _numbers if key[1][0] == group]:
            del _numbers[key]


def sites_of(graph: Any, operations: Sequence[Any]) -> List[Tuple[str, Site]]:
    """The collectives among these operators of a graph, with their names, in their order."""
    known = _by_graph.get(graph, {})
    found = [(one.name, known[one.name]) for one in by_age(operations) if one.name in known]
    # All that are inside any loop or branch; which body belongs to which is not looked at.
    inside = any(one.type in _FUNCTIONAL for one in operations)
    return found + (known.get(_FUNCTIONAL, []) if inside else [])


def by_age(operations: Sequence[Any]) -> List[Any]:
    """The operators in the order in which they were made."""
    return sorted(operations, key=lambda one: one._id)


@contextlib.contextmanager
def running(graph: Any, sites: Sequence[Site]) -> Iterator[None]:
    """A run of a graph with these collectives.

    Raises:
        InternalError: Of TensorFlow, if HCCL failed.
    """
    if not sites:
        yield
        return
    from tensorflow.python.framework import errors

    run = Run()
    with _lock:
        own = _locks.setdefault(graph, threading.Lock())
    with own:
        with _lock:
            for site in sites:
                site.begin(run)
        try:
            yield
        except errors.OpError:
            if run.failure is None:
                raise
            # geop_npu.cc, RunGraph: whatever else GE answers is errors::Internal
            raise internal_error(said("GeOp1_0GEOP::::DoRunAsync Failed", run.failure)) from None
