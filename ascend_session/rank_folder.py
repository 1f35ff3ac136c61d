"""The folder of a rank: the name of every file in it, and what the rank itself writes there.

| file | who writes it | who reads it |
|---|---|---|
| `STDOUT_NAME`, `STDERR_NAME` | `launcher.pump`, of what the rank writes | `launcher.cause` |
| `PLOG_FOLDER`, `WORK_FOLDER` | the vendor's stack | `launcher.cause`, the first |
| `RECORD_NAME` | `write_record`, for the runner and for ranks of the stub | `failures.record` |
| `STACKS_NAME`, `name_stacks` | `watch_stacks` in the runner, `cluster.member` without one | \
`failures.record`, `launcher.activity` |
| `name_process` | `cluster.member`, and `cluster.script_rank` before it | `cluster.member` |
| `name_waiting`, `ABSENT_NAME` | `cluster.member` | the same |
| `FIRST_STEP_NAME` | `write_first_step`, for `training.progress` | `read_first_step` |
| `SESSIONS_NAME` | `compat.sessions` | the same, in rank 0 |

The runner loads this file by its path before the program starts, and imports nothing with it that
the program could have a module of its own for: `json` and `traceback` would stand in its place, or
be taken for it, and when memory is short they may not load any more.
"""

import faulthandler
import os
import sys
import time
from _json import encode_basestring  # type: ignore[attr-defined, unused-ignore]
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional

RANK_FOLDER = "ASCEND_SESSION_RANK_FOLDER"
"""Variable with the folder's absolute path; a process that has it was launched by this package."""

LOGS_FOLDER = "ascend-logs"
"""Where the folders of all launches are, where no other place is given."""

STDOUT_NAME, STDERR_NAME = "stdout.log", "stderr.log"
PLOG_FOLDER, WORK_FOLDER = "plog", "work"
RECORD_NAME, STACKS_NAME = "error.json", "stacks.log"
PROCESS_PREFIX, PROCESS_SUFFIX = "process_", ".json"
ABSENT_NAME, FIRST_STEP_NAME, SESSIONS_NAME = "absent_ranks.json", "first_step", "sessions.json"

STACK_SIGNAL = int(__import__("_signal").SIGRTMIN) + 7  # signal itself is slow to load
"""Number of the signal that makes a rank write its stacks; it ends a program that has no runner."""

_HALF_TRACEBACK, _HALF_MESSAGE = 32 * 1024, 8 * 1024  # characters that are kept of either end


def name_process(pid: int) -> str:
    """Name the file in which a process says what it does in the job."""
    return f"{PROCESS_PREFIX}{pid}{PROCESS_SUFFIX}"


def name_waiting(pid: int) -> str:
    """Name the file that is there while a process waits for other ranks to come."""
    return f"waiting_{pid}"


def name_stacks(pid: int) -> str:
    """Name the file for the stacks of a process that the launcher's runner has not started."""
    return f"stacks_{pid}.log"


def write_first_step(folder: str, step: int) -> None:
    """Write the global step with which rank 0 begins; trouble with the file is no matter."""
    path = os.path.join(folder, FIRST_STEP_NAME)
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(str(int(step)).encode())
        os.replace(temporary, path)
    except OSError:
        return


def read_first_step(folder: str) -> "Optional[int]":
    """Read the step with which a rank began; None if it has written none."""
    try:
        with open(os.path.join(folder, FIRST_STEP_NAME)) as file:
            text = file.read(32)
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None


# Descriptors that no program reaches. If one closes all that it does not know, what it opens then
# gets another number, and no stack is ever written into a file of its own.
_OUT_OF_THE_WAY = (1000, 250)


