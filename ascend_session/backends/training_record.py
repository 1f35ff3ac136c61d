"""The record of a training: a JSON line for each training run, for ``ascend-session compare``.

The first line of a process has the options, the versions and the number of ranks. Nothing is
fetched for the record: it has the scalars that the script fetches with the step, and the norm of
each averaged gradient where the script fetches it, or the stub exchanges it. Each line is written
at once and as a whole, so that a process that is ended has recorded all steps until then.
"""

import fcntl
import json
import os
import platform
import threading
import weakref
from typing import Any, Dict, Iterator, MutableMapping, Optional, Sequence, Tuple

from ascend_session import __version__
from ascend_session.backends import choose
from ascend_session.backends._tensorflow import find_global_step, keep_on, tf1, walk_inputs
from ascend_session.backends.averaging import (
    find_averaged,
    find_updated,
    name_averaged,
    plan_run,
)
from ascend_session.backends.host_loop import is_made_by_host
from ascend_session.backends.tf_sessions import SessionObserver, list_fetched
from ascend_session.cluster.records import name_record, read_rank
from ascend_session.cluster.variables import read_size
from ascend_session.config.entry import read_entries
from ascend_session.config.overlay import read_overlay
from ascend_session.errors import write_stderr
from ascend_session.vendor import LOOP_COUNTER
from ascend_session.witness import RECORD_VARIABLE

_STEP_READS = "_ascend_session_step_reads"  # attribute of a graph: by the name of a tensor
_BLOCK = 1 << 20  # elements of an array that are squared at a time

_recorder: "Optional[TrainingRecorder]" = None


def make_recorder() -> "TrainingRecorder":
    """Return the recorder of this process."""
    global _recorder
    if _recorder is None:
        _recorder = TrainingRecorder(os.environ[RECORD_VARIABLE])
    return _recorder


def note_sums(graph: Any, names: Sequence[str], sums: Sequence[Any], size: int) -> None:
    """Note the sums of an allreduce over so many ranks, by the names of their tensors."""
    if _recorder is not None and graph is not None:
        _recorder.note_sums(graph, names, sums, size)


