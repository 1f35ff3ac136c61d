"""What this rank reports on the stub about its variables, so that the ranks' models are compared.

Only sessions that ran steps with averaged gradients count. Their variables are read by operators
that the graph has already: before the first such step, and at the end. The end is the closing of
the session or of the system, or a run that overwrites the variables after the last step, as for an
evaluation with other weights. The latest values of a variable replace earlier ones. Where several
graphs have variables of one name, the graph counts that was the last to begin training it: all
ranks that average it begin with these graphs in the same order.
"""

import hashlib
import sys
import threading
import weakref
from typing import (
    Any,
    Callable,
    Counter,
    Dict,
    Iterable,
    List,
    MutableMapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ascend_session.backends._tensorflow import VARIABLES, tf1
from ascend_session.backends.averaging import RunPlan, Variable, plan_run
from ascend_session.backends.collectives import Groups
from ascend_session.backends.exchange.group import ProcessGroup
from ascend_session.backends.exchange.models import RankReport, VariableSummary, summarize
from ascend_session.backends.exchange.runs import RunHistory
from ascend_session.backends.tf_sessions import SessionObserver, open_sessions
from ascend_session.errors import AscendError
from ascend_session.user_code import user_line

_MOST_BYTES = 64 << 20  # that are read at once
# With these a program ends a loop over its data, and goes on.
_ENDS_OF_DATA = ("OutOfRangeError", "StopIteration", "GeneratorExit")


class _Trained:
    """What a session has trained.

    Attributes:
        averaged: Variables whose gradients it has averaged, by name.
        separate: Variables that its optimizers have updated without averaging, by name.
        is_read: Whether the variables were read since the last step.
    """

    def __init__(self) -> None:
        self.averaged: Dict[str, Variable] = {}
        self.separate: Dict[str, Variable] = {}
        self.is_read = True

    @property
    def names(self) -> Set[str]:
        """The names of all of them."""
        return {*self.averaged, *self.separate}


class ModelObserver(SessionObserver):
    """Observes the sessions of this rank.

    Args:
        process_group: This rank and the others; once it has ended, after a failure or a signal, no
            session is read.
        groups: The groups of ranks.
    """

    def __init__(self, process_group: ProcessGroup, groups: Groups) -> None:
        self._process_group = process_group
        self._groups = groups
        self._runs = RunRecorder(groups)
        self._trained: MutableMapping[Any, _Trained] = weakref.WeakKeyDictionary()
        self._begun: Dict[str, VariableSummary] = {}
        self._averaged: Dict[str, VariableSummary] = {}
        self._separate: Dict[str, VariableSummary] = {}
        self._numbers: MutableMapping[Any, int] = weakref.WeakKeyDictionary()  # of graphs
        self._graph_count = 0
        self._newest: Dict[str, int] = {}  # the number of the graph that counts, by variable
        self._equalized: Set[Tuple[int, str]] = set()  # with the numbers of graphs
        self._mixed: Set[Tuple[int, str]] = set()
        self._has_run = self._has_updated = False
        self._thread = threading.local()  # runs that read variables

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Note what a run does with variables; read those that it trains first or overwrites."""
        if getattr(self._thread, "is_reading", False):
            return
        operations = list_operations()
        plan = plan_run(session.graph, operations)
        self._runs.note_run(session, operations, plan)
        self._has_run = self._has_run or not plan.is_empty
        self._has_updated = self._has_updated or plan.has_updates
        number = self._number(session.graph)
        self._equalized.update((number, name) for name in plan.equalized)
        self._mixed.update((number, name) for name in plan.mixed)
        trained = self._trained.get(session)
        is_step = plan.averaged or plan.separate
        if is_step:
            self._note_step(session, trained, plan)
        elif trained is not None and not plan.written.isdisjoint(trained.names):
            self._read(session)

    def _number(self, graph: Any) -> int:
        """Return the number of a graph in this process."""
        if graph not in self._numbers:
            self._numbers[graph] = self._graph_count
            self._graph_count += 1
        return self._numbers[graph]

    def _note_step(self, session: Any, trained: Any, plan: RunPlan) -> None:
        number = self._number(session.graph)
        if trained is None:
            trained = self._trained[session] = _Trained()
        if trained.is_read:  # what was read is no longer so
            self._forget(name for name in trained.names if self._newest[name] == number)
        new = [each for each in plan.averaged if each.name not in trained.averaged]
        if new:
            unread = [each for each in new if each.name not in self._begun]
            summaries = self._summarize(session, unread)
            self._begun.update((each.name, each) for each in summaries)
            trained.averaged.update((each.name, each) for each in new)
        separate = [each for each in plan.separate if each.name not in trained.separate]
        trained.separate.update((each.name, each) for each in separate)
        names = [each.name for each in (*new, *separate)]
        self._forget(names)
        self._newest.update((name, number) for name in names)
        trained.is_read = False

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._averaged.pop(name, None)
            self._separate.pop(name, None)

    def before_close(self, session: Any, error: Optional[BaseException]) -> None:
        """Read the variables that a session has trained, unless a failure closes it."""
        is_exit = isinstance(error, SystemExit) and not error.code
        if error is None or is_exit or type(error).__name__ in _ENDS_OF_DATA:
            self._read(session)

    def make_report(self) -> RankReport:
        """Return the report of this rank, which is about to leave."""
        for session in open_sessions():
            if getattr(sys, "last_value", None) is None:
                self._read(session)
        report = RankReport()
        report.begun = list(self._begun.values())
        report.averaged = list(self._averaged.values())
        expected = self._equalized - self._mixed
        report.separate = [
            each
            for name, each in self._separate.items()
            if (self._newest[name], name) in expected and name not in self._averaged
        ]
        report.runs = self._runs.list_histories()
        report.has_updated = self._has_updated or (not self._has_run and _has_computed_eagerly())
        return report

    def _read(self, session: Any) -> None:
        """Read what a session has trained, unless that was done since its last step."""
        trained = self._trained.get(session)
        if trained is None or trained.is_read:
            return
        trained.is_read = True
        number = self._number(session.graph)
        counting = {name for name in trained.names if self._newest[name] == number}
        expected = {name for name in counting if (number, name) in self._equalized}
        for summaries, variables, names in (
            (self._averaged, trained.averaged, counting),
            (self._separate, trained.separate, expected),
        ):
            selected = [each for name, each in variables.items() if name in names]
            summaries.update((each.name, each) for each in self._summarize(session, selected))

    def _summarize(self, session: Any, variables: Iterable[Variable]) -> List[VariableSummary]:
        """Return summaries of variables; none where a variable is not initialised."""
        summaries: List[VariableSummary] = []
        if self._process_group.ended:
            return summaries
        self._thread.is_reading = True
        try:
            for part in _split(variables):
                # Not by the session's own attribute, which may refuse runs once the device is down.
                values = type(session).run(session, [each.read for each in part])
                for variable, value in zip(part, values):
                    dtype = variable.read.dtype.base_dtype.name
                    size = self._groups.size(variable.group)
                    ranks = tuple(
                        self._groups.world_rank(variable.group, each) for each in range(size)
                    )
                    summaries.append(summarize(variable.name, dtype, ranks, value))
        except (tf1().errors.OpError, RuntimeError, AscendError):
            return []  # not initialised, or closed meanwhile
        finally:
            self._thread.is_reading = False
        return summaries


def _split(variables: Iterable[Variable]) -> List[List[Variable]]:
    """Split variables into parts that are read at once."""
    parts: List[List[Variable]] = []
    size = _MOST_BYTES
    for variable in variables:
        read = variable.read
        variable_size = (read.shape.num_elements() or 1) * read.dtype.base_dtype.size
        if size + variable_size > _MOST_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(variable)
        size += variable_size
    return parts


def _has_computed_eagerly() -> bool:
    """Return whether TensorFlow has run operators outside of sessions."""
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    handle = getattr(context, "_context_handle", None)
    return handle is not None and bool(module.executing_eagerly())


_READS = (*VARIABLES, "ReadVariableOp", "Const")
_GLOBAL_STEP = "global_step"  # hooks of the chief fetch it, as a number that was added to 0

_Runs = List[Tuple[RunHistory, int]]


class RunRecorder:
    """Records which graphs with collectives are run, each time that it changes.

    A graph counts as loaded when a session first runs a combination of fetches: for each,
    TensorFlow makes an executor, and the vendor's adapter compiles a graph.

    Args:
        groups: The groups of ranks.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._histories: Dict[Any, RunHistory] = {}
        self._loaded: Counter[str] = Counter()  # collectives, by group
        # By session, and by what is fetched.
        self._runs: MutableMapping[Any, Dict[Any, _Runs]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def note_run(self, session: Any, operations: Sequence[Any], plan: RunPlan) -> None:
        """Note that a session runs something, in the thread that does."""
        if not plan.collectives:
            return
        with self._lock:
            runs = self._runs.setdefault(session, {})
            key = frozenset(operations)
            if key not in runs:
                runs[key] = self._load(operations, plan)
            for history, graph in runs[key]:
                history.note_run(graph)

    def list_histories(self) -> List[RunHistory]:
        """List what was run."""
        with self._lock:
            return list(self._histories.values())

    def _load(self, operations: Sequence[Any], plan: RunPlan) -> _Runs:
        line = str(user_line(sys._getframe()) or sys.argv[0])
        fetches = [each.name for each in operations if not _is_read(each)]
        by_group: Dict[str, List[str]] = {}
        for group, key in plan.collectives:
            by_group.setdefault(group, []).append(key)
        runs: _Runs = []
        for group, keys in by_group.items():
            try:
                size = self._groups.size(group)
                ranks = tuple(self._groups.world_rank(group, each) for each in range(size))
            except AscendError:  # the run itself says that there is no such group
                continue
            text = hashlib.sha256(repr(keys).encode()).hexdigest()
            history = self._histories.setdefault((ranks, text), RunHistory(ranks, text))
            runs.append((history, history.add_graph(self._loaded[group], fetches, line)))
            self._loaded[group] += len(keys)
        return runs


def _is_read(operation: Any) -> bool:
    """Return whether a fetch only reads a variable, which the chief's hooks do on one rank."""
    if operation.type == "Identity":
        operation = operation.inputs[0].op
    return operation.type in _READS or operation.name.startswith(_GLOBAL_STEP)
