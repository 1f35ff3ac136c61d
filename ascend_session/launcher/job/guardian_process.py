"""The guardian as the launcher talks to it."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Type

from ascend_session.errors import JobError
from ascend_session.launcher.job.events import EVENTS, FromGuardian, Over
from ascend_session.launcher.job.messages import MessageChannel
from ascend_session.launcher.job.reports import open_address
from ascend_session.launcher.plan.config import LaunchConfig

_GUARDIAN = "from ascend_session.launcher.guardian import main; main()"  # sooner there than by -m
_BESIDE_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))


class GuardianProcess:
    """The process in which a job's guardian runs, as the launcher talks to it.

    It takes about as long to start as to plan a job: so it is started before. As a context manager
    it ends with the block, and its job with it.

    Args:
        config: What will be launched.

    Attributes:
        address: Where ranks report.
        is_over: Whether it has no job any more.

    Raises:
        JobError: If it cannot be started.
    """

    def __init__(self, config: LaunchConfig) -> None:
        self.is_over = False
        self._has_begun = False
        command = [sys.executable, "-S", "-c", _GUARDIAN]
        try:
            listener, self.address = open_address()
            with contextlib.ExitStack() as unless_started, listener:
                self._socket, theirs = socket.socketpair()
                unless_started.callback(self._socket.close)
                fds = [theirs.fileno(), listener.fileno()]
                with theirs:
                    self._process = subprocess.Popen(
                        [*command, str(fds[0]), str(os.getpid()), *_list_words(config)],
                        # The attached rank gets those that the guardian has.
                        stdin=subprocess.DEVNULL if config.attach is None else None,
                        stdout=subprocess.DEVNULL if config.attach is None else None,
                        cwd="/",  # where no module can hide one that it imports
                        env=_guardian_environment(),
                        pass_fds=fds,
                        start_new_session=True,  # what is typed at the terminal is for the launcher
                    )
                unless_started.pop_all()
        except OSError as failure:
            from ascend_session.failures.table import PROCESS_LIMIT

            raise JobError(
                f"The guardian of the job could not be started: {failure.strerror}.",
                hint=PROCESS_LIMIT if failure.errno == errno.EAGAIN else None,
            ) from None
        self._channel = MessageChannel(self._socket.fileno())
        self._listener = fds[1]  # as the guardian knows it

    def __enter__(self) -> "GuardianProcess":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *failure: object) -> None:
        if not self._has_begun:
            with contextlib.suppress(ProcessLookupError):  # reaped by a handler of the program's
                self._process.kill()  # a fork of this process may keep the socket open
        elif kind is not None:
            self.kill()
        # It ends its job when the socket is closed.
        self._socket.close()
        self._channel.is_open = False  # its number may be another file's by the next end
        self._process.wait()

    def begin(self, job: Dict[str, Any]) -> None:
        """Have it start the ranks of a job; `job_message.describe_job` makes the argument."""
        self._has_begun = True
        self._channel.send({**job, "listener": self._listener})
        self._channel.flush(wait=True)

    def fileno(self) -> int:
        """Return a descriptor that poll(2) finds readable when something has happened."""
        return self._channel.fd

    def receive(self) -> Iterator[FromGuardian]:
        """Read what has happened since; after `Over` there is nothing more."""
        for name, *values in self._channel.receive():
            kind = EVENTS[name]
            self.is_over = kind is Over
            yield kind(*values)
        if not self._channel.is_open and not self.is_over:
            self.is_over = True
            yield Over((), time.time(), orderly=False)

    def stop(self, number: int, is_from_outside: bool = False) -> None:
        """Ask every process of the job to exit; kill those that have not after the grace.

        Args:
            number: The signal to ask by.
            is_from_outside: Whether this process got SIGTERM, and perhaps they did as well.
        """
        self._send(("stop", int(number), is_from_outside))

    def kill(self) -> None:
        """End every process of the job now."""
        self._send(("kill",))

    def pass_on(self, number: int) -> None:
        """Send a signal to the processes that catch it."""
        self._send(("pass on", int(number)))

    def locate(self) -> None:
        """Ask where the ranks are; `Located` says it."""
        self._send(("locate",))

    def pause(self) -> None:
        """Stop every process of the job until `resume`; `Paused` says when that is done."""
        self._send(("pause",))

    def resume(self) -> None:
        """Let every process of the job go on."""
        self._send(("continue",))

    def _send(self, message: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)  # one that was stopped reads nothing
        self._channel.send(message)
        self._channel.flush(wait=True)


def _list_words(config: LaunchConfig) -> List[str]:
    """List the words of the program, for ``ps`` and for whoever ends processes by their names.

    What ``pkill -f train.py`` sends launcher and ranks, the guardian has to notice.
    """
    return [config.script or config.module or config.program or "", *config.args]


def _guardian_environment() -> Dict[str, str]:
    """Give the guardian modules from where this process has them, and nothing else of Python's.

    Python's own come first, and then this package, so that no module of the user's, who may put
    folders in front of them in this process, takes the place of one. Nor does another version of
    this package, where this process has it from its working directory.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    library = os.path.dirname(os.__file__)
    own = [library, os.path.join(library, "lib-dynload")]
    entries: Sequence[object] = sys.path  # Python passes over what is no text
    places = [entry for entry in entries if isinstance(entry, str) and os.path.isabs(entry)]
    return {**environ, "PYTHONPATH": os.pathsep.join([*own, _BESIDE_PACKAGE, *places])}
