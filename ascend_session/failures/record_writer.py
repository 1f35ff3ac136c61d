"""Writes ``error.json`` into a rank's folder; `failures.record` reads it.

The runner loads this file by its path, before the program starts. It imports next to nothing, which
keeps a rank's start fast; and it writes JSON and prints the traceback without `json` and
`traceback`, for the program may have modules of these names, and memory may be short.
"""

import os
import sys
import time
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional

RECORD_NAME = "error.json"

_HALF_TRACEBACK, _HALF_MESSAGE = 32 * 1024, 8 * 1024  # characters that are kept of either end
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), *b'"\\')}


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
    new = f"{path}.{os.getpid()}"
    if code is None:
        code = exit_code_of(error)
    try:
        line = _as_json(error, code, _time_of(path) or time.time())
        with open(new, "wb") as file:
            file.write(line)
        os.replace(new, path)
    except BaseException:
        try:
            os.unlink(new)
        except OSError:
            return


def _time_of(path: str) -> float:
    """When this process has failed, if it has recorded that before it told other ranks; else 0."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return 0.0
    is_own = text.partition('"pid": ')[2].partition(",")[0] == str(os.getpid())
    return float(text.partition('"time": ')[2].partition(",")[0]) if is_own else 0.0


def _as_json(error: BaseException, code: int, now: float) -> bytes:
    name = type(error).__qualname__
    if type(error).__module__ != "builtins":
        name = f"{type(error).__module__}.{name}"
    try:
        message = str(error)
    except BaseException:
        message = "<exception str() failed>"
    if len(message) > 2 * _HALF_MESSAGE:
        message = message[:_HALF_MESSAGE] + "\n[...]\n" + message[-_HALF_MESSAGE:]
    texts = [_quoted(text) for text in (name, message, _printed(error))]
    form = (
        '{{"type": {}, "message": {}, "traceback": {}, "time": {!r}, "pid": {}, "exit_code": {}}}\n'
    )
    return form.format(*texts, now, os.getpid(), code).encode("utf-8")


def _quoted(text: str) -> str:
    """The text in JSON; what is no Unicode becomes visible, as in a shown line."""
    return '"' + text.encode("utf-8", "backslashreplace").decode("utf-8").translate(_ESCAPES) + '"'


def _printed(error: BaseException) -> str:
    """The traceback, with chained causes, as Python prints it."""
    stderr = sys.stderr
    collected: Any = _Collected(stderr)
    sys.stderr = collected
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
    finally:
        sys.stderr = stderr
    return str(collected.text())


class _Collected:
    """Takes what this thread writes to standard error; that of other threads passes through."""

    def __init__(self, real: "Any") -> None:
        self._real = real
        self._thread = get_ident()
        self._begin = ""
        self._end: List[str] = []
        self._ended = self._cut = 0

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._real, name)

    def write(self, text: str) -> int:
        """As of a file."""
        if get_ident() != self._thread:
            return int(self._real.write(text) or 0)
        room = _HALF_TRACEBACK - len(self._begin)
        self._begin += text[:room] if room else ""
        self._end.append(text[room:])
        self._ended += len(self._end[-1])
        if self._ended > 4 * _HALF_TRACEBACK:
            self._shorten()
        return len(text)

    def isatty(self) -> bool:
        """As of a file: no colours are wanted."""
        return False

    def flush(self) -> None:
        """As of a file."""

    def text(self) -> str:
        """What was taken: its beginning and its end, if it is long."""
        if self._ended > _HALF_TRACEBACK:
            self._shorten()
        cut = f"\n[... {self._cut} characters ...]\n" if self._cut else ""
        return self._begin + cut + "".join(self._end)

    def _shorten(self) -> None:
        kept = "".join(self._end)[-_HALF_TRACEBACK:]
        self._cut += self._ended - len(kept)
        self._end, self._ended = [kept], len(kept)
