"""Record how the Python of a rank ends, and watch a script of ``ascend-session run``.

The program is started as plain ``python train.py``, with ``startup`` first on ``PYTHONPATH``: its
``sitecustomize`` runs this file by its path before anything else. In the folder that
``ASCEND_SESSION_RANK_FOLDER`` names, the rank's own process leaves

* ``error.json``, if an exception ended the program. A SystemExit does not reach
  ``sys.excepthook``: its exit code is known from the process, its text from the log;
* ``stacks.log``, with the stacks of all threads when SIGSEGV, SIGABRT, SIGBUS, SIGFPE or SIGILL
  ended it, and each time signal ``SIGRTMIN + 7`` came. If the environment enables
  ``faulthandler``, crashes stay on standard error.

What a rank starts or forks leaves neither: the rank may have handled its failure. But a script may
start ranks itself, and exit with 0 whatever became of them. Such a Python leaves its stacks, and
reports on the `channel`, before it joins the job and if it never does, that it starts and how it
ends; and its exit code, which nobody below a shell would see.

A Python that loads no ``sitecustomize`` of ``PYTHONPATH`` (``-I``, ``-E``, ``-S``, below ``env -i``
or ``sudo``) leaves nothing: only the exit code of the launcher's own child is known then.

A program can notice this: ``faulthandler`` is on, ``sys.excepthook`` is replaced, and one more
descriptor is open, number 1000 if that is free; in a rank of a script two. A program that replaces
the hook is recorded when it exits, and one that closes the descriptors loses the stacks and nothing
else.

This file imports nothing but what is built into the interpreter, so that nothing can hide what it
needs and the start costs about nothing; ranks of scripts also ``_socket``, of which `socket` is
made. It works from Python 3.6 on.
"""

import os
import sys
import time
from _json import encode_basestring_ascii  # type: ignore[attr-defined, unused-ignore]
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, List, Optional, Type

RUN_VARIABLE = "ASCEND_SESSION_RUN"
"""Environment variable with the options of ``ascend-session run``, hidden from the program."""

SET_VARIABLE = "ASCEND_SESSION_SET"
"""Variable with options that win over a script's: JSON, such as ``{"hcom_parallel": true}``."""

RECORD_VARIABLE = "ASCEND_SESSION_RECORD"
"""Variable with the file in which rank 0 records its training runs; others have one beside it."""

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

STARTUP = os.path.join(_PACKAGE, "startup")
"""Folder for ``PYTHONPATH``, with the ``sitecustomize`` that runs this file."""

SHARED = "_ascend_session_witness"
"""Name of the witness in `sys.modules`, where the vendor's packages find it below a launch."""

_SPARE_BYTES = 1 << 20  # are let go when memory may have run out
_LONGEST_ERROR = 400  # characters
_LONGEST_COMMAND = 4096  # characters of it that are looked at
_UNBUFFERED = 2  # _IONBF of stdio.h


def put_first(folder: str, path: "Optional[str]") -> str:
    """Put a folder in front of a list of folders such as ``PYTHONPATH``, which may be None."""
    return folder + (os.pathsep + path if path else "")


def load_by_path(*parts: str) -> "Any":
    """Run a file of this package that needs no other; Python caches its compiled code.

    The module does not get into `sys.modules`, where the program's own of that name may belong.
    """
    path = os.path.join(_PACKAGE, *parts)
    name = parts[-1][: -len(".py")]
    module = type(sys)(name)
    module.__file__ = path
    external = sys.modules["_frozen_importlib_external"]  # type: Any
    exec(external.SourceFileLoader(name, path).get_code(name), vars(module))
    return module


def start() -> None:
    """Begin to watch this process; `startup.sitecustomize` calls it."""
    environ = os.environ
    request = environ.pop(RUN_VARIABLE, None)
    is_rank = environ.get("ASCEND_SESSION_RANK_PID") == str(os.getpid())
    if request is not None and "ASCEND_SESSION_RANK_FOLDER" not in environ:
        # What the script starts is not watched.
        places = environ.get("PYTHONPATH", "").split(os.pathsep)
        environ["PYTHONPATH"] = os.pathsep.join(place for place in places if place != STARTUP)
        if not environ["PYTHONPATH"]:
            del environ["PYTHONPATH"]
    witness = _Witness(is_rank, request)
    if is_rank or request is not None:
        witness.begin()
    if "ASCEND_SESSION_LAUNCHED" in environ:
        modules = sys.modules  # type: Any
        modules[SHARED] = witness
        witness.note_script_rank()
    is_asked = any(environ.get(name) for name in (SET_VARIABLE, RECORD_VARIABLE))
    if is_asked and _has("compat", "finder.py"):
        load_by_path("compat", "finder.py").watch_from_outside()


def _has(*parts: str) -> bool:
    return os.path.isfile(os.path.join(_PACKAGE, *parts))


