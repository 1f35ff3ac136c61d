"""A tuning run: variables, repository, new result files, and progress.

Sources: the manual of AOE (environment variables, custom repositories, tuning result viewing); the
vendor's manual, TUNE_BANK_PATH: what was set while tuning has to be set when the result is used,
too. The adapter's adapter_logger.cc: its lines belong to the module FMK, and those by which a run
is followed are of level INFO, 1, which the vendor's log does not keep by default; geop_npu.cc,
ExecuteAoeTuning (its lines to the log); npu_aoe.cpp, for a library that lacks a function.
"""

import contextlib
import glob
import os
import re
import stat
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ascend_session.aoe.machine import find_home
from ascend_session.aoe.result_files import files_in, result_folders
from ascend_session.config.tuning import MODES, mode_number

BANK, CACHE = "TUNE_BANK_PATH", "ASCEND_CACHE_PATH"

_LEVELS = ("ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_MODULE_LOG_LEVEL")
_WORK = "ASCEND_WORK_PATH"
_SOC = "${soc_version}"
_FAILED = re.compile(rb"exec aoe ([a-z ]{1,60}?) failed(?:\[([^\]]{1,40})\])?", re.IGNORECASE)
_NO_LIBRARY = re.compile(rb"(?:dlsym Aoe .{1,80}|libaoe_tuning\.so.{0,40})failed", re.IGNORECASE)
_MAY_SAY = re.compile(rb"aoe|in tune mode", re.IGNORECASE)
_CHUNK_BYTES = 2**20
_MOST_BYTES = 64 * _CHUNK_BYTES
_LONGEST_LINE = 4096
_TASK, _ITEM = re.compile(rb'"tuning_name"\s*:'), re.compile(rb'"(?:op_name|repo_key)"\s*:')


def make_variables(
    mode: str,
    environ: Mapping[str, str],
    work_path: Optional[str] = None,
    bank: Optional[str] = None,
) -> Dict[str, str]:
    """Return what a tuning run has in its environment besides what is there.

    ``AOE_MODE`` counts where the script does not set aoe_mode itself; work_path and
    aoe_config_file have no variable.

    Args:
        mode: ``"operator"``, ``"subgraph"``, ``"gradient"`` or the manual's number.
        environ: What is there.
        work_path: Folder for result files; None means ``ASCEND_WORK_PATH``, else the working
            directory.
        bank: Folder for the tuned repository; None leaves its variables as they are.

    Raises:
        ConfigError: If it is no mode of AOE.
    """
    variables = {
        "AOE_MODE": mode_number(mode),
        _WORK: os.path.abspath(work_path or environ.get(_WORK) or "."),
    }
    if bank is not None:
        variables[BANK] = os.path.abspath(bank)
    if not any(environ.get(name) for name in _LEVELS):
        variables["ASCEND_MODULE_LOG_LEVEL"] = "FMK=1"
    return variables


class Repository(NamedTuple):
    """The custom repository of one mode.

    Attributes:
        path: Its folder, absolute. The last part is ``${soc_version}`` where that is not known.
        base: What the variable names; the home directory if no variable is set.
        variable: ``TUNE_BANK_PATH`` or ``ASCEND_CACHE_PATH``; None if neither is set.
    """

    path: str
    base: str
    variable: Optional[str]


def find_repository(
    mode: str, environ: Mapping[str, str], soc_version: Optional[str] = None
) -> Repository:
    """Find the repository that a run with this environment writes when it tunes, and reads later.

    Args:
        mode: ``"operator"`` or ``"subgraph"``, or the manual's number; gradients have none.
        environ: The environment of the run.
        soc_version: As ``Ascend910B3``; None if it is not known.

    Raises:
        ConfigError: If it is no mode of AOE.
        ValueError: For gradients.
    """
    number = mode_number(mode)
    if number == MODES["gradient"]:
        raise ValueError("Gradient tuning has no repository: its result goes into the script.")
    is_operator = number == MODES["operator"]
    soc = soc_version or _SOC
    variable = next((name for name in (BANK, CACHE) if environ.get(name)), None)
    if variable is None:
        base, kind = find_home(environ), "op" if is_operator else "graph"
        parts = ["Ascend", "latest", "data", "aoe", "custom", kind, soc]
    else:
        base = environ[variable]
        parts = ["aoe_data"] * (variable == CACHE) + [soc] * is_operator
    base = os.path.abspath(base)
    return Repository(os.path.join(base, *parts), base, variable)


