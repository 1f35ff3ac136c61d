"""A tuning run: variables, repository, processes and threads, new result files, and progress.

Sources: the manual of AOE (environment variables, custom repositories, tuning result viewing); the
vendor's manual, TUNE_BANK_PATH: it has to be set alike when tuning and when using the result. The
adapter's adapter_logger.cc: its lines belong to the module FMK, and those about progress have the
level INFO (1), which the vendor's log leaves out by default; geop_npu.cc, ExecuteAoeTuning (the
lines in the log); npu_aoe.cpp, for a library that lacks a function.
"""

import contextlib
import glob
import os
import pwd
import re
import stat
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ascend_session.aoe.result_files import list_files, result_folders
from ascend_session.config.tuning import MODES, mode_number
from ascend_session.hardware.installation import TOOLKIT_FOLDERS, TOOLKIT_VARIABLES, strip_root
from ascend_session.hardware.nodes import read_host_file
from ascend_session.spelling import Message, option
from ascend_session.text import format_count

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
    """Return the variables that a tuning run needs in addition to its environment.

    ``AOE_MODE`` counts if the script does not set aoe_mode itself; work_path and aoe_config_file
    have no variable.

    Args:
        mode: ``"operator"``, ``"subgraph"``, ``"gradient"`` or the manual's number.
        environ: The environment.
        work_path: Folder for result files; None means ``ASCEND_WORK_PATH``, else the working
            directory.
        bank: Folder for the tuned repository; None leaves its variables unchanged.

    Raises:
        ConfigError: If ``mode`` is not one of AOE's.
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
        path: Absolute path of its folder, with ``${soc_version}`` for the kind of processor.
        base: The folder that the variable names; the home directory if no variable is set.
        variable: ``TUNE_BANK_PATH`` or ``ASCEND_CACHE_PATH``; None if neither is set.
    """

    path: str
    base: str
    variable: Optional[str]


def find_repository(mode: str, environ: Mapping[str, str]) -> Repository:
    """Find the repository that a tuning run writes, and that later runs read.

    Args:
        mode: ``"operator"`` or ``"subgraph"``, or the manual's number; gradients have none.
        environ: The environment of the run.

    Raises:
        ConfigError: If ``mode`` is not one of AOE's.
        ValueError: For gradients.
    """
    number = mode_number(mode)
    if number == MODES["gradient"]:
        raise ValueError("Gradient tuning has no repository: its result goes into the script.")
    is_operator = number == MODES["operator"]
    variable = next((name for name in (BANK, CACHE) if environ.get(name)), None)
    if variable is None:
        base, kind = find_home(environ), "op" if is_operator else "graph"
        parts = ["Ascend", "latest", "data", "aoe", "custom", kind, _SOC]
    else:
        base = environ[variable]
        parts = ["aoe_data"] * (variable == CACHE) + [_SOC] * is_operator
    base = os.path.abspath(base)
    return Repository(os.path.join(base, *parts), base, variable)


class FileState(NamedTuple):
    """The state of a file; states sort by age.

    Attributes:
        written: When it was last written, in nanoseconds since 1970.
        path: Its path.
        size: Its size in bytes.
    """

    written: int
    path: str
    size: int


def find_new_results(
    environ: Mapping[str, str], before: Optional[Mapping[str, FileState]] = None
) -> Dict[str, FileState]:
    """Find the new result files of the first folder that has any, the oldest first.

    Args:
        environ: The environment of the tuning run.
        before: The states of the files of earlier runs; a file with the same state is not new.
    """
    for folder in result_folders(environ):
        states = _list_states(folder)
        new = [path for path in states if (before or {}).get(path) != states[path]]
        if new:
            return {path: states[path] for path in sorted(new, key=lambda path: states[path])}
    return {}


def find_earlier_results(environ: Mapping[str, str]) -> Dict[str, FileState]:
    """Find the result files of earlier runs, in all folders."""
    states: Dict[str, FileState] = {}
    for folder in result_folders(environ):
        states.update(_list_states(folder))
    return states


def _list_states(folder: str) -> Dict[str, FileState]:
    """List the states of the result files in a folder, without pipes and files just removed."""
    states = {}
    for path in list_files(os.path.abspath(folder)):
        with contextlib.suppress(OSError):
            facts = os.stat(path)
            if stat.S_ISREG(facts.st_mode):  # opening a pipe would block
                states[path] = FileState(facts.st_mtime_ns, path, facts.st_size)
    return states


