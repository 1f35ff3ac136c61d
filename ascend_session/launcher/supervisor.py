"""One attempt at a job, from its pipes to the end of its last process."""

import importlib
import os
import select
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Tuple

from ascend_session.launcher.events import (
    Ended,
    Event,
    Left,
    NotBound,
    NotStarted,
    Over,
    Planned,
    Stalled,
    Started,
    Stopping,
)
from ascend_session.launcher.guarding import Guarding
from ascend_session.launcher.open_files import enough_open_files
from ascend_session.launcher.output import Output
from ascend_session.launcher.plan import Plan
from ascend_session.launcher.pump import Pump
from ascend_session.launcher.signals import Signals

if TYPE_CHECKING:
    from ascend_session.launcher.stall import StallWatch

__all__ = ["Noticed", "NoticedRank", "supervise"]

_QUIET = 0.3  # seconds


@dataclass
class NoticedRank:
    """What was noticed of a rank; see `RankResult`."""

    rank: int
    pid: Optional[int] = None
    status: Optional[int] = None
    started: Optional[float] = None
    ended: Optional[float] = None
    not_started: Optional[NotStarted] = None


@dataclass
class Noticed:
    """What was noticed of an attempt.

    Attributes:
        ranks: Of each rank, in order.
        began: When it began, in seconds since 1970.
        over: When no process of it lived any more.
        stopped: When everyone was asked to end; None if nobody was.
        failed_first: Whether that was because a rank had failed.
        signal: The signal to the launcher because of which everyone was, or None.
        stall: What the ranks were doing when they stalled, in sentences; empty if they did not.
        guardian_died: Whether the guardian did not live to the end.
        not_bound: The ranks that could not be bound to their CPUs.
        swept: What lived on when no rank did.
        left: What did not end although it was killed.
    """

    ranks: List[NoticedRank]
    began: float = field(default_factory=time.time)
    over: float = 0.0
    stopped: Optional[float] = None
    failed_first: bool = False
    signal: Optional[int] = None
    stall: Tuple[str, ...] = ()
    guardian_died: bool = False
    not_bound: Tuple[NotBound, ...] = ()
    swept: Tuple[str, ...] = ()
    left: Tuple[str, ...] = ()

    def of(self, rank: int) -> NoticedRank:
        """What was noticed of a rank; those of a node follow each other."""
        return self.ranks[rank - self.ranks[0].rank]

    @property
    def alive(self) -> Dict[int, int]:
        """Rank and pid of those that were started and have not ended."""
        found = [(one.rank, one.pid) for one in self.ranks if one.ended is None]
        return {rank: pid for rank, pid in found if pid is not None}


def supervise(
    plan: Plan,
    grace: float,
    output: Output,
    signals: Signals,
    on_event: Callable[[Event], None],
    stall_timeout: Optional[float] = None,
) -> Noticed:
    """Runs an attempt; returns when no process of it lives any more.

    Args:
        plan: The attempt.
        grace: Seconds from SIGTERM to SIGKILL.
        output: Where the ranks' lines go.
        signals: Those that the launcher gets; the first asks everyone to end, the second ends
            them.
        on_event: Is told what happens, in this thread.
        stall_timeout: Seconds without a sign of life after which everyone is ended.

    Raises:
        JobError: If the guardian or a thread could not be started, or there may not be enough
            open files.
        BaseException: What ``on_event`` raises; everyone is ended first.
    """
    with enough_open_files(len(plan.ranks)) as open_files:
        on_event(Planned(plan, time.time()))
        noticed = Noticed([NoticedRank(rank.rank) for rank in plan.ranks])
        pump, pipes = output.pump(plan.ranks)
        try:
            pump.start()
        except BaseException:
            for fd in [fd for pair in pipes for fd in pair]:
                os.close(fd)
            raise
        try:
            guarding = Guarding(plan.ranks, pipes, grace, open_files)
            try:
                importlib.import_module("ascend_session.launcher.why")  # while the ranks begin
                stall = _stall_watch(stall_timeout, pump, plan)
                _Supervision(noticed, guarding, signals, on_event, stall).run()
            except BaseException:
                guarding.kill()
                raise
            finally:
                guarding.close()
                if noticed.guardian_died:
                    _end_orphans(plan, noticed)
        finally:
            output.finish(pump, signals)
    return noticed


