"""The folder of a rank: the names of its files, and the functions that the rank writes them with.

| file | who writes it | who reads it |
|---|---|---|
| `STDOUT_NAME`, `STDERR_NAME` | the rank | `launcher.show`, `launcher.verdict.evidence` |
| `PLOG_FOLDER`, `WORK_FOLDER` | the vendor's stack | `launcher.verdict.evidence`, the first |
| `RECORD_NAME` | `write_record`, in a rank that fails or gets SIGTERM | `failures.record` |
| `STACKS_NAME`, `name_stacks` | `watch_stacks` in the rank, and in ranks that it starts | \
`failures.record`, `launcher.job.places` |
| `SESSIONS_NAME` | `compat.script_run` | the same, in rank 0 |

It also has what `witness` and `channel` both need to reach the launcher.

The witness loads this file by its path before the program starts, and imports nothing with it that
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
    from typing import Any, List, Mapping, Optional

RANK_FOLDER = "ASCEND_SESSION_RANK_FOLDER"
"""Variable with the folder's absolute path; set in processes launched by this package."""

RANK_PID = "ASCEND_SESSION_RANK_PID"
"""Variable with the pid of the rank; a process that the rank has started has another one."""

CHANNEL = "ASCEND_SESSION_CHANNEL"
"""Variable with the address at which the launcher takes messages, see `ascend_session.channel`."""

LAUNCHED = "ASCEND_SESSION_LAUNCHED"
"""Variable with what the launcher set for its only rank, as in ``RANK_ID=0 RANK_SIZE=1``."""

SCRIPT_RANK_PID = "ASCEND_SESSION_RANK_PROCESS"
"""Variable with the pid of a rank that a script has started; its children inherit it."""

LOGS_FOLDER = "ascend-logs"
"""Default folder of all launches."""

STDOUT_NAME, STDERR_NAME = "stdout.log", "stderr.log"
PLOG_FOLDER, WORK_FOLDER = "plog", "work"
RECORD_NAME, STACKS_NAME = "error.json", "stacks.log"
SESSIONS_NAME = "sessions.json"

STACK_SIGNAL = int(__import__("_signal").SIGRTMIN) + 7  # signal itself is slow to load
"""Number of the signal that makes a rank write its stacks; it ends other programs."""

_HALF_TRACEBACK, _HALF_MESSAGE = 32 * 1024, 8 * 1024  # characters that are kept of either end


def find_own_folder() -> str:
    """Return the folder of the rank that this process is, and not only belongs to; else empty."""
    is_rank = os.environ.get(RANK_PID) == str(os.getpid())
    return os.environ.get(RANK_FOLDER, "") if is_rank else ""


def is_rank_of_script(environ: "Mapping[str, str]") -> bool:
    """Return whether a process is one of several ranks started below a launch by a script.

    It has a ``RANK_ID`` and a ``RANK_SIZE`` that the launch did not set, and the size is above 1 or
    no number. A number that is not below the size is what a loop over ``RANK_ID`` has left over.
    """
    rank, size = environ.get("RANK_ID", ""), environ.get("RANK_SIZE", "")
    launched = environ.get(LAUNCHED, "").split()
    if not (launched and rank and size):
        return False
    is_own = "RANK_ID=" + rank in launched and "RANK_SIZE=" + size in launched
    return not (is_own or is_alone(size) or is_beyond(rank, size))


def is_alone(size: str) -> bool:
    """Return whether a RANK_SIZE is a number <= 1."""
    digits = size.strip().lstrip("-")
    is_negative = size.strip() != digits
    return digits.isdecimal() and (is_negative or digits.lstrip("0") in ("", "1"))


def is_beyond(rank: str, size: str) -> bool:
    """Return whether RANK_ID and RANK_SIZE are numbers, and the first is not below the second."""
    are_numbers = rank.isdecimal() and size.isdecimal() and len(rank + size) < 32
    return are_numbers and int(rank) >= int(size)


def name_stacks(pid: int) -> str:
    """Name the file for the stacks of a process that is not the rank itself."""
    return f"stacks_{pid}.log"


ONE_STOP_S = 1.0
"""Seconds within which several SIGTERMs are one: schedulers send them to a process and its tree."""


# High numbers that no program reaches by opening files. If the program closes every descriptor, a
# file that it opens later gets a lower number, so no stack is ever written into it.
_HIGH_DESCRIPTORS = (1000, 1001, 250, 251)


