"""The guardian of a job: the parent of its ranks, in a process that nothing else happens in.

It

* starts every rank in a session of its own, with SIGKILL as its signal for the guardian's death;
* notices ends by SIGCHLD, and stops everyone at the first end that is no success;
* adopts what ranks leave behind (it is a subreaper, prctl(2)), so that every process of the job is
  below it, whatever happened to the processes between;
* hears from the launcher through a socket, and stops everyone when that is closed;
* leaves when it has no child, which for a subreaper means that no process of the job lives.

The first rank waits for it, so it imports little: ``typing`` alone would add a half to the time in
which it starts (28 ms instead of 17 on Python 3.7), and is only there for the type checker.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import select
import signal
import sys
import time

from ascend_session.launcher.channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

_LONGEST = 200


class Below:
    """All that live below this process, each known by its pid and the time it was started.

    Args:
        folders: Where psutil is found.
    """

    def __init__(self, folders: List[str]) -> None:
        self._folders = folders

    def all(self) -> List[Any]:
        """List the processes, without those that have ended."""
        psutil = self._psutil()
        processes = psutil.Process().children(recursive=True)
        return [process for process in processes if self._lives(process)]

    def ask_to_end(self, outside_of: Any) -> List[str]:
        """Send SIGTERM to those in none of the groups; return what they are."""
        processes = [one for one in self.all() if _group(one.pid) not in outside_of]
        descriptions = [self.described(one) for one in processes]
        for process in processes:
            with contextlib.suppress(self._psutil().Error):
                process.terminate()
                process.resume()  # one that was stopped has to wake for it
        return descriptions

    def kill(self) -> None:
        """Send SIGKILL to all of them."""
        for process in self.all():
            with contextlib.suppress(self._psutil().Error):
                process.kill()

    def described(self, process: Any) -> str:
        """Describe a process: its pid and its command."""
        try:
            words = " ".join(process.cmdline()) or process.name()
        except self._psutil().Error:
            return str(process.pid)
        return f"{process.pid} ({words[:_LONGEST]})"

    def _lives(self, process: Any) -> bool:
        try:
            return bool(process.status() != self._psutil().STATUS_ZOMBIE)
        except self._psutil().Error:
            return False

    def _psutil(self) -> Any:
        if "psutil" not in sys.modules:
            sys.path += self._folders
        import psutil

        return psutil


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


# prctl(2)
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_prctl = ctypes.CDLL(None, use_errno=True).prctl

# By which a process is asked to end.
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Python ignores the last two, which a program inherits. The others have the guardian's handlers
# until there is a program, and one that came before that would be lost in them.
_DEFAULT = (*ASKING, signal.SIGPIPE, signal.SIGXFSZ)


def be_subreaper() -> None:
    """Adopt from now on what loses its parent below this process."""
    _prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(number: int, parent: int) -> bool:
    """Ask for a signal when the parent's thread that started this process ends.

    Returns:
        Whether the parent was there when it was asked for; if not, the signal does not come.
    """
    _prctl(_SET_PDEATHSIG, number)
    return os.getppid() == parent


class Places:
    """The CPUs on which children begin: this process goes there first, and they inherit that.

    So a child is bound from its first instruction, and one that cannot be is known at once.
    """

    def __init__(self) -> None:
        self._own = os.sched_getaffinity(0)

    def go(self, cpus: Optional[List[int]]) -> Optional[OSError]:
        """Go to these CPUs, or where this process began; say why it cannot be there."""
        try:
            os.sched_setaffinity(0, self._own if cpus is None else cpus)
        except OSError as failure:  # such as CPUs that were taken away since they were planned
            if cpus is not None:
                self.go(None)
            return failure
        return None


def start(rank: Dict[str, Any]) -> Tuple[int, int]:
    """Fork; return the child's pid and a pipe, see `trouble_in`.

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
            _become(rank, parent, write)
    except OSError:
        os.close(read)
        raise
    finally:
        os.close(write)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid, read