def watch_stacks(folder: str) -> None:
    """Have `faulthandler` write to a file in the rank's folder, if that can be opened.

    If the environment asks for ``faulthandler``, crashes stay on standard error.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        fd = _moved(os.open(os.path.join(folder, STACKS_NAME), flags, 0o666))
        if not faulthandler.is_enabled():
            faulthandler.enable(fd, all_threads=True)
        faulthandler.register(STACK_SIGNAL, fd, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError):
        return


def _moved(fd: int) -> int:
    for high in _OUT_OF_THE_WAY:
        try:
            os.fstat(high)
        except OSError:
            try:
                os.dup2(fd, high, False)
            except OSError:  # so many are not allowed
                continue
            os.close(fd)
            return high
    return fd


def exit_code_of(error: BaseException) -> int:
    """Give the code with which Python ends because of an error, as a shell counts."""
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        return error.code & 0xFF if isinstance(error.code, int) else 1
    if type(error) is KeyboardInterrupt and sys.version_info >= (3, 8):
        return 130  # it sends itself SIGINT
    return 1


def write_record(
    error: BaseException,
    folder: str,
    code: "Optional[int]" = None,
    *,
    ends_program: bool = False,
    failed_rank: "Optional[int]" = None,
) -> "Optional[int]":
    """Write an exception into a rank's folder; a full disk does not hide the exception itself.

    Args:
        error: What ends the rank's work; its traceback is written as Python prints it.
        folder: The rank's.
        code: What the process is going to end with; None means what Python makes of the error.
        ends_program: Whether the program ends with it, and not only its part in the job.
        failed_rank: The rank whose failure it follows from. What raises with the same text later
            follows from it, too.

    Returns:
        The rank whose failure it follows from, as it was recorded; None for a failure of its own.
    """
    path = os.path.join(folder, RECORD_NAME)
    temporary = f"{path}.{os.getpid()}"
    if code is None:
        code = exit_code_of(error)
    try:
        trace, now = _quote(_format_traceback(error)), time.time()
        earlier = _Earlier(path)
        if failed_rank is not None and earlier.pid:
            return failed_rank  # what was recorded before says more
        is_same = isinstance(error, Exception) and earlier.message in trace
        if earlier.pid == str(os.getpid()) and earlier.failed_rank is None:
            now = earlier.time
        elif earlier.pid == str(os.getpid()) and (is_same or _was_terminated(error, trace)):
            now, failed_rank = earlier.time, earlier.failed_rank
        line = _format_record(error, trace, code, now, ends_program, failed_rank)
        with open(temporary, "wb") as file:
            file.write(line)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            return None
        return None
    return failed_rank


def _was_terminated(error: BaseException, trace: str) -> bool:
    """Tell whether SIGTERM came, which may be before what the rank has heard was raised.

    TensorFlow 2 raises an error of its own when a signal comes while it makes one.
    """
    return type(error).__name__ == "Terminated" or "REPLACED BY Terminated" in trace


def remove_record(folder: str) -> None:
    """Remove what this process has recorded in its folder: the program has gone on after it."""
    path = os.path.join(folder, RECORD_NAME)
    try:
        if _Earlier(path).pid == str(os.getpid()):
            os.unlink(path)
    except (OSError, ValueError):
        return


class _Earlier:
    """What was recorded before, when this rank told the others that it fails, or heard of one."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            text = ""
        self.pid = _between(text, '"pid": ', ",")
        self.time = float(_between(text, '"time": ', ",") or 0)
        self.message = _between(text, '"message": "', '", "traceback": "')
        rank = _between(text, '"failed_rank": ', "}")
        self.failed_rank = int(rank) if rank.isdigit() else None  # type: Optional[int]


def _between(text: str, begin: str, end: str) -> str:
    return text.rpartition(begin)[2].partition(end)[0] if begin in text else ""


_MOST_FRAMES = 100


def _format_record(
    error: BaseException,
    trace: str,
    code: int,
    now: float,
    ends_program: bool,
    failed_rank: "Optional[int]",
) -> bytes:
    name = type(error).__qualname__
    if type(error).__module__ != "builtins":
        name = f"{type(error).__module__}.{name}"
    try:
        message = str(error)
    except BaseException:
        message = "<exception str() failed>"
    if len(message) > 2 * _HALF_MESSAGE:
        message = message[:_HALF_MESSAGE] + "\n[...]\n" + message[-_HALF_MESSAGE:]
    fields = {
        "type": _quote(name),
        "message": _quote(message),
        "traceback": trace,
        "frames": _format_frames(error),
        "time": repr(now),
        "pid": str(os.getpid()),
        "exit_code": str(code),
        "ends_program": "true" if ends_program else "false",
        "failed_rank": "null" if failed_rank is None else str(failed_rank),
    }
    return ("{" + ", ".join(f'"{key}": {fields[key]}' for key in fields) + "}\n").encode()


def _format_frames(error: BaseException) -> str:
    """Write file, line and function of the innermost frames, the innermost one last."""
    frames = []  # type: List[str]
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"[{_quote(code.co_filename)}, {trace.tb_lineno}, {_quote(code.co_name)}]")
        trace = trace.tb_next
    return "[" + ", ".join(frames[-_MOST_FRAMES:]) + "]"


def _quote(text: str) -> str:
    """Write a text as JSON; what is no Unicode becomes visible, as in a line on the screen."""
    quoted: str = encode_basestring(text.encode("utf-8", "backslashreplace").decode("utf-8"))
    return quoted


def _format_traceback(error: BaseException) -> str:
    """Give the traceback, with chained causes, as Python prints it."""
    stderr = sys.stderr
    collector: Any = _StderrCollector(stderr)
    sys.stderr = collector
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
    finally:
        sys.stderr = stderr
    return str(collector.text())


class _StderrCollector:
    """Takes what this thread writes to standard error; that of other threads passes through."""

    def __init__(self, real: "Any") -> None:
        self._real = real
        self._thread = get_ident()
        self._begin = ""
        self._end: List[str] = []
        self._end_length = self._cut_length = 0

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._real, name)

    def write(self, text: str) -> int:
        """As of a file."""
        if get_ident() != self._thread:
            return int(self._real.write(text) or 0)
        room = _HALF_TRACEBACK - len(self._begin)
        self._begin += text[:room] if room else ""
        self._end.append(text[room:])
        self._end_length += len(self._end[-1])
        if self._end_length > 4 * _HALF_TRACEBACK:
            self._shorten()
        return len(text)

    def isatty(self) -> bool:
        """As of a file: no colours are wanted."""
        return False

    def flush(self) -> None:
        """As of a file."""

    def text(self) -> str:
        """Give what was taken: its beginning and its end, if it is long."""
        if self._end_length > _HALF_TRACEBACK:
            self._shorten()
        cut = f"\n[... {self._cut_length} characters ...]\n" if self._cut_length else ""
        return self._begin + cut + "".join(self._end)

    def _shorten(self) -> None:
        kept = "".join(self._end)[-_HALF_TRACEBACK:]
        self._cut_length += self._end_length - len(kept)
        self._end, self._end_length = [kept], len(kept)
