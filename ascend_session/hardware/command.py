"""How a program of the vendor's is asked: in English, with limits on time and size, and killed.

``npu-smi`` can block on a sick card (launch_facts.md, B2), so whoever asks gets an answer in time,
and the program does not outlive the question.
"""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

from ascend_session.hardware._text import quoted

__all__ = ["TIME_LIMIT", "Answer", "ask", "find"]

TIME_LIMIT = 10.0
_SIZE_LIMIT = 4 * 1024 * 1024
_CHUNK = 65536
# How often to look whether the program has ended while something else holds its output open.
_LOOK = 0.25
_SECONDS_TO_DIE = 1.0


class Answer(NamedTuple):
    """What a program said.

    Attributes:
        text: What it wrote to stdout, as far as it came.
        errors: What it wrote to stderr.
        problem: What went wrong with the program itself, as a sentence; None if nothing did.
        hung: Whether it was ended because it did not answer in time.
    """

    text: str
    errors: str = ""
    problem: Optional[str] = None
    hung: bool = False


def find(name: str, environ: Mapping[str, str], root: str, places: Sequence[str]) -> Optional[str]:
    """The path of a program.

    Args:
        name: The program.
        environ: Its ``PATH`` is searched.
        root: The root of the host. Another root than ``/`` is searched before ``PATH``.
        places: Folders below ``root``, where the vendor's installer puts it.
    """
    there = os.pathsep.join(os.path.join(root, place) for place in places)
    path = environ.get("PATH", "")
    searched = (path, there) if os.path.realpath(root) == "/" else (there, path)
    found = (shutil.which(name, path=folders) for folders in searched if folders)
    return next((program for program in found if program), None)


def ask(
    argv: Sequence[str],
    environ: Mapping[str, str],
    timeout: float = TIME_LIMIT,
    name: Optional[str] = None,
) -> Answer:
    """Runs a program to its end and says what came of it; never raises, never waits longer.

    Args:
        argv: The program's path and its arguments.
        environ: Its environment; ``LC_ALL=C`` is added.
        timeout: Seconds until it is ended, with all its children.
        name: What it is called in sentences; its name and its arguments if None.
    """
    name = name or " ".join([os.path.basename(argv[0]), *argv[1:]])
    start = _Start(argv, environ)
    try:
        start.start()
        start.is_over.wait()
        if start.process is None:
            return Answer("", problem=f"{name!r} could not be started: {start.error}.")
        with start.process.stdout, start.process.stderr:
            return _Listener(start.process, name, timeout).answer()
    except OSError as error:
        # Such as too many open files.
        start.kill()
        return Answer("", problem=f"{name!r} could not be listened to: {error}.")
    except BaseException:
        # Such as Ctrl-C, which reaches this process only.
        start.kill()
        raise


class _Start(threading.Thread):
    """Starts a program where no signal comes between its start and the knowledge of its pid."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        super().__init__(name="start of a program", daemon=True)
        self._argv, self._environ = list(argv), {**environ, "LC_ALL": "C"}
        self.is_over = threading.Event()
        self.process: Optional[Any] = None
        self.error: Optional[Exception] = None

    def run(self) -> None:
        try:
            self.process = subprocess.Popen(
                self._argv,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.error = error
        finally:
            self.is_over.set()

    def kill(self) -> None:
        """Ends what was started."""
        self.is_over.wait(_SECONDS_TO_DIE)
        if self.process is not None:
            _killed(self.process)
            self.process.stdout.close()
            self.process.stderr.close()


def _killed(process: Any) -> bool:
    """Ends a program and its children; returns whether that worked."""
    # At once and without a warning: until it is waited for, its pid, which is the id of its
    # group, belongs to nobody else.
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(_SECONDS_TO_DIE)
    except subprocess.TimeoutExpired:
        return False
    return True


class _Listener:
    """Takes what the program writes, until it ends or oversteps a limit."""

    def __init__(self, process: Any, name: str, timeout: float) -> None:
        self._process = process
        self._name = name
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._said: Dict[Any, bytearray] = {
            process.stdout: bytearray(),
            process.stderr: bytearray(),
        }

    def answer(self) -> Answer:
        """What the program said."""
        overstepped = self._listen()
        ended = overstepped is None or _killed(self._process)
        text, errors = (bytes(part).decode("utf-8", "replace") for part in self._said.values())
        if overstepped is None:
            return Answer(text, errors, self._exit_problem(errors or text))
        return Answer(text, errors, self._limit_problem(overstepped, ended), overstepped == "time")

    def _listen(self) -> Optional[str]:
        """Listens to the end; returns the limit that was overstepped, or None."""
        with selectors.DefaultSelector() as pipes:
            for pipe in self._said:
                pipes.register(pipe, selectors.EVENT_READ)
            while pipes.get_map():
                if self._left() <= 0:
                    return "time"
                ready = [key.fileobj for key, _ in pipes.select(min(self._left(), _LOOK))]
                if not ready and self._process.poll() is not None:
                    break
                for pipe in ready:
                    self._take(pipe, pipes)
                if sum(map(len, self._said.values())) > _SIZE_LIMIT:
                    return "size"
        return self._wait(max(self._left(), 0.0))

    def _take(self, pipe: Any, pipes: selectors.BaseSelector) -> None:
        chunk = os.read(pipe.fileno(), _CHUNK)
        self._said[pipe].extend(chunk)
        if not chunk:
            pipes.unregister(pipe)

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _wait(self, seconds: float) -> Optional[str]:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return "time"
        return None

    def _limit_problem(self, overstepped: str, ended: bool) -> str:
        what = f"did not answer within {self._timeout:g} s"
        if overstepped == "size":
            what = f"printed more than {_SIZE_LIMIT // 1024 // 1024} MB"
        did = "was ended" if ended else "cannot be ended; it hangs in the driver"
        return f"{self._name!r} {what} and {did}."

    def _exit_problem(self, said: str) -> Optional[str]:
        code = self._process.returncode
        if code == 0:
            return None
        ended = f"ended with exit code {code}" if code > 0 else f"was ended by {_signal(-code)}"
        return f"{self._name!r} {ended} and said {quoted(said)}."


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
