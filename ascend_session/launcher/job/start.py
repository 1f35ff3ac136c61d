"""How the guardian starts a rank."""

import marshal
import os
import signal
from typing import Dict, List, NamedTuple, Optional, Tuple

from ascend_session.launcher.job.children import die_with_parent
from ascend_session.launcher.job.signals import ASKING
from ascend_session.rank_folder import RANK_FOLDER, RANK_PID

# Python ignores the last two, which a program inherits. The others have the guardian's handlers
# until there is a program, and one that came before that would be lost in them.
_RESET_IN_RANKS = (*ASKING, signal.SIGPIPE, signal.SIGXFSZ)


class GuardedRank(NamedTuple):
    """What the guardian has to know of a rank, which it gets as a message.

    Its texts are bytes, which this process may decode in another way than the launcher.

    Attributes:
        rank: Its number in the job, from 0.
        command: The program, by its absolute path, and its arguments.
        cwd: Working directory, absolute.
        environment: The complete environment.
        cpus: The CPUs that it may use; None means those of the launcher.
        is_attached: Whether it has the launcher's standard streams.
        stdout: Log file for its standard output; empty for an attached rank.
        stderr: Log file for its standard error, likewise.
    """

    rank: int
    command: List[bytes]
    cwd: bytes
    environment: Dict[bytes, bytes]
    cpus: Optional[List[int]]
    is_attached: bool
    stdout: bytes
    stderr: bytes

    @property
    def folder(self) -> str:
        """Its own folder, absolute."""
        return os.fsdecode(self.environment.get(os.fsencode(RANK_FOLDER), b""))

    @property
    def rank_id(self) -> str:
        """The RANK_ID that it gets; may be empty."""
        return os.fsdecode(self.environment.get(b"RANK_ID", b""))

    @property
    def logs(self) -> Tuple[str, ...]:
        """Its log files; empty for an attached rank."""
        return tuple(os.fsdecode(log) for log in (self.stdout, self.stderr) if log)


def start_rank(rank: GuardedRank, pipes: Optional[Tuple[int, int]] = None) -> Tuple[int, int]:
    """Fork; return the child's pid and a pipe for `read_trouble`.

    Args:
        rank: The rank.
        pipes: What it writes to in place of its log files.

    Raises:
        OSError: If there can be no more processes.
    """
    parent = os.getpid()
    read, write = os.pipe()
    # A signal that comes to the child early has to wait until it ends the rank, not the guardian.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
    try:
        pid = os.fork()
        if not pid:
            _become(rank, pipes, parent, write)
    except OSError:
        os.close(read)
        raise
    finally:
        os.close(write)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid, read


def _become(rank: GuardedRank, pipes: Optional[Tuple[int, int]], parent: int, write: int) -> None:
    """Become the rank's program; write what went wrong to the pipe, which a program closes."""
    stage = "started"
    try:
        os.setsid()
        if not die_with_parent(signal.SIGKILL, parent):
            os._exit(128 + signal.SIGKILL)
        stdin = 0 if rank.is_attached else os.open(os.devnull, os.O_RDONLY)
        os.dup2(stdin, 0)
        if not rank.is_attached:
            for number, log in (1, rank.stdout), (2, rank.stderr):
                if pipes is None:
                    stage = f"started with its log file {os.fsdecode(log)}"
                    target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
                else:
                    target = pipes[number - 1]
                os.dup2(target, number)
        for number in _RESET_IN_RANKS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        stage = f"started in {os.fsdecode(rank.cwd)}"
        os.chdir(rank.cwd)
        stage = "started"
        environment = {**rank.environment, os.fsencode(RANK_PID): b"%d" % os.getpid()}
        os.execve(rank.command[0], rank.command, environment)
    except BaseException as failure:
        number = getattr(failure, "errno", None) or 0
        text = getattr(failure, "strerror", None) or str(failure)
        os.write(write, marshal.dumps((stage, number, text)))
    finally:
        os._exit(127)


def read_trouble(pipe: int) -> Optional[Tuple[str, int, str]]:
    """Read why a child that has ended never was a rank; None if it was.

    Returns:
        What was tried, the error's number and its text.
    """
    os.set_blocking(pipe, False)
    try:
        data = os.read(pipe, 65536)
    except BlockingIOError:
        data = b""
    os.close(pipe)
    trouble: Optional[Tuple[str, int, str]] = marshal.loads(data) if data else None
    return trouble