class _Witness:
    """Watches this process.

    Everything is loaded at once: the files may be gone or others when the program fails.
    """

    def __init__(self, is_rank: bool, request: "Optional[str]") -> None:
        self._rank_folder = load_by_path("rank_folder.py")
        self._folder = os.environ.get(self._rank_folder.RANK_FOLDER, "") if is_rank else ""
        self._pid, self._thread = os.getpid(), get_ident()
        self._spare = b""
        self._has_begun = self._has_failed = False
        self._script_rank = None  # type: Optional[_ScriptRank]
        self._show = sys.excepthook
        self._run = None  # type: Any
        # The vendor's packages are replaced by `run`, and in ranks on the stub; to ask the backend
        # for `replaces_vendor`, this file would have to import it. The Pythons of a program other
        # than Python find the stand-ins by PYTHONPATH.
        is_on_stub = is_rank and os.environ.get("ASCEND_SESSION_BACKEND") == "stub"
        if (request is not None or is_on_stub) and _has("compat", "finder.py"):
            finder = load_by_path("compat", "finder.py")
            inherited = finder.INHERITED in os.environ.get("PYTHONPATH", "").split(os.pathsep)
            if request is not None or not inherited:
                self._run = finder.VendorRun(request)

    def begin(self) -> None:
        """Begin to watch."""
        import atexit  # built in

        self._has_begun, self._spare = True, bytes(_SPARE_BYTES)
        if self._folder:
            self._rank_folder.watch_stacks(self._folder)
        if self._run is not None:
            self._run.begin()
        sys.excepthook = self._note_and_show
        atexit.register(self._end)

    def note_script_rank(self, uses_vendor: bool = False) -> None:
        """Record that this process is a rank that a script has started, if it is.

        Args:
            uses_vendor: Whether it imports one of the vendor's packages, for which a ``RANK_ID`` of
                its own is enough.
        """
        environ, names = os.environ, self._rank_folder
        rank, size = environ.get("RANK_ID", ""), environ.get("RANK_SIZE", "")
        is_numbered = "RANK_ID=" + rank not in environ[names.LAUNCHED].split()
        is_numbered = uses_vendor and is_numbered and not names.is_beyond(rank, size)
        folder = environ.get(names.RANK_FOLDER, "")
        if not (is_numbered or names.is_rank_of_script(environ)) or not os.path.isdir(folder):
            return
        if environ.setdefault(names.SCRIPT_RANK_PID, str(self._pid)) != str(self._pid):
            return
        if self._script_rank is None:
            self._script_rank = _ScriptRank(names, folder)
            if not self._has_begun:
                names.watch_stacks(folder, names.name_stacks(self._pid))
                self.begin()
        self._script_rank.start(uses_vendor)

    def _note_and_show(
        self, kind: "Type[BaseException]", error: BaseException, trace: "Optional[TracebackType]"
    ) -> None:
        """Record what ends the program, then have it printed."""
        failed_rank = None  # type: Optional[int]
        if not self._is_running(sys._getframe()):
            failed_rank = self._note(error)
        self._show(kind, error, trace)
        if failed_rank is not None and sys.stderr is not None:
            rank = os.environ.get("RANK_ID", "")
            sys.stderr.write(f"rank {rank}: stopped, because rank {failed_rank} failed\n")

    def _is_running(self, frame: "FrameType") -> bool:
        """Return whether the program goes on: an interpreter in it shows what it has caught."""
        while frame.f_back is not None:
            frame = frame.f_back
        is_main = frame.f_code.co_name in ("<module>", "_run_module_as_main")
        return is_main or get_ident() != self._thread

    def _note(self, error: BaseException) -> "Optional[int]":
        """Record the error; return the rank whose failure it follows from, or None."""
        # A forked child that fails has ended no rank.
        if self._has_failed or os.getpid() != self._pid:
            return None
        self._spare, self._has_failed = b"", True
        if self._run is not None:
            self._run.fail(error)
        if self._script_rank is not None:
            self._script_rank.end(_describe(error))
        failed_rank = None  # type: Optional[int]
        if self._folder:
            failed_rank = self._rank_folder.write_record(error, self._folder, ends_program=True)
        return failed_rank

    def _end(self) -> None:
        """Record the exception that the program has shown by a hook of its own."""
        error = getattr(sys, "last_value", None)
        if error is not None and not hasattr(sys, "ps1"):
            self._note(error)
        if os.getpid() != self._pid:
            return
        if self._script_rank is not None:
            self._script_rank.end("")
            self._script_rank.watch_exit_code()
        if self._run is not None:
            self._run.finish_if_unused(self._has_failed)


