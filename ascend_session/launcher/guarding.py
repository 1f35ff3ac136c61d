"""The launcher's side of the guardian: starts it, talks to it, and sees that it ends."""

import contextlib
import functools
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from ascend_session.errors import JobError
from ascend_session.launcher.events import (
    Ended,
    Killing,
    Left,
    NotBound,
    NotStarted,
    Over,
    Started,
    Stopping,
)
from ascend_session.launcher.guardian.channel import Channel
from ascend_session.launcher.rank import Rank

__all__ = ["Guarding", "Message", "RankPipes"]


Message = Union[NotBound, Started, NotStarted, Ended, Stopping, Killing, Left, Over]

_KINDS: Dict[str, Any] = {
    "started": Started,
    "not bound": NotBound,
    "not started": NotStarted,
    "ended": Ended,
    "stopping": Stopping,
    "killing": Killing,
    "left": Left,
    "over": Over,
}

_OF_RANK = ("not bound", "started", "not started", "ended")

# The package's own __init__ would load what the guardian has no use for.
_PROGRAM = """
import sys, types
package = sys.modules["ascend_session"] = types.ModuleType("ascend_session")
package.__path__ = [sys.argv.pop(1)]
from ascend_session.launcher.guardian.main import main
main()
"""


class RankPipes(NamedTuple):
    """Where a rank writes: the ends for writing of two pipes."""

    stdout: int
    stderr: int


class Guarding:
    """A guardian and its job.

    Args:
        ranks: What it is to start.
        pipes: Where each writes. They are closed here as soon as the guardian has them.
        grace: Seconds from SIGTERM to SIGKILL.
        open_files: The limits of open files that the ranks get; None means the launcher's.

    Raises:
        JobError: If it cannot be started.
    """

    def __init__(
        self,
        ranks: Sequence[Rank],
        pipes: Sequence[RankPipes],
        grace: float,
        open_files: Optional[Tuple[int, int]] = None,
    ) -> None:
        self._grace = grace
        self._ranks = [rank.rank for rank in ranks]
        self.is_over = False
        ends = [fd for pair in pipes for fd in pair]
        try:
            job = _job(ranks, pipes, grace, open_files)
            self._socket, theirs = socket.socketpair()
            try:
                self._process = _started(theirs.fileno(), ends)
            except BaseException:
                self._socket.close()
                raise
            finally:
                theirs.close()
        except OSError as failure:
            raise JobError(
                f"The guardian of the job could not be started: {failure.strerror}."
            ) from None
        finally:
            for fd in ends:
                os.close(fd)
        self._channel = Channel(self._socket.fileno())
        self._channel.say(job)
        self._channel.flush(wait=True)

    def fileno(self) -> int:
        """Becomes readable when there is something to hear, for poll(2)."""
        return self._channel.fd

    def hear(self) -> Iterator[Message]:
        """What has happened since; after `Over` there is nothing more."""
        for kind, *values in self._channel.hear():
            if kind in _OF_RANK:  # the guardian counts what it starts
                values[0] = self._ranks[values[0]]
            message = _KINDS[kind](*values)
            self.is_over = isinstance(message, Over)
            yield message
        if not self._channel.is_open and not self.is_over:
            self.is_over = True
            yield Over((), time.time(), orderly=False)

    def stop(self, number: int) -> None:
        """Asks every process of the job to end, by this signal; `grace` later they are ended."""
        self._tell(("stop", int(number), self._grace))

    def kill(self) -> None:
        """Ends every process of the job now."""
        self._tell(("kill",))

    def close(self) -> None:
        """Closes the socket, on which a guardian that still runs ends its job; waits for it."""
        self._socket.close()
        self._process.wait()

    def _tell(self, message: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)  # one that was stopped hears nothing
        self._channel.say(message)
        self._channel.flush(wait=True)


def _started(fd: int, pipes: Sequence[int]) -> "subprocess.Popen[bytes]":
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, package, str(fd), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[fd, *pipes],
        start_new_session=True,  # what is typed at the terminal is for the launcher alone
    )


def _job(
    ranks: Sequence[Rank],
    pipes: Sequence[RankPipes],
    grace: float,
    open_files: Optional[Tuple[int, int]],
) -> Dict[str, Any]:
    # As bytes, for the guardian may decode them in another way than this process. What all ranks
    # have is one object, which is sent once.
    as_bytes = functools.lru_cache(maxsize=None)(os.fsencode)
    return {
        "ranks": [
            {
                "command": [as_bytes(word) for word in rank.command],
                "cwd": as_bytes(rank.cwd),
                "environment": {as_bytes(n): as_bytes(v) for n, v in rank.environment.items()},
                "cpus": None if rank.cpus is None else list(rank.cpus),
                "stdout": own.stdout,
                "stderr": own.stderr,
                "open_files": open_files,
            }
            for rank, own in zip(ranks, pipes)
        ],
        "grace": grace,
        "psutil": _folders_of("psutil"),
    }


def _folders_of(package: str) -> List[str]:
    """The folder in which a package is found, without loading it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return []
    return [os.path.dirname(os.path.dirname(found.origin))]
