"""What this rank runs with collectives on the stub; `exchange.runs` says why, and compares it."""

import hashlib
import sys
import threading
import weakref
from typing import Any, Counter, Dict, List, MutableMapping, Sequence, Tuple

from ascend_session.backends._tensorflow import VARIABLES
from ascend_session.backends.averaging import RunPlan
from ascend_session.backends.collectives import Groups
from ascend_session.backends.exchange.runs import RunHistory
from ascend_session.errors import AscendError
from ascend_session.user_code import user_line

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