class FileState(NamedTuple):
    """A file as it is now; states sort by age.

    Attributes:
        written: When it was last written, in nanoseconds since 1970.
        path: Its path.
        size: Its size, bytes.
    """

    written: int
    path: str
    size: int


def find_new_results(
    environ: Mapping[str, str], before: Optional[Mapping[str, FileState]] = None
) -> Dict[str, FileState]:
    """Find the result files of the first folder that has any, the oldest first, with their states.

    Args:
        environ: The environment of the tuning run.
        before: Files in a state that is listed here do not count: they are of earlier runs.
    """
    for folder in result_folders(environ):
        states = _list_states(folder)
        new = [path for path in states if (before or {}).get(path) != states[path]]
        if new:
            return {path: states[path] for path in sorted(new, key=lambda path: states[path])}
    return {}


def find_earlier_results(environ: Mapping[str, str]) -> Dict[str, FileState]:
    """Find the result files that are there before a run, in all folders."""
    states: Dict[str, FileState] = {}
    for folder in result_folders(environ):
        states.update(_list_states(folder))
    return states


def _list_states(folder: str) -> Dict[str, FileState]:
    """Look at the result files of a folder; what is gone meanwhile, or no file, is left out."""
    states = {}
    for path in files_in(os.path.abspath(folder)):
        with contextlib.suppress(OSError):
            facts = os.stat(path)
            if stat.S_ISREG(facts.st_mode):  # a pipe would keep whoever opens it
                states[path] = FileState(facts.st_mtime_ns, path, facts.st_size)
    return states


class _Tail:
    """Whole lines that are new in a file which others write."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines; none if the file cannot be read."""
        with contextlib.suppress(OSError), open(self._path, "rb") as file:
            file.seek(self._at)
            for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
                self._at += len(chunk)
                *whole, self._rest = (self._rest + chunk).split(b"\n")
                self._rest = self._rest[-_LONGEST_LINE:]
                yield from whole


class TuningProgress:
    """The progress of a tuning run, read from its logs and result files; never raises.

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
        self._sentences: Dict[str, str] = {}
        self._graphs = 0

    def look(self) -> List[str]:
        """Return news since the last call, in sentences."""
        return [*self._read_logs(), *self._read_results()]

    def _read_logs(self) -> Iterator[str]:
        for log in self._logs:
            paths = [log]
            if os.path.isdir(log):
                pattern = os.path.join(glob.escape(log), "**", "*.log")
                paths = sorted(glob.glob(pattern, recursive=True))
            for path in filter(os.path.isfile, paths):  # a pipe would keep us
                tail = self._tails.setdefault(path, _Tail(path))
                for line in filter(_MAY_SAY.search, tail.lines()):
                    sentence = self._translate(line)
                    if sentence is not None:
                        yield sentence

    def _translate(self, line: bytes) -> Optional[str]:
        """Translate a line of a log that is a mark of the adapter's."""
        failed = _FAILED.search(line)
        if failed is not None:
            call, code = (b"" if part is None else part for part in failed.groups())
            error = f", error {code.decode('ascii', 'replace')}" if code else ""
            return f"AOE failed: {call.decode('ascii', 'replace')}{error}."
        if _NO_LIBRARY.search(line):
            return "AOE cannot be loaded: libaoe_tuning.so is missing, or of another version."
        if b"in tune mode, training graph handled by tools" in line:
            self._graphs += 1
            return f"The adapter has handed graph {self._graphs} to AOE."
        if b"Aoe tuning graph" in line:
            return "AOE has begun to tune a graph."
        if b"Aoe success[" in line:
            return f"Graph {self._graphs} is tuned." if self._graphs else "A graph is tuned."
        return None

    def _read_results(self) -> Iterator[str]:
        for path, state in find_new_results(self._environ, self._before).items():
            if self._seen.get(path) == state:
                continue
            self._seen[path] = state
            sentence = _count_results(path)
            if sentence != self._sentences.get(path):
                self._sentences[path] = sentence
                yield sentence


def _count_results(path: str) -> str:
    """Return how often the keys occur in a file that may be half-written, and is no JSON then."""
    content = b""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        content = file.read(_MOST_BYTES)
    tasks, items = len(_TASK.findall(content)), len(_ITEM.findall(content))
    name = os.path.basename(path)
    kind = "subgraph" if name.startswith("aoe_result_sgat") else "operator"
    return (
        f"{name}: {tasks} task{'' if tasks == 1 else 's'}, {items} {kind}"
        f"{'' if items == 1 else 's'} added or updated so far."
    )
