"""How far a tuning run is: marks in its logs, and the result file as it grows.

Source: seed 003 (tuning result viewing, result files); the adapter's geop_npu.cc, ExecuteAoeTuning
(its lines to the log), and hicann/tensorflow, npu_aoe.cpp, for a library that lacks a function.
"""

import glob
import os
import re
from typing import Dict, Iterator, List, Mapping, NamedTuple, Sequence

from ascend_session.aoe.results_new import FileState, result_files

__all__ = ["Progress"]

_FAILED = re.compile(rb"exec aoe ([a-z ]{1,60}?) failed(?:\[([^\]]{1,40})\])?", re.IGNORECASE)
_NO_LIBRARY = re.compile(rb"(?:dlsym Aoe .{1,80}|libaoe_tuning\.so.{0,40})failed", re.IGNORECASE)
_MAY_SAY = re.compile(rb"aoe|in tune mode", re.IGNORECASE)
_TAKEN = b"in tune mode, training graph handled by tools"
_TUNING = b"Aoe tuning graph"
_TUNED = b"Aoe success["
_CHUNK = 2**20
_MOST = 64 * _CHUNK
_LONGEST_LINE = 4096
_TASK, _BETTER = re.compile(rb'"tuning_name"\s*:'), re.compile(rb'"(?:op_name|repo_key)"\s*:')


class _Counts(NamedTuple):
    tasks: int
    better: int

    def sentence(self, path: str) -> str:
        name = os.path.basename(path)
        what = "subgraph" if name.startswith("aoe_result_sgat") else "operator"
        done = f"{_many(self.tasks, 'task')}, {_many(self.better, what)} added or updated"
        return f"{name}: {done} so far."


class _Tail:
    """Whole lines that are new in a file which others write."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def lines(self) -> Iterator[bytes]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._at)
                for chunk in iter(lambda: file.read(_CHUNK), b""):
                    self._at += len(chunk)
                    *whole, self._rest = (self._rest + chunk).split(b"\n")
                    self._rest = self._rest[-_LONGEST_LINE:]
                    yield from whole
        except OSError:
            return


class Progress:
    """What is new each time that one looks; never raises, whatever the files hold.

    Args:
        logs: Log files, which may not be there yet; of a folder, every ``*.log`` below it.
        environ: The environment of the tuning run, for its result files.
        before: The result files that were there when it began.
    """

    def __init__(
        self, logs: Sequence[str], environ: Mapping[str, str], before: Mapping[str, FileState]
    ) -> None:
        self._logs = tuple(logs)
        self._environ = environ
        self._before = before
        self._tails: Dict[str, _Tail] = {}
        self._seen: Dict[str, FileState] = {}
        self._counts: Dict[str, _Counts] = {}
        self._graphs = 0

    def look(self) -> List[str]:
        """What is new since the last look, in sentences."""
        return [*self._marks(), *self._results()]

    def _marks(self) -> List[str]:
        said: List[str] = []
        for path in self._files():
            tail = self._tails.setdefault(path, _Tail(path))
            for line in tail.lines():
                if _MAY_SAY.search(line):
                    said += self._mark(line)
        return said

    def _files(self) -> List[str]:
        found: List[str] = []
        for log in self._logs:
            if os.path.isdir(log):
                pattern = os.path.join(glob.escape(log), "**", "*.log")
                found += sorted(glob.glob(pattern, recursive=True))
            else:
                found.append(log)
        return [path for path in found if os.path.isfile(path)]  # a pipe would keep us

    def _mark(self, line: bytes) -> List[str]:
        failed = _FAILED.search(line)
        if failed is not None:
            what = failed[1].decode("ascii", "replace")
            code = "" if failed[2] is None else f", error {failed[2].decode('ascii', 'replace')}"
            return [f"AOE failed: {what}{code}."]
        if _NO_LIBRARY.search(line):
            return ["AOE cannot be loaded: libaoe_tuning.so is missing, or of another version."]
        if _TAKEN in line:
            self._graphs += 1
            return [f"The adapter has handed graph {self._graphs} to AOE."]
        if _TUNING in line:
            return ["AOE has begun to tune a graph."]
        if _TUNED in line:
            return [f"Graph {self._graphs} is tuned." if self._graphs else "A graph is tuned."]
        return []

    def _results(self) -> List[str]:
        said = []
        for path, state in result_files(self._environ, self._before).items():
            if self._seen.get(path) == state:
                continue
            self._seen[path] = state
            counts = _counted(path)
            if counts != self._counts.get(path):
                self._counts[path] = counts
                said.append(counts.sentence(path))
        return said


def _counted(path: str) -> _Counts:
    """How often the keys occur; the file may be half-written, and is no JSON then."""
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST)
    except OSError:
        return _Counts(0, 0)
    return _Counts(len(_TASK.findall(content)), len(_BETTER.findall(content)))


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