class _Supervision:
    """The loop: it sleeps until the guardian says something or a signal comes."""

    def __init__(
        self,
        noticed: Noticed,
        guarding: Guarding,
        signals: Signals,
        on_event: Callable[[Event], None],
        stall: "Optional[StallWatch]",
    ) -> None:
        self._noticed = noticed
        self._guarding = guarding
        self._signals = signals
        self._on_event = on_event
        self._stall = stall
        self._is_ready = False

    def run(self) -> None:
        """Runs it until the guardian says that it is over, or has died."""
        poll = select.poll()
        poll.register(self._guarding, select.POLLIN)
        poll.register(self._signals, select.POLLIN)
        while not self._guarding.is_over:
            if not poll.poll(self._patience()) and not self._is_ready:
                self._get_ready()
            for number in self._signals.take():
                self._obey(number)
            for message in self._guarding.hear():
                self._note(message)
                self._on_event(message)
            self._look_for_a_stall()

    def _patience(self) -> Optional[float]:
        """Milliseconds, for poll(2)."""
        seconds = [] if self._stall is None else [self._stall.patience()]
        seconds += [] if self._is_ready else [_QUIET]
        return 1000 * min(seconds) if seconds else None

    def _get_ready(self) -> None:
        """Loads what judges a failure while nothing happens, for it takes longer than ranks do."""
        importlib.import_module("ascend_session.launcher.blame")
        self._is_ready = True

    def _obey(self, number: int) -> None:
        if self._noticed.signal is None:
            self._noticed.signal = number
            # At a terminal, Ctrl-C means an interruption; whatever else comes means the end.
            self._guarding.stop(number if number == signal.SIGINT else signal.SIGTERM)
        else:
            self._guarding.kill()

    def _note(self, event: Event) -> None:
        noticed = self._noticed
        if isinstance(event, (Started, NotStarted, Ended)):
            self._note_of(event, noticed.of(event.rank))
        elif isinstance(event, NotBound):
            noticed.not_bound += (event,)
        elif isinstance(event, Stopping):
            if event.why != "left behind":
                noticed.stopped = event.time
            noticed.failed_first = event.why == "failure"
        elif isinstance(event, Left):
            noticed.swept = event.processes
        elif isinstance(event, Over):
            noticed.over = event.time
            noticed.left = event.living
            noticed.guardian_died = not event.orderly

    def _note_of(self, event: Event, rank: NoticedRank) -> None:
        if isinstance(event, Started):
            rank.pid, rank.started = event.pid, event.time
        elif isinstance(event, NotStarted):
            rank.pid, rank.not_started, rank.ended = None, event, event.time
        elif isinstance(event, Ended):
            rank.status, rank.ended = event.status, event.time

    def _look_for_a_stall(self) -> None:
        if self._stall is None or self._noticed.stopped is not None or self._guarding.is_over:
            return
        report = self._stall.look(self._noticed.alive)
        if report:
            self._noticed.stall = tuple(report)
            self._on_event(Stalled(self._noticed.stall, time.time()))
            self._guarding.stop(signal.SIGTERM)
            self._stall = None


def _end_orphans(plan: Plan, noticed: Noticed) -> None:
    from ascend_session.launcher.orphans import end_orphans

    noticed.left = tuple(end_orphans(plan.folder))
    noticed.over = time.time()


def _stall_watch(seconds: Optional[float], pump: Pump, plan: Plan) -> "Optional[StallWatch]":
    if seconds is None:
        return None
    from ascend_session.launcher.stall import StallWatch

    return StallWatch(seconds, pump, plan)