class _Tail:
    """Reads the new complete lines of a file that another process writes."""

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
        logs: Log files, which may not exist yet, and folders of which all ``*.log`` are read.
        environ: The environment of the tuning run, for its result files.
        before: The result files of earlier runs.
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
        """Return what happened since the last call, in sentences."""
        return [*self._read_logs(), *self._read_results()]

    def _read_logs(self) -> Iterator[str]:
        for log in self._logs:
            paths = [log]
            if os.path.isdir(log):
                pattern = os.path.join(glob.escape(log), "**", "*.log")
                paths = sorted(glob.glob(pattern, recursive=True))
            for path in filter(os.path.isfile, paths):  # opening a pipe would block
                tail = self._tails.setdefault(path, _Tail(path))
                for line in filter(_MAY_SAY.search, tail.lines()):
                    sentence = self._translate(line)
                    if sentence is not None:
                        yield sentence

    def _translate(self, line: bytes) -> Optional[str]:
        """Turn a log line of the adapter about tuning into a sentence; None for other lines."""
        failed = _FAILED.search(line)
        if failed is not None:
            call, code = (b"" if part is None else part for part in failed.groups())
            error = f", error {code.decode('ascii', 'replace')}" if code else ""
            return f"AOE failed: {call.decode('ascii', 'replace')}{error}."
        if _NO_LIBRARY.search(line):
            return "AOE cannot be loaded: libaoe_tuning.so is missing, or has another version."
        if b"in tune mode, training graph handled by tools" in line:
            self._graphs += 1
            return f"The adapter has handed graph {self._graphs} to AOE."
        if b"Aoe tuning graph" in line:
            return "AOE started tuning a graph."
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
    """Count tasks and items in a result file, which is not JSON while AOE is writing it."""
    content = b""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        content = file.read(_MOST_BYTES)
    tasks, items = len(_TASK.findall(content)), len(_ITEM.findall(content))
    name = os.path.basename(path)
    kind = "subgraph" if name.startswith("aoe_result_sgat") else "operator"
    counts = f"{format_count(tasks, 'task')}, {format_count(items, kind)}"
    return f"{name}: {counts} added or updated so far."


MOST_PARALLEL = 64
"""The highest TUNING_PARALLEL_NUM."""

# How many processes and threads AOE starts. Sources: the vendor's manual, TE_PARALLEL_COMPILER; the
# manual of AOE, "Configuration File": aoe.ini is in tools/aoe/conf of the toolkit, or in conf of
# newer ones; TUNING_PARALLEL_NUM is from 1 to 64, and 8 by default.
_COMPILERS, _MOST_COMPILERS, _DEFAULT = "TE_PARALLEL_COMPILER", 32, 8
_FILES = ("tools/aoe/conf/aoe.ini", "conf/aoe.ini")
_LINE = re.compile(r"\s*TUNING_PARALLEL_NUM\s*=\s*(.*?)\s*")


def find_home(environ: Mapping[str, str]) -> str:
    """Return ``HOME``, else the home directory of this user's account, else ``/``."""
    given = environ.get("HOME")
    if given:
        return given
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container may run as a user without an account
        return "/"


class Parallel(NamedTuple):
    """A number of processes or threads, and where it comes from.

    Attributes:
        number: The number; None if the setting is not a number.
        origin: Where it is set, or what is wrong with it, as a sentence without full stop.
        legal: Whether the vendor's software accepts it.
        is_set: True if it is set anywhere; False if it is the default.
    """

    number: Optional[int]
    origin: str
    legal: bool = True
    is_set: bool = True

    @property
    def legal_number(self) -> Optional[int]:
        """The number if the vendor's software accepts it, else None."""
        return self.number if self.legal else None


def count_compilers(environ: Mapping[str, str]) -> Parallel:
    """Find TE_PARALLEL_COMPILER, the number of processes that compile operators."""
    given = environ.get(_COMPILERS, "").strip()
    if not given:
        origin = f"{_COMPILERS} is not set, and {_DEFAULT} by default"
        return Parallel(_DEFAULT, origin, is_set=False)
    number = _parse_whole(given)
    if number is None or not 1 <= number <= _MOST_COMPILERS:
        origin = f"{_COMPILERS}={given!r} is not a whole number from 1 to {_MOST_COMPILERS}"
        return Parallel(number, origin, legal=False)
    return Parallel(number, f"{_COMPILERS}={number}")


def count_tuners(given: Optional[int], environ: Mapping[str, str], root: str) -> Parallel:
    """Find TUNING_PARALLEL_NUM, the number of threads that tune.

    Args:
        given: The number that the user gives; None means that of the toolkit's aoe.ini.
        environ: The environment, which may name the toolkit.
        root: Root of the host.
    """
    if given is not None:
        return Parallel(given, Message(f"{option('tuning_parallel_num', given)}, as was given"))
    named = [strip_root(root, environ[name]) for name in TOOLKIT_VARIABLES if environ.get(name)]
    for folder in (*named, *TOOLKIT_FOLDERS):
        for name in _FILES:
            path = os.path.join(root, folder, name)
            if os.path.isfile(path) and os.access(path, os.R_OK):
                text = read_host_file(root, path) or ""
                return _parse_aoe_ini(f"/{os.path.join(folder, name)}", text)
    origin = f"No aoe.ini of the toolkit was found; the default is {_DEFAULT}"
    return Parallel(_DEFAULT, origin, is_set=False)


def _parse_aoe_ini(path: str, text: str) -> Parallel:
    values = [match.group(1) for match in map(_LINE.fullmatch, text.splitlines()) if match]
    if not values:
        return Parallel(_DEFAULT, f"{path} does not set it; the default is {_DEFAULT}")
    number = _parse_whole(values[-1])
    if number is None or not 1 <= number <= MOST_PARALLEL:
        origin = f"{path} has {values[-1]!r}, which is not a whole number from 1 to {MOST_PARALLEL}"
        return Parallel(number, origin, legal=False)
    return Parallel(number, f"{path} has {number}")


def _parse_whole(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None