def trouble_in(pipe: int) -> Optional[Tuple[str, int, str]]:
    """Say why a child that has ended never was a rank; None if it was.

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


def _become(rank: Dict[str, Any], parent: int, write: int) -> None:
    stage = "started"
    try:
        os.setsid()
        if not die_with_parent(signal.SIGKILL, parent):
            os._exit(128 + signal.SIGKILL)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, fd in enumerate((null, rank["stdout"], rank["stderr"])):
            os.dup2(fd, number)
        for number in _DEFAULT:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if rank["open_files"] is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_NOFILE, rank["open_files"])
        stage = f"started in {os.fsdecode(rank['cwd'])}"
        os.chdir(rank["cwd"])
        stage = "started"
        os.execve(rank["command"][0], rank["command"], rank["environment"])
    except BaseException as failure:
        number = getattr(failure, "errno", None) or 0
        text = getattr(failure, "strerror", None) or str(failure)
        os.write(write, marshal.dumps((stage, number, text)))
    finally:
        os._exit(127)


# How long ranks have to end, before the processes outside of their groups are looked for.
_BEFORE_SWEEP = 0.02
_BETWEEN_KILLS, _LONGEST_BETWEEN = 0.05, 1.0
# What SIGKILL does not end within this time waits for a device or a file server.
_GIVE_UP = 30.0
_LONGEST_WAIT = 3600.0  # poll(2) takes no more than 24 days


class GuardedJob:
    """The ranks and all that comes from them.

    Args:
        channel: The way to the launcher.
        job: ``ranks``, each with ``command``, ``cwd``, ``environment``, ``cpus``, ``stdout``,
            ``stderr`` and ``open_files``; ``grace``; ``psutil``, the folders it is found in.
    """

    def __init__(self, channel: Channel, job: Dict[str, Any]) -> None:
        self._channel = channel
        self._ranks: List[Dict[str, Any]] = job["ranks"]
        self._grace: float = job["grace"]
        self._below = Below(job["psutil"])
        self._alive: Dict[int, Tuple[int, int]] = {}  # pid -> rank and its pipe
        self._has_failed = False
        self._is_told = False
        self._is_stopping = False
        self._has_looked = False
        self._sweep_at: Optional[float] = None
        self._kill_at: Optional[float] = None
        self._give_up_at: Optional[float] = None
        self._between = _BETWEEN_KILLS
        self._wake = self._wake_by_signals()

    def run(self, messages: List[Any]) -> None:
        """Start the ranks and stay until the end.

        Args:
            messages: What came with the job.
        """
        self._obey(messages)
        self._start_all()
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        living: List[str] = []
        while self._reap():
            if self._has_given_up():
                living = [self._below.described(process) for process in self._below.all()]
                break
            self._act()
            if self._channel.is_open:
                poll.register(self._channel.fd, self._channel.events)
            for fd, _ in poll.poll(self._patience()):
                if fd == self._wake:
                    os.read(fd, 4096)
                else:
                    self._channel.flush()
                    self._obey(self._channel.hear())
                    if not self._channel.is_open:
                        poll.unregister(fd)
        self._channel.say(("over", tuple(living), time.time()))
        self._channel.flush(wait=True)

    def _wake_by_signals(self) -> int:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

        def told(number: int, frame: Any) -> None:
            self._is_told = True

        for number in ASKING:
            signal.signal(number, told)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return read

    def _start_all(self) -> None:
        places = Places()
        for number, rank in enumerate(self._ranks):
            # Many ranks take their time to start. The order in which they fail counts, and once
            # one has failed, or everyone is to end, no other is needed.
            self._reap()
            self._obey(self._channel.hear())
            is_asked = self._is_told or self._is_stopping or not self._channel.is_open
            if self._has_failed or is_asked:
                break
            unbound = places.go(rank["cpus"])
            if unbound is not None:
                self._channel.say(
                    ("not bound", number, unbound.strerror or str(unbound), time.time())
                )
            try:
                pid, pipe = start(rank)
            except OSError as failure:  # there can be no more processes
                text = failure.strerror or str(failure)
                message = ("not started", number, "started", failure.errno, text, time.time())
                self._channel.say(message)
                self._has_failed = True
                break
            self._alive[pid] = number, pipe
            self._channel.say(("started", number, pid, time.time()))
        places.go(None)
        for rank in self._ranks:
            os.close(rank["stdout"])
            os.close(rank["stderr"])

    def _reap(self) -> bool:
        """Note all that have ended; return False when this process has no child any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid in self._alive:
                self._note(status, *self._alive.pop(pid))

    def _note(self, status: int, rank: int, pipe: int) -> None:
        trouble = trouble_in(pipe)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._has_failed = self._has_failed or code != 0
        if trouble is None:
            self._channel.say(("ended", rank, code, time.time()))
        else:
            self._channel.say(("not started", rank, *trouble, time.time()))

    def _act(self) -> None:
        """Do what is due."""
        if self._is_told or not self._channel.is_open:
            self.stop(signal.SIGTERM, "told")
        elif self._has_failed:
            self.stop(signal.SIGTERM, "failure")
        elif not self._alive:
            self.stop(signal.SIGTERM, "left behind")
        now = time.monotonic()
        if not self._alive and not self._has_looked and self._sweep_at is None:
            self._has_looked = True
            self._sweep_at = now + _BEFORE_SWEEP
        if self._sweep_at is not None and now >= self._sweep_at:
            self._sweep_at = None
            left = self._below.ask_to_end(outside_of=set(self._alive))
            if not self._alive:
                self._has_looked = True
                self._channel.say(("left", tuple(left), time.time()))
        if self._kill_at is not None and now >= self._kill_at:
            self.kill()

    def _obey(self, messages: List[Any]) -> None:
        for message in messages:
            if message[0] == "stop":
                self._grace = message[2]
                self.stop(message[1], "asked")
            elif message[0] == "kill":
                self._kill_at = time.monotonic()

    def stop(self, number: int, why: str) -> None:
        """Ask every process of the job to end, once."""
        if self._is_stopping:
            return
        self._is_stopping = True
        # Before the signals, so that whoever ends later, ends because of them.
        self._channel.say(("stopping", why, time.time()))
        self._signal_groups(number)
        now = time.monotonic()
        self._sweep_at = now + _BEFORE_SWEEP
        if self._kill_at is None:
            self._kill_at = now + self._grace

    def kill(self) -> None:
        """End every process of the job, and look again soon."""
        now = time.monotonic()
        if self._give_up_at is None:
            self._is_stopping = True
            self._give_up_at = now + _GIVE_UP
            self._channel.say(("killing", time.time()))
        self._signal_groups(signal.SIGKILL)
        self._below.kill()
        self._kill_at = now + self._between
        self._between = min(2 * self._between, _LONGEST_BETWEEN)

    def _signal_groups(self, number: int) -> None:
        # A rank that is not reaped keeps its pid, so its group is nobody else's.
        for pid in self._alive:
            for each in (number, signal.SIGCONT):  # one that was stopped has to wake for it
                try:
                    os.killpg(pid, each)
                except ProcessLookupError:  # it has been forked, and has no group yet
                    os.kill(pid, each)
                except PermissionError:  # somebody else's by now, by a program of root's
                    continue

    def _has_given_up(self) -> bool:
        return self._give_up_at is not None and time.monotonic() > self._give_up_at

    def _patience(self) -> Optional[float]:
        """Compute the milliseconds until something is due, for poll(2)."""
        due = [at for at in (self._sweep_at, self._kill_at, self._give_up_at) if at is not None]
        if not due:
            return None
        return min(max(0.0, min(due) - time.monotonic()), _LONGEST_WAIT) * 1000 + 1


def main() -> None:
    """Read two arguments, the socket and the pid of the launcher; then the job from the socket."""
    fd, launcher = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(fd, False)
    be_subreaper()
    # The socket says it too, unless a child of the launcher keeps the other end open.
    if not die_with_parent(signal.SIGTERM, launcher):
        return
    channel = Channel(fd)
    messages = _first(channel)
    if not messages:
        return
    job = messages[0]
    for rank in job["ranks"]:
        os.set_inheritable(rank["stdout"], False)
        os.set_inheritable(rank["stderr"], False)
    os.chdir("/")
    GuardedJob(channel, job).run(messages[1:])


def _first(channel: Channel) -> List[Any]:
    """Wait for a message; with it may come more. Empty if the launcher has gone."""
    messages: List[Any] = []
    while channel.is_open and not messages:
        channel.wait(select.POLLIN)
        messages = channel.hear()
    return messages
