"""How a job is stopped: ranks are asked to exit first, their workers later, and SIGKILL ends all.

A rank that gets a signal may want to save, and needs its data workers for that. So only the ranks
get it at once. What a rank has started gets SIGTERM when the rank has exited, and then belongs to
the guardian; or 2 s before SIGKILL, if the rank takes so long.

A rank may be a shell that runs the program. One without a trap exits by the signal, before its next
command, and its commands are next, first those that catch the signal: in ``python train.py | tee``
Python gets it, and tee when Python has exited. One with a trap runs that when its command has
exited: so the command gets the signal, too. What it has started in the background does not, for
passing the signal on is what the trap is for. Ctrl-C goes the same way: a shell that waits for a
command catches it in any case.

Somebody may send SIGTERM to all processes of a job (systemd, ``scancel``). Then nobody who has a
handler for it gets another one from here, unless the grace is almost over: it may be that somebody
has sent it to launcher and guardian only.
"""

import os
import signal
import time
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Set

from ascend_session.launcher.job.children import (
    SeenProcess,
    find_catchers,
    group_by_parent,
    list_descendants,
)
from ascend_session.launcher.job.signals import blocks_signal, catches_signal, ignores_signal
from ascend_session.launcher.job.timers import Timers

_LATE_S = 2.0  # before SIGKILL, in which workers can exit whose rank is still there
# How long processes have to exit, before those are looked for that are asked next.
_BEFORE_SWEEP_S, _BETWEEN_SWEEPS_S = 0.02, 0.5
_BETWEEN_KILLS_S, _LONGEST_BETWEEN_S = 0.05, 1.0
# What SIGKILL does not end within this time waits for a device or a file server.
_GIVE_UP_S = 30.0


class StopSequence:
    """Asks the processes below this one, the guardian, to exit.

    Args:
        number: The signal for the ranks, SIGTERM or SIGINT; all others get SIGTERM.
        folders: The pid and the folder of each rank that was ever started.
        announce: Tells a process, and those that have the rank's folder, that the signal comes.
    """

    def __init__(
        self,
        number: int,
        folders: Mapping[int, str],
        announce: Callable[[int, str], None],
    ) -> None:
        self._number = number
        self._folders = folders
        self._announce = announce
        self._shells = {pid for pid in folders if SeenProcess(pid).is_shell}
        self._asked: Set[int] = set()
        self._sent: Set[int] = set()  # those of them that got the signal from here
        self._is_for_all = False
        self._has_looked = False

    def ask_ranks(self, alive: List[int], is_for_all: bool) -> None:
        """Ask the ranks that live.

        Args:
            alive: Their pids.
            is_for_all: Whether every process of the job has got SIGTERM from somebody else.
        """
        self._is_for_all = is_for_all and self._number == signal.SIGTERM
        for pid in alive:
            self._ask(pid, self._number)

    def ask_rest(self, processes: List[SeenProcess]) -> None:
        """Ask those of the living processes below this one that have not got the signal."""
        self._is_for_all = False
        for process in processes:
            if process.pid not in self._sent:
                self._ask(process.pid, signal.SIGTERM)

    def ask_next(self, processes: List[SeenProcess]) -> None:
        """Ask those of the living processes below this one whose turn it is."""
        batch = self._find_next(processes)
        while batch:
            for process in batch:
                is_command = self._number == signal.SIGINT and process.session in self._shells
                catches = is_command and catches_signal(process.pid, signal.SIGINT)
                self._ask(process.pid, signal.SIGINT if catches else signal.SIGTERM)
            # Below a shell that was asked just now may be a command that it waits for.
            batch = [] if self._has_looked else self._find_next(processes)
        self._has_looked = True

    def _find_next(self, processes: List[SeenProcess]) -> List[SeenProcess]:
        """Find the processes above which nobody is left who was asked, but for shells."""
        children = group_by_parent(processes)
        groups: Dict[int, List[SeenProcess]] = {}
        busy: Set[int] = set()  # sessions of those who were asked and live
        todo = list(children.get(os.getpid(), []))
        while todo:
            process = todo.pop()
            session = process.session
            if process.pid not in self._asked:
                groups.setdefault(session, []).append(process)
            elif not self._has_looked and process.is_shell:
                below = children.get(process.pid, [])
                todo += [each for each in below if not _is_in_background(each)]
            else:
                busy.add(session)
        selected: List[SeenProcess] = []
        for session, group in groups.items():
            # What has left its rank's session may belong to any rank.
            if session in busy or (busy and session not in self._folders):
                continue
            catching = [each for each in group if find_catchers(each, self._number, children)]
            selected += catching or group
        return selected

    def _ask(self, pid: int, number: int) -> None:
        self._asked.add(pid)
        if self._is_for_all and (catches_signal(pid, number) or blocks_signal(pid, number)):
            return
        self._sent.add(pid)
        self._announce(pid, self._folders.get(pid, ""))
        for each in (number, signal.SIGCONT):  # one that was stopped has to wake for it
            try:
                os.kill(pid, each)
            except (ProcessLookupError, PermissionError):  # has exited, or runs as another user
                continue


