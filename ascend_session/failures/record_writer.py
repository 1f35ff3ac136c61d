"""Writes ``error.json`` into a rank's folder; `failures.record` reads it.

The runner loads this file by its path before the program starts, and imports nothing with it that
the program could have a module of its own for: `json` and `traceback` would stand in its place, or
be taken for it, and when memory is short they may not load any more.
"""

import os
import sys
import time
from _json import encode_basestring  # type: ignore[attr-defined, unused-ignore]
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional

RECORD_NAME = "error.json"

_HALF_TRACEBACK, _HALF_MESSAGE = 32 * 1024, 8 * 1024  # characters that are kept of either end


def exit_code_of(error: BaseException) -> int:
    """Give the code with which Python ends because of an error, as a shell counts."""
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        return error.code & 0xFF if isinstance(error.code, int) else 1
    if type(error) is KeyboardInterrupt and sys.version_info >= (3, 8):
        return 130  # it sends itself SIGINT
    return 1


def write_record(error: BaseException, folder: str, code: "Optional[int]" = None) -> None:
    """Write an exception into a rank's folder; a full disk does not hide the exception itself.

    Args:
        error: What ends the rank's work; its traceback is written as Python prints it.
        folder: The rank's.
        code: What the process is going to end with; None means what Python makes of the error.
    """
    path = os.path.join(folder, RECORD_NAME)
    temporary = f"{path}.{os.getpid()}"
    if code is None:
        code = exit_code_of(error)
    try:
        line = _format_record(error, code, _read_time(path) or time.time())
        with open(temporary, "wb") as file:
            file.write(line)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            return


def _read_time(path: str) -> float:
    """Read when this process failed, if it recorded that before it told other ranks; else 0."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return 0.0
    is_own = text.partition('"pid": ')[2].partition(",")[0] == str(os.getpid())
    return float(text.partition('"time": ')[2].partition(",")[0]) if is_own else 0.0


def _format_record(error: BaseException, code: int, now: float) -> bytes:
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
        "traceback": _quote(_format_traceback(error)),
        "time": repr(now),
        "pid": str(os.getpid()),
        "exit_code": str(code),
    }
    return ("{" + ", ".join(f'"{key}": {fields[key]}' for key in fields) + "}\n").encode()


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
