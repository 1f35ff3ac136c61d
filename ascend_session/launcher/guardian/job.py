"""One job below its guardian, from its start until no process of it lives."""

from __future__ import annotations

import os
import select
import signal
import time

from ascend_session.launcher.guardian.below import Below
from ascend_session.launcher.guardian.child import ASKING, Places, start, trouble_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from ascend_session.launcher.guardian.channel import Channel

__all__ = ["GuardedJob"]

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
        """Starts the ranks and stays until the end.

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
                living = [self._below.described(one) for one in self._below.all()]
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
        """Takes note of all that have ended; False when this process has no child any more."""
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
        """Does what is due."""
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
        """Asks every process of the job to end, once."""
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
        """Ends every process of the job, and looks again soon."""
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
            for one in (number, signal.SIGCONT):  # one that was stopped has to wake for it
                try:
                    os.killpg(pid, one)
                except ProcessLookupError:  # it has been forked, and has no group yet
                    os.kill(pid, one)
                except PermissionError:  # somebody else's by now, by a program of root's
                    continue

    def _has_given_up(self) -> bool:
        return self._give_up_at is not None and time.monotonic() > self._give_up_at

    def _patience(self) -> Optional[float]:
        """Milliseconds until something is due, for poll(2)."""
        due = [at for at in (self._sweep_at, self._kill_at, self._give_up_at) if at is not None]
        if not due:
            return None
        return min(max(0.0, min(due) - time.monotonic()), _LONGEST_WAIT) * 1000 + 1
