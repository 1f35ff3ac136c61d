"""Record how the Python of a rank ends, and watch a script of ``ascend-session run``.

The program is started as plain ``python train.py``, with ``startup`` first on ``PYTHONPATH``: its
``sitecustomize`` runs this file by its path before anything else. In the folder that
``ASCEND_SESSION_RANK_FOLDER`` names, the rank's own process leaves

* ``error.json``, if an exception ended the program. A SystemExit does not reach
  ``sys.excepthook``: its exit code is known from the process, its text from the log;
* ``stacks.log``, with the stacks of all threads when SIGSEGV, SIGABRT, SIGBUS, SIGFPE or SIGILL
  ended it, and each time signal ``SIGRTMIN + 7`` came. If the environment enables
  ``faulthandler``, crashes stay on standard error.

What a rank starts or forks leaves neither: the rank may have handled its failure. Nor does a Python
that loads no ``sitecustomize`` of ``PYTHONPATH`` (``-I``, ``-E``, ``-S``): only its exit code is
known then.

A program can notice this: ``faulthandler`` is on, ``sys.excepthook`` is replaced, and one more
descriptor is open, number 1000 if that is free. A program that replaces the hook is recorded when
it exits, and one that closes the descriptor loses the stacks and nothing else.

This file imports nothing but what is built into the interpreter, so that nothing can hide what it
needs and the start costs about nothing. It works from Python 3.6 on.
"""

import os
import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Optional, Type

RUN_VARIABLE = "ASCEND_SESSION_RUN"
"""Environment variable with the options of ``ascend-session run``, hidden from the program."""

SET_VARIABLE = "ASCEND_SESSION_SET"
"""Variable with options that win over a script's: JSON, such as ``{"hcom_parallel": true}``."""

RECORD_VARIABLE = "ASCEND_SESSION_RECORD"
"""Variable with the file in which rank 0 records its training runs; others have one beside it."""

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

STARTUP = os.path.join(_PACKAGE, "startup")
"""Folder for ``PYTHONPATH``, with the ``sitecustomize`` that runs this file."""

_SPARE_BYTES = 1 << 20  # are let go when memory may have run out


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
    if "ASCEND_SESSION_LAUNCHED" in environ and _has("cluster", "script_rank.py"):
        load_by_path("compat", "finder.py").script_rank().note_start()
    is_rank = environ.get("ASCEND_SESSION_RANK_PID") == str(os.getpid())
    if request is not None and "ASCEND_SESSION_RANK_FOLDER" not in environ:
        # What the script starts is not watched.
        places = environ.get("PYTHONPATH", "").split(os.pathsep)
        environ["PYTHONPATH"] = os.pathsep.join(place for place in places if place != STARTUP)
        if not environ["PYTHONPATH"]:
            del environ["PYTHONPATH"]
    if is_rank or request is not None:
        _Witness(is_rank, request).begin()
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
        self._spare = bytes(_SPARE_BYTES)
        self._has_failed = False
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

        if self._folder:
            self._rank_folder.watch_stacks(self._folder)
        if self._run is not None:
            self._run.begin()
        sys.excepthook = self._note_and_show
        atexit.register(self._end)

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
        failed_rank = None  # type: Optional[int]
        if self._folder:
            failed_rank = self._rank_folder.write_record(error, self._folder, ends_program=True)
        return failed_rank

    def _end(self) -> None:
        """Record the exception that the program has shown by a hook of its own."""
        error = getattr(sys, "last_value", None)
        if error is not None and not hasattr(sys, "ps1"):
            self._note(error)
        if self._run is not None and os.getpid() == self._pid:
            self._run.finish_if_unused(self._has_failed)
