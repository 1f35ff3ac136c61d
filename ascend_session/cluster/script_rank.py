"""State files of Python processes that a script starts as ranks.

Most such processes join the job, and then `member` writes the file. One that fails before that
(data, options, missing TensorFlow) would go unnoticed, because the script goes on and exits with 0.
So each process writes its file when it starts, and again when it ends.

``compat/inherited/sitecustomize.py`` loads this module by its path into any Python from 3.6 on. So
it imports only modules that are built into the interpreter.
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
"""Variable with the pid of the process that is the rank; its children inherit it, and are not."""

EXIT_CODE = ".exit"
"""Suffix of the file with a process's exit code, beside its state file."""

USER = "uses_"
"""Begin of the name of `rank_folder.name_user`."""

BESIDE = ".beside"
"""Suffix of a file that exists if the process lived at the same time as another of its rank."""

_LONGEST_ERROR = 400  # characters
_LONGEST_COMMAND = 4096  # bytes of it that are looked at
_UNBUFFERED = 2  # _IONBF of stdio.h


def is_rank_of_script(environ: "Mapping[str, str]") -> bool:
    """Return whether a process is one of several ranks started below a launch by a script.

    It has a ``RANK_ID`` and a ``RANK_SIZE`` that the launch did not set, and the size is above 1 or
    no number.
    """
    rank, size = environ.get("RANK_ID", ""), environ.get("RANK_SIZE", "")
    launched = environ.get(_LAUNCHED, "").split()
    is_own = "RANK_ID=" + rank in launched and "RANK_SIZE=" + size in launched
    return bool(launched and rank and size) and not is_own and not is_alone(size)


def is_alone(size: str) -> bool:
    """Return whether a RANK_SIZE is a number <= 1."""
    digits = size.strip().lstrip("-")
    is_negative = size.strip() != digits
    return digits.isdecimal() and (is_negative or digits.lstrip("0") in ("", "1"))


def note_start() -> None:
    """Record the start of this process, if it is a rank of a script."""
    if is_rank_of_script(os.environ):
        _note(uses_vendor=False)


def note_import() -> None:
    """Record that this process imports one of the vendor's packages, so it is a rank."""
    folder = os.environ.get(_FOLDER, "")
    # As rank_folder.note_use, which this module cannot import.
    is_known = os.getsid(0) == os.getpid() or "tensorflow" in sys.modules
    if os.path.isdir(folder) and not is_known:
        _replace_text(os.path.join(folder, f"{USER}{os.getpid()}"), "")
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
    _own.write_start()