class JobStop:
    """The stop of a job, from the first request to exit to the last SIGKILL.

    Args:
        send: Sends a message to the launcher.
        signal_all: Sends a signal to every process of the job.
        timers: Those of the loop; "ask", "late", "sweep", "kill" and "give up" are of the stop.
    """

    def __init__(
        self, send: Callable[[Any], None], signal_all: Callable[[int], None], timers: Timers
    ) -> None:
        self._send = send
        self._timers = timers
        self._signal_all = signal_all
        self._sequence: Optional[StopSequence] = None
        self._groups: Collection[int] = ()  # of the ranks that lived when they were asked
        self._has_swept = False  # when no rank lived any more
        self._is_late = False
        self._between_kills_s = _BETWEEN_KILLS_S

    def ask(
        self, sequence: StopSequence, groups: Collection[int], wait_s: float, grace_s: float
    ) -> None:
        """Ask the processes of the job to exit, and kill them after the grace.

        Args:
            sequence: The order in which they are asked.
            groups: The groups of the ranks that live.
            wait_s: Seconds in which it becomes clear whether they got the signal from outside.
            grace_s: Seconds until SIGKILL.
        """
        self._sequence, self._groups = sequence, groups
        # Before "late", however short the grace is, or they would get two signals.
        self._timers.set("ask", min(wait_s, grace_s / 4))
        self._timers.set("late", max(grace_s - _LATE_S, grace_s / 2))
        self._timers.set("kill", grace_s)

    def kill_now(self) -> None:
        """Kill the processes of the job, without any grace."""
        self._timers.set("kill")

    def note_exit(self) -> None:
        """Note that a process has exited, after which it may be the turn of others."""
        if self._sequence is not None and "ask" not in self._timers:
            self._timers.set("sweep", _BEFORE_SWEEP_S)

    @property
    def is_given_up(self) -> bool:
        """Whether processes live that SIGKILL does not end."""
        return self._timers.is_due("give up")

    def act(self, alive: Collection[int], is_for_all: bool, is_clear: bool) -> None:
        """Do what is due.

        Args:
            alive: The pids of the ranks that live.
            is_for_all: Whether every process of the job has got SIGTERM from somebody else.
            is_clear: Whether that will not change.
        """
        timers = self._timers
        if is_clear and "ask" in timers:
            timers.set("ask")
        if self._sequence is not None and timers.take("ask"):
            self._sequence.ask_ranks(list(alive), is_for_all)
            timers.set("sweep", _BEFORE_SWEEP_S)
        if timers.take("late"):
            self._is_late = True
            timers.set("sweep")
        if not alive and not self._has_swept and "sweep" not in timers:
            timers.set("sweep", _BEFORE_SWEEP_S)
        if timers.take("sweep"):
            self._sweep(not alive)
        if timers.is_due("kill"):
            self._kill()

    def _sweep(self, have_all_exited: bool) -> None:
        """Ask those to exit whose turn it is, and report what all ranks have left behind."""
        processes = list_descendants()
        if have_all_exited and not self._has_swept:
            self._has_swept = True
            left = [each for each in processes if each.group not in self._groups]
            if left:
                self._send(("left_behind", tuple(map(str, left)), time.time()))
        if self._sequence is not None and self._is_late:
            self._sequence.ask_rest(processes)
        elif self._sequence is not None:
            self._sequence.ask_next(processes)
        if processes:
            self._timers.set("sweep", _BETWEEN_SWEEPS_S)

    def _kill(self) -> None:
        """End every process of the job, and look again soon."""
        if "give up" not in self._timers:
            self._timers.set("give up", _GIVE_UP_S)
            self._send(("killing", time.time()))
        self._timers.set("kill", self._between_kills_s)
        self._signal_all(signal.SIGKILL)
        self._between_kills_s = min(2 * self._between_kills_s, _LONGEST_BETWEEN_S)


def _is_in_background(process: SeenProcess) -> bool:
    """Tell whether a shell has started a process with ``&``, which has it ignore both signals."""
    # Shells ignore SIGQUIT in any case, and Python has a handler of its own for SIGINT.
    return ignores_signal(process.pid, signal.SIGINT if process.is_shell else signal.SIGQUIT)