def watch_stacks(folder: str, name: str = STACKS_NAME) -> None:
    """Have `faulthandler` write to a file in the rank's folder, if that can be opened.

    If the environment asks for ``faulthandler``, crashes stay on standard error.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        fd = move_up(os.open(os.path.join(folder, name), flags, 0o666))
        if not faulthandler.is_enabled():
            faulthandler.enable(fd, all_threads=True)
        faulthandler.register(STACK_SIGNAL, fd, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError):
        return


def connect(address: str, name: str = "") -> int:
    """Connect to the launcher, without waiting for it; return a high descriptor.

    Args:
        address: That of `CHANNEL`.
        name: For the connection, which others can see as long as it lives.

    Raises:
        OSError: If the launcher cannot be reached; or ImportError.
    """
    import _socket  # only some processes connect

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        connection.setblocking(False)
        if name:
            connection.bind("\0" + name)
        connection.connect("\0" + address)
        return move_up(connection.detach())
    finally:
        connection.close()


def move_up(fd: int) -> int:
    """Move a descriptor to a free high number, if one is allowed; return its number."""
    for high in _HIGH_DESCRIPTORS:
        try:
            os.fstat(high)
        except OSError:
            try:
                os.dup2(fd, high, False)
            except OSError:  # above the limit of open files
                continue
            os.close(fd)
            return high
    return fd


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a Python program that this exception ends, as a shell sees it."""
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        return error.code & 0xFF if isinstance(error.code, int) else 1
    if type(error) is KeyboardInterrupt and sys.version_info >= (3, 8):
        return 130  # Python sends itself SIGINT
    return 1


def write_record(
    error: BaseException,
    folder: str,
    *,
    ends_program: bool = False,
    failed_rank: "Optional[int]" = None,
) -> "Optional[int]":
    """Write an exception into a rank's folder; ignore errors such as a full disk.

    Args:
        error: The exception; its traceback is written as Python prints it.
        folder: The rank's folder.
        ends_program: Whether it ends the program, and not only the rank's part in the job.
        failed_rank: The rank whose failure caused it. A later exception that quotes this one has
            the same cause.

    Returns:
        The recorded rank whose failure caused it; None for a failure of this rank itself.
    """
    path = os.path.join(folder, RECORD_NAME)
    temporary = f"{path}.{os.getpid()}"
    code = exit_code_of(error)
    try:
        trace, now = _quote(_format_traceback(error)), time.time()
        earlier = _Earlier(path)
        if failed_rank is not None and earlier.pid:
            return failed_rank  # the earlier record says more
        is_same = isinstance(error, Exception) and earlier.message in trace
        if earlier.pid == str(os.getpid()) and earlier.failed_rank is None:
            now = earlier.time
        elif earlier.pid == str(os.getpid()) and (is_same or type(error).__name__ == "Terminated"):
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


def remove_record(folder: str) -> None:
    """Remove this process's record, because the program went on after the exception."""
    path = os.path.join(folder, RECORD_NAME)
    try:
        if _Earlier(path).pid == str(os.getpid()):
            os.unlink(path)
    except (OSError, ValueError):
        return


class _Earlier:
    """The record that this rank wrote earlier, of its own failure or of another rank's."""

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
    message += _quote_inner(error)
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


def _quote_inner(error: BaseException) -> str:
    """Quote the first exception of a group, which is the reason; empty if this is no group."""
    try:
        inner = getattr(error, "exceptions", None)
        while isinstance(inner, tuple) and inner and isinstance(inner[0], BaseException):
            error, inner = inner[0], getattr(inner[0], "exceptions", None)
            if not isinstance(inner, tuple):
                return f"\n  {type(error).__qualname__}: {error}"
    except Exception:  # of the program's own exception
        return ""
    return ""


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
    """Write a text as JSON; lone surrogates become visible escapes."""
    quoted: str = encode_basestring(text.encode("utf-8", "backslashreplace").decode("utf-8"))
    return quoted


def _format_traceback(error: BaseException) -> str:
    """Return the traceback, with chained causes, as Python prints it."""
    stderr = sys.stderr
    collector: Any = _StderrCollector(stderr)
    sys.stderr = collector
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
    finally:
        sys.stderr = stderr
    return str(collector.text())


class _StderrCollector:
    """Captures this thread's standard error; that of other threads passes through."""

    def __init__(self, real: "Any") -> None:
        self._real = real
        self._thread = get_ident()
        self._begin = ""
        self._end: List[str] = []
        self._end_length = self._cut_length = 0

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._real, name)

    def write(self, text: str) -> int:
        """Keep the text, or pass it on if another thread writes it."""
        if get_ident() != self._thread:
            return int(self._real.write(text) or 0)
        free = _HALF_TRACEBACK - len(self._begin)
        self._begin += text[:free]
        self._end.append(text[free:])
        self._end_length += len(self._end[-1])
        if self._end_length > 4 * _HALF_TRACEBACK:
            self._shorten()
        return len(text)

    def isatty(self) -> bool:
        """Return False, so that nothing is coloured."""
        return False

    def flush(self) -> None:
        """Do nothing; files have this method."""

    def text(self) -> str:
        """Return the captured text; only the beginning and the end of a long one."""
        if self._end_length > _HALF_TRACEBACK:
            self._shorten()
        cut = f"\n[... {self._cut_length} characters ...]\n" if self._cut_length else ""
        return self._begin + cut + "".join(self._end)

    def _shorten(self) -> None:
        kept = "".join(self._end)[-_HALF_TRACEBACK:]
        self._cut_length += self._end_length - len(kept)
        self._end, self._end_length = [kept], len(kept)