class _RankProcess:
    """The state file of this process; `member` replaces its content later."""

    def __init__(self, folder: str) -> None:
        self.uses_vendor = False
        self._folder = folder
        self._path = os.path.join(folder, f"process_{os.getpid()}.json")
        self._program = _read_program()
        self._pid, self._thread = os.getpid(), get_ident()
        self._exit_text = ""  # of sys.exit(text)

    def write_start(self) -> None:
        """Write that the process has started, unless `member` has written the file."""
        if self._read_state() in ("", "started"):
            self._write("started")
            self._mark_killed()

    def _mark_killed(self) -> None:
        """Mark the processes that had this rank and died without recording how.

        They died before this one starts, so its success is not theirs. Another run of the same
        program may be, and a script may kill a helper that has run beside a rank.
        """
        own_program = _quote_field("program", self._program)
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            text = _read_text(path) if name.endswith(".json") else ""
            is_same_rank = _quote_field("rank_id", os.environ.get("RANK_ID", "")) in text
            if path == self._path or not is_same_rank or '"state": "started"' not in text:
                continue
            if os.path.exists("/proc/" + name[len("process_") : -len(".json")]):
                for each in (path, self._path):
                    _replace_text(each + BESIDE, "")
            elif not os.path.exists(path + BESIDE) and own_program not in text:
                _replace_text(path, text.replace('"state": "started"', '"state": "killed"', 1))

    def watch_exits(self) -> None:
        """Replace the exit functions, and register a handler, to record the end."""
        for name in ("exit", "_exit"):
            module = sys if name == "exit" else os
            setattr(module, name, self._record(getattr(module, name)))
        quitter = type(getattr(sys.modules["builtins"], "exit", None))
        if quitter.__name__ == "Quitter":
            quitter.__call__ = self._record(quitter.__call__)  # type: ignore[method-assign]
        atexit.register(self._end)

    def _record(self, leave: "Callable[..., Any]") -> "Callable[..., Any]":
        """Wrap a function that ends the program, to record the code or text that it gets."""

        def record_and_leave(*arguments: "Any") -> "Any":
            if os.getpid() == self._pid and leave.__name__ == "_exit":
                code = arguments[0] if arguments else 0
                self._write_end(f"SystemExit: {code}" if code else "")
            try:
                return leave(*arguments)
            except SystemExit as error:
                if get_ident() == self._thread:
                    is_text = error.code is not None and not isinstance(error.code, int)
                    self._exit_text = _describe(error) if is_text else ""
                raise

        record_and_leave.__name__, record_and_leave.__doc__ = leave.__name__, leave.__doc__
        return record_and_leave

    def _end(self) -> None:
        if os.getpid() != self._pid:
            return
        error = getattr(sys, "last_value", None)
        self._write_end(_find_unread_program() if error is None else _describe(error))
        try:
            _write_exit_code(self._path + EXIT_CODE)
        except Exception:  # no ctypes, or another C library: only the code is lost
            return

    def _write_end(self, error: str) -> None:
        state, text = self._read_state(), error or self._exit_text
        if state == "started" or (text and state in ("open", "closed", "ended")):
            self._write("failed" if error else "ended", text, joined=state != "started")

    def _read_state(self) -> str:
        return _read_text(self._path).partition('"state": "')[2].partition('"')[0]

    def _write(self, state: str, error: str = "", joined: bool = False) -> None:
        rank = os.environ.get("RANK_ID", "")
        try:
            output = os.readlink("/proc/self/fd/2")
        except OSError:
            output = ""
        uses_vendor = self.uses_vendor or "ascend_session" in sys.modules
        number = int(rank) if rank.isdecimal() and len(rank) < 8 else -1
        fields = [
            f'"pid": {self._pid}, "rank": {number}',
            f'"state": "{state}", "error": {encode_basestring_ascii(error)}',
            f'"time": {time.monotonic()!r}, "waits": [], "joined": {str(joined).lower()}',
            _quote_field("rank_id", rank),
            _quote_field("program", self._program),
            f'"output": {encode_basestring_ascii(output)}',
            f'"uses_vendor": {str(uses_vendor).lower()}',
        ]
        _replace_text(self._path, "{" + ", ".join(fields) + "}\n")


_own = None  # type: Any


def _quote_field(name: str, text: str) -> str:
    return f'"{name}": {encode_basestring_ascii(text)}'


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _replace_text(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        return


def _read_program() -> str:
    """Return what this Python runs: its first argument that is no option (sys.argv comes later)."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read(_LONGEST_COMMAND).split(b"\0")[1:]
    except OSError:
        return ""
    return os.fsdecode(next((word for word in words if not word.startswith(b"-")), b""))


def _find_unread_program() -> str:
    """Return an error if Python could not open its script, which raises nothing; else empty."""
    name = (getattr(sys, "argv", None) or [""])[0]
    main = vars(sys.modules["__main__"])
    has_run = any(not key.startswith("__") for key in main)
    loader = getattr(main.get("__loader__"), "__name__", "")
    if has_run or loader != "BuiltinImporter" or name in ("", "-", "-c", "-m"):
        return ""
    return "" if os.path.exists(name) else f"SystemExit: Python could not open {name}"


def _write_exit_code(path: str) -> None:
    """Have the C library write the exit code of this process into a file, as its only byte.

    Python code cannot see it: an uncaught SystemExit leaves no trace. So fputc(3) is registered
    with on_exit(3), which calls it with the code when the process exits. The stream has no buffer,
    so that a crash later in the exit loses nothing.
    """
    import ctypes  # slow to import, and needed only here

    libc = ctypes.CDLL(None)
    libc.fopen.restype = libc_stream = ctypes.c_void_p
    libc.setvbuf.argtypes = [libc_stream, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t]
    libc.on_exit.argtypes = [ctypes.c_void_p, libc_stream]
    stream = libc.fopen(os.fsencode(path), b"we")
    if stream:
        libc.setvbuf(stream, None, _UNBUFFERED, 0)
        libc.on_exit(ctypes.cast(libc.fputc, ctypes.c_void_p), stream)


def _describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= _LONGEST_ERROR else line[:_LONGEST_ERROR] + "..."
