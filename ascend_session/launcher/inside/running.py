"""One program, what is done before it starts and what is done when it fails."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ASKED_VARIABLE", "FOLDER_VARIABLE", "Runner"]

FOLDER_VARIABLE = "ASCEND_SESSION_RANK_FOLDER"
"""Environment variable with the absolute path of the rank's folder."""

ASKED_VARIABLE = "ASCEND_SESSION_RUN"
"""Environment variable in which ``ascend-session run`` says what it was asked, and which the
program does not see."""

_BACKEND_VARIABLE = "ASCEND_SESSION_BACKEND"

_SPARE = 1 << 20  # bytes that are let go when memory may have run out


def _part(name: str) -> "Any":
    """One of the files next to this one; Python keeps what it compiled of it."""
    external = sys.modules["_frozen_importlib_external"]  # type: Any
    path = os.path.join(os.path.dirname(__file__), name + ".py")
    module = type(sys)("ascend_session.launcher.inside." + name)
    exec(external.SourceFileLoader(module.__name__, path).get_code(module.__name__), vars(module))
    return module


class Runner:
    """Reads all of its files at once: they may be gone or others when the program fails.

    Args:
        file: The file that is run, as in tracebacks.
    """

    def __init__(self, file: str) -> None:
        self._folder = os.environ.get(FOLDER_VARIABLE)
        self._pid = os.getpid()
        self._spare = bytes(_SPARE)
        self._program, self._stacks = _part("program"), _part("stacks")
        self._hook, self._recording = _part("hook"), _part("recording")
        self._vendor = None  # type: Any
        asked = os.environ.pop(ASKED_VARIABLE, None)
        # The vendor's packages are looked after by `run`, and in ranks on the stub.
        if asked is not None or (self._folder and os.environ.get(_BACKEND_VARIABLE) == "stub"):
            package = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
            compat = os.path.join(package, "compat", "importing.py")
            self._vendor = _part("vendor").Vendor(self._pid, compat, asked)
        functions = _part, self._program.run, self._hook.stripped
        self._files = {file, self._program.GLUE, *[one.__code__.co_filename for one in functions]}

    def run(self) -> None:
        """Runs the program that the command line names; what it raises comes out."""
        words = sys.argv
        if len(words) < 2 or (words[1] == "-m" and len(words) < 3):
            sys.exit("usage: python runner.py (script | -m module) [arguments]")
        if hasattr(sys, "orig_argv"):
            del sys.orig_argv[-len(words)]
        if self._folder:
            self._stacks.watch(self._folder)
        del words[0]
        if self._vendor is not None:
            self._vendor.begin()
        self._program.run(words, self._note_unreadable)

    def fail(self, error: BaseException) -> None:
        """Records what ends the program, and has it printed without the frames of this package."""
        self._spare = b""
        error.__traceback__ = self._hook.stripped(error.__traceback__, self._files)
        if self._vendor is not None:
            self._vendor.fail(error)
        self._record(error, self._recording.exit_code(error))
        if not isinstance(error, SystemExit):
            self._hook.print_as_without(self._files)

    def _note_unreadable(self, error: Exception) -> None:
        error.__traceback__ = None
        self._record(error, 2 if isinstance(error, OSError) else 1)

    def _record(self, error: BaseException, code: int) -> None:
        # A forked child that fails has ended no rank.
        if code and self._folder and os.getpid() == self._pid:
            self._recording.record(error, code, self._folder)