class TrainingRecorder(SessionObserver):
    """Records the training runs of this process.

    Args:
        path: The file of rank 0.
    """

    def __init__(self, path: str) -> None:
        self._rank = read_rank(os.environ)
        self._path = name_record(path, self._rank)
        self._fd: Optional[int] = None
        self._pid = -1  # the process that records; others that it forks do not
        self._is_over = False
        self._step = 0
        # By session: how many steps a run of the operation makes that the device repeats.
        self._loops: MutableMapping[Any, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        # By graph: norms by variable, of what was exchanged since the last training run.
        self._norms: MutableMapping[Any, Dict[str, float]] = weakref.WeakKeyDictionary()
        self._names: MutableMapping[Any, Dict[str, str]] = weakref.WeakKeyDictionary()

    def note_sums(self, graph: Any, names: Sequence[str], sums: Sequence[Any], size: int) -> None:
        """Note sums of gradients; those of anything else are not of interest."""
        by_sum = self._names.setdefault(graph, {})
        for name, array in zip(names, sums):
            if name not in by_sum:
                total = graph.get_tensor_by_name(name)
                by_sum[name] = find_averaged(total) or find_updated(total)
            if by_sum[name]:
                self._norms.setdefault(graph, {})[by_sum[name]] = _norm(array) / size

    def after_run(self, session: Any, fetches: Any, values: Any, feeds: Any) -> None:
        """Record a run if it trains, by its last step: on a device, one run may make several."""
        if self._is_over or self._pid not in (-1, os.getpid()):
            return
        if getattr(fetches, "name", "") == f"{LOOP_COUNTER}/Assign" and feeds:
            self._loops[session] = int(next(iter(feeds.values()))) + 1
            return
        plan = plan_run(session.graph, list_fetched(session.graph, fetches))
        if not plan.has_updates:
            return
        with self._lock:
            scalars, norms = _read_fetched(session.graph, fetches, values)
            norms = {**self._norms.pop(session.graph, {}), **norms}
            if self._fd is None:
                self._open(session)
            is_one = is_made_by_host(session.graph) or not plan.is_looped
            self._step += 1 if is_one else self._loops.get(session, 1)
            line = {"step": self._step, "rank": self._rank, "values": _plain(scalars)}
            if norms:
                line["norms"] = _plain(norms)
            self._write(line)

    def _open(self, session: Any) -> None:
        """Open the file and write the first line, unless another process of this rank records."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._pid = os.getpid()
        try:
            self._fd = os.open(self._path, flags, 0o666)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._stop("another process of this rank records its training there")
        except OSError as failure:
            if self._fd is None:  # else a file system without locks
                self._stop(failure.strerror)
        if not self._is_over:
            self._write(self._describe(session))

    def _describe(self, session: Any) -> Dict[str, Any]:
        entries = read_entries(session._config)[0] if session._config is not None else []
        return {
            "record": 1,
            "rank": self._rank,
            "ranks": read_size(os.environ) or 1,
            "job": os.environ.get("JOB_ID", ""),
            "backend": choose("auto", os.environ).name,
            "versions": {
                "ascend_session": __version__,
                "tensorflow": tf1().__version__,
                "python": platform.python_version(),
            },
            "options": dict(entries[-1].written) if entries else {},
            "set": read_overlay(os.environ),
        }

    def _write(self, line: Dict[str, Any]) -> None:
        """Write a line; where that fails, the training goes on without a record."""
        if self._fd is None or self._is_over:
            return
        data = json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            if os.write(self._fd, data) < len(data):
                self._stop("there is no room for a whole line")
        except OSError as failure:
            self._stop(failure.strerror)

    def _stop(self, why: Optional[str]) -> None:
        self._is_over = True
        if self._fd is not None:
            os.close(self._fd)
        write_stderr(
            f"ascend-session: {self._path} gets no lines from step {self._step} on: {why}. The "
            "training continues.\n"
        )


def _read_fetched(
    graph: Any, fetches: Any, values: Any
) -> Tuple[Dict[str, float], Dict[str, float]]:
    """Return the scalars among what was fetched, and the norms of averaged gradients, by name."""
    import numpy as np

    scalars: Dict[str, float] = {}
    norms: Dict[str, float] = {}
    for fetch, value in _pair(fetches, values):
        try:
            tensor = graph.as_graph_element(fetch, allow_operation=False)
            array = np.asarray(value)
            if array.size == 1 and array.ndim <= 1 and not _reads_global_step(tensor):
                scalars[tensor.name.partition(":")[0]] = float(array.reshape(())[()])
            variable = name_averaged(tensor)
            if variable:
                norms[variable] = _norm(array)
        except (TypeError, ValueError, KeyError):  # an operation, text, or several tensors in one
            continue
    return scalars, norms


def _reads_global_step(tensor: Any) -> bool:
    """Return whether it is the global step, which is read before the update in one run, or after.

    Hooks fetch it beside the step, and nothing in the graph says which of both comes first.
    """
    if not tensor.dtype.is_integer:
        return False
    graph = tensor.graph
    reads: Dict[str, bool] = keep_on(graph, _STEP_READS)
    if tensor.name not in reads:
        step = find_global_step(graph)
        holder = getattr(getattr(step, "handle", step), "op", None)
        reads[tensor.name] = holder in walk_inputs(tensor.op, by_control=False)
    return reads[tensor.name]


def _pair(fetches: Any, values: Any) -> Iterator[Tuple[Any, Any]]:
    """Yield what was fetched with its value, out of lists and mappings."""
    if isinstance(fetches, dict) and isinstance(values, dict):
        for key in fetches:
            yield from _pair(fetches[key], values.get(key))
    elif isinstance(fetches, (list, tuple)) and isinstance(values, (list, tuple)):
        for fetch, value in zip(fetches, values):
            yield from _pair(fetch, value)
    elif values is not None:
        yield fetches, values


def _norm(array: Any) -> float:
    import numpy as np

    flat = np.asarray(array).reshape(-1)
    squares = 0.0
    with np.errstate(all="ignore"):
        for begin in range(0, flat.size, _BLOCK):
            block = flat[begin : begin + _BLOCK].astype(np.float64)
            squares += float(np.dot(block, block))
    return float(squares**0.5)


def _plain(numbers: Dict[str, float]) -> Dict[str, Any]:
    """Write NaN and infinities as text, which JSON has no numbers for."""
    return {
        name: number if number - number == 0 else repr(number) for name, number in numbers.items()
    }