class _ScriptRank:
    """What this process, a rank that a script has started, reports to the launcher.

    The values are those of `member.JoinedProcess`; once it has joined, `member` reports more. There
    is no record if the launcher cannot be reached, or if this Python has no sockets.
    """

    def __init__(self, names: "Any", folder: str) -> None:
        self._connect, self._address = names.connect, os.environ.get(names.CHANNEL, "")
        self._folder = folder
        self._fd, self._identity = -1, ()  # type: int, Any
        self._pid, self._began = os.getpid(), time.monotonic()
        self._program = _read_program()
        self._beside: List[int] = []
        self._state = ""
        self._uses_vendor = False
        self._leave = os._exit
        os._exit = self._exit  # no handler sees that
        if hasattr(os, "register_at_fork"):  # from Python 3.7 on
            os.register_at_fork(after_in_child=self._disconnect)

    def start(self, uses_vendor: bool) -> None:
        """Report that the process has started."""
        self._uses_vendor = uses_vendor
        if self._state in ("", "started") and os.getpid() == self._pid:
            self._report("started")

    def end(self, error: str) -> None:
        """Report that the process ends, with an error or in order."""
        if self._state == "started" or (error and self._state == "ended"):
            self._report("failed" if error else "ended", error)

    def watch_exit_code(self) -> None:
        """Have the C library send the exit code of this process, as a message of one byte.

        Python code cannot see it: an uncaught SystemExit leaves no trace. So fputc(3) is registered
        with on_exit(3), which calls it with the code when the process exits. The stream has no
        buffer, so that a crash later in the exit loses nothing.
        """
        try:
            import ctypes  # slow to import, and needed only here

            if not self._is_connected():
                return
            libc = ctypes.CDLL(None)
            libc.fdopen.restype = libc_stream = ctypes.c_void_p
            libc.setvbuf.argtypes = [libc_stream, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t]
            libc.on_exit.argtypes = [ctypes.c_void_p, libc_stream]
            stream = libc.fdopen(self._fd, b"w")
            if stream:
                libc.setvbuf(stream, None, _UNBUFFERED, 0)
                libc.on_exit(ctypes.cast(libc.fputc, ctypes.c_void_p), stream)
        except Exception:  # no ctypes, or another C library: only the code is lost
            return

    def _exit(self, status: int) -> "Any":
        """Exit as `os._exit` does."""
        if os.getpid() == self._pid:
            self.end(f"SystemExit: {status}" if status else "")
        return self._leave(status)

    def _disconnect(self) -> None:
        """Leave the connection to the parent, in a child that was forked."""
        try:
            os.close(self._fd)
        except OSError:
            return

    def _report(self, state: str, error: str = "") -> None:
        is_first, self._state = not self._state, state
        try:
            if not self._is_connected():
                name = f"{self._address}-{self._pid}" if is_first else ""
                self._fd = self._connect(self._address, name)
                self._identity = os.fstat(self._fd)[:3]
                self._send(f'"kind": "hello", "folder": {encode_basestring_ascii(self._folder)}')
            if is_first:
                # After that, so that of two which start at once at least one sees the other.
                self._beside = list(self._find_others())
            self._send(self._describe(state, error))
        except (ImportError, OSError, ValueError):
            return

    def _find_others(self) -> "Any":
        """Find the other ranks that live: the kernel lists their connections by name."""
        prefix = f"@{self._address}-"
        for word in _read_text("/proc/net/unix").split():
            pid = word[len(prefix) :]
            if word.startswith(prefix) and pid != str(self._pid):
                yield int(pid)

    def _describe(self, state: str, error: str) -> str:
        rank = os.environ.get("RANK_ID", "")
        try:
            output = os.readlink("/proc/self/fd/2")
        except OSError:
            output = ""
        uses_vendor = self._uses_vendor or "ascend_session" in sys.modules
        number = int(rank) if rank.isdecimal() and len(rank) < 8 else -1
        texts = {
            "kind": "witness",
            "state": state,
            "error": error,
            "rank_id": rank,
            "rank_size": os.environ.get("RANK_SIZE", ""),
            "program": self._program,
            "output": output,
        }
        values = [
            *(f'"{name}": {encode_basestring_ascii(texts[name])}' for name in texts),
            f'"rank": {number}, "waits": [], "joined": false, "beside": {self._beside}',
            f'"began": {self._began!r}, "time": {time.monotonic()!r}',
            f'"uses_vendor": {str(uses_vendor).lower()}',
        ]
        return ", ".join(values)

    def _is_connected(self) -> bool:
        """Return whether there is a connection, which the program may have closed."""
        try:
            return bool(os.fstat(self._fd)[:3] == self._identity)
        except OSError:
            return False

    def _send(self, values: str) -> None:
        import _socket

        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, self._fd)
        try:
            connection.setblocking(False)
            connection.send(f"{{{values}}}".encode(), _socket.MSG_NOSIGNAL)
        finally:
            connection.detach()  # else it would be closed with the object


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _read_program() -> str:
    """Return what this Python runs: its first argument that is no option (sys.argv comes later)."""
    words = _read_text("/proc/self/cmdline")[:_LONGEST_COMMAND].split("\0")[1:]
    return next((word for word in words if not word.startswith("-")), "")


def _describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= _LONGEST_ERROR else line[:_LONGEST_ERROR] + "..."
