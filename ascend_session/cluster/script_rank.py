"""What a Python that a script starts as a rank notes of itself: that it began, and how it ended.

Most such processes join the job, and `member` notes the rest. One that fails before, because of its
data, its options or a missing TensorFlow, would be heard of by nobody: the script goes on, and ends
with 0. So each notes itself when it starts, and again when it ends.

``compat/inherited/sitecustomize.py`` loads this file by its path, into any Python from 3.6 on and
whatever is installed there. It imports nothing but what is built into the interpreter.
"""

import atexit
import os
import sys
import time
from _json import encode_basestring_ascii  # type: ignore[attr-defined, unused-ignore]
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

_FOLDER, _LAUNCHED = "ASCEND_SESSION_RANK_FOLDER", "ASCEND_SESSION_LAUNCHED"

PROCESS = "ASCEND_SESSION_RANK_PROCESS"
"""The pid of the Python that is the rank; what it starts inherits that, and is none."""

_LONGEST_ERROR = 400  # characters


def is_rank_of_script(environ: "Mapping[str, str]") -> bool:
    """Tell whether a process is one of several ranks that something below a launch has started.

    It has a ``RANK_ID`` and a ``RANK_SIZE`` above 1, or one that is no number, which the launch has
    not set.
    """
    rank, size = environ.get("RANK_ID", ""), environ.get("RANK_SIZE", "")
    launched = environ.get(_LAUNCHED, "").split()
    is_own = "RANK_ID=" + rank in launched and "RANK_SIZE=" + size in launched
    return bool(launched and rank and size) and not is_own and not is_alone(size)


def is_alone(size: str) -> bool:
    """Tell whether a RANK_SIZE is a number, and not above 1."""
    digits = size.strip().lstrip("-")
    is_negative = size.strip() != digits
    return digits.isdigit() and (is_negative or digits.lstrip("0") in ("", "1"))


def note_start() -> None:
    """Note that this process has begun, if it is a rank of a script."""
    if is_rank_of_script(os.environ):
        _note(uses_vendor=False)


def note_import() -> None:
    """Note that this process imports one of the vendor's packages, and is a rank at the least."""
    launched = os.environ.get(_LAUNCHED, "").split()
    number = "RANK_ID=" + os.environ.get("RANK_ID", "")
    if is_rank_of_script(os.environ) or (launched and number not in launched):
        _note(uses_vendor=True)


def _note(uses_vendor: bool) -> None:
    global _own
    folder, pid = os.environ.get(_FOLDER, ""), str(os.getpid())
    if os.environ.setdefault(PROCESS, pid) != pid or not os.path.isdir(folder):
        return
    if _own is None:
        _own = _RankProcess(folder)
        _own.watch_exits()
    _own.uses_vendor = uses_vendor
    _own.begin()


class _RankProcess:
    """This process, as its file says; what `member` writes into the same file replaces that."""

    def __init__(self, folder: str) -> None:
        self.uses_vendor = False
        self._path = os.path.join(folder, f"process_{os.getpid()}.json")
        self._pid, self._thread = os.getpid(), get_ident()
        self._asked = None  # type: Any

    def begin(self) -> None:
        """Write that it lives."""
        if self._state() in ("", "started"):
            self._write("started")

    def watch_exits(self) -> None:
        """Have the end of this process written, too."""
        for name in ("exit", "_exit"):
            module = sys if name == "exit" else os
            setattr(module, name, self._noting(getattr(module, name)))
        quitter = type(getattr(sys.modules["builtins"], "exit", None))
        if quitter.__name__ == "Quitter":
            quitter.__call__ = self._noting(quitter.__call__)  # type: ignore[method-assign]
        atexit.register(self._end)

    def _noting(self, leave: "Callable[..., Any]") -> "Callable[..., Any]":
        """Wrap a function that ends the program: nothing else tells with which code it ends."""

        def noting(*arguments: "Any") -> "Any":
            if os.getpid() == self._pid and leave.__name__ == "_exit":
                code = arguments[0] if arguments else 0
                self._write_end(f"SystemExit: {code}" if code else "")
            try:
                return leave(*arguments)
            except SystemExit as error:
                if get_ident() == self._thread:
                    # Before `_end` the error has gone, or something keeps it.
                    asked = _AskedExit(_describe(error) if error.code else "")
                    self._asked = asked.state
                    error._ascend_session = asked  # type: ignore[attr-defined]
                    del asked
                raise

        noting.__name__, noting.__doc__ = leave.__name__, leave.__doc__
        return noting

    def _end(self) -> None:
        if os.getpid() != self._pid:
            return
        error = getattr(sys, "last_value", None)
        text = "" if error is None else _describe(error)
        if error is None and self._asked is not None and not self._asked["is_caught"]:
            text = str(self._asked["text"])
        self._write_end(text or _find_unread_program())

    def _write_end(self, error: str) -> None:
        state = self._state()
        if state == "started" or (error and state in ("open", "closed", "ended")):
            self._write("failed" if error else "ended", error, joined=state != "started")

    def _state(self) -> str:
        try:
            with open(self._path, encoding="utf-8") as file:
                return file.read().partition('"state": "')[2].partition('"')[0]
        except (OSError, ValueError):
            return ""

    def _write(self, state: str, error: str = "", joined: bool = False) -> None:
        rank = os.environ.get("RANK_ID", "")
        try:
            output = os.readlink("/proc/self/fd/2")
        except OSError:
            output = ""
        uses_vendor = self.uses_vendor or "ascend_session" in sys.modules
        fields = [
            f'"pid": {self._pid}, "rank": {int(rank) if rank.isdigit() else -1}',
            f'"state": "{state}", "error": {encode_basestring_ascii(error)}',
            f'"time": {time.monotonic()!r}, "waits": [], "joined": {str(joined).lower()}',
            f'"rank_id": {encode_basestring_ascii(rank)}',
            f'"output": {encode_basestring_ascii(output)}',
            f'"uses_vendor": {str(uses_vendor).lower()}',
        ]
        temporary = f"{self._path}.new"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write("{" + ", ".join(fields) + "}\n")
            os.replace(temporary, self._path)
        except OSError:
            return


_own = None  # type: Any


def _find_unread_program() -> str:
    """Say that Python could not read its script, which raises nothing; empty if it could."""
    name = (getattr(sys, "argv", None) or [""])[0]
    main = vars(sys.modules["__main__"])
    has_run = any(not key.startswith("__") for key in main)
    loader = getattr(main.get("__loader__"), "__name__", "")
    if has_run or loader != "BuiltinImporter" or name in ("", "-", "-c", "-m"):
        return ""
    return "" if os.path.exists(name) else f"SystemExit: Python could not open {name}"


class _AskedExit:
    """Goes with a SystemExit, and learns whether anything has caught that.

    Python frees one that ends the program when no frame runs any more, and another one earlier.
    """

    def __init__(self, text: str) -> None:
        self.state = {"text": text, "is_caught": False}

    def __del__(self) -> None:
        self.state["is_caught"] = sys._getframe().f_back is not None


def _describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= _LONGEST_ERROR else line[:_LONGEST_ERROR] + "..."
