"""What was seen of an attempt; the verdict adds why it failed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ascend_session.backends.exchange.lateness import ReportedGaps
from ascend_session.launcher.job.events import BackgroundEnded, NotBound, Repeated, ScriptRank
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank

if TYPE_CHECKING:
    from ascend_session.failures.failure import Failure, FailureClass


HIDDEN_FAILURE = 1
"""Exit code of a launch that failed although its ranks ended with 0."""


@dataclass(frozen=True)
class Cause:
    """Why an attempt failed.

    Attributes:
        rank: The rank that failed first or whose failure explains the others'; None if it was no
            rank, but a signal to the launcher.
        exit_code: What the launch ends with because of it.
        said: What happened, in one sentence.
        failure: The known failure of the vendor's stack behind it, or None.
        failure_class: Its class in this job, or None.
        advice: What to do, in full sentences; may be empty.
        others: Ranks that failed too, in the order in which they did.
        tail: The last lines that the rank wrote.
        place: Where in its program the rank failed, as lines, the user's own line first; empty if
            that is not known.
        stacks: The file with the stacks of a rank that crashed; empty if there are none.
        plogs: The vendor's log files of the rank's process.
        elsewhere: The rank on another node because of which ``rank`` failed, or None.
        left: Ranks that did not fail, but ended or left while others needed them.
        kind: ``different_models`` if every rank ended with 0, but they hold different models; else
            None.
    """

    rank: Optional[int]
    exit_code: int
    said: str
    failure: Optional[Failure] = None
    failure_class: Optional[FailureClass] = None
    advice: str = ""
    others: Tuple[int, ...] = ()
    tail: Tuple[str, ...] = ()
    place: Tuple[str, ...] = ()
    stacks: str = ""
    plogs: Tuple[str, ...] = ()
    elsewhere: Optional[int] = None
    left: Tuple[int, ...] = ()
    kind: Optional[str] = None

    def as_dict(self) -> Dict[str, Any]:
        """Convert the cause to plain values; the failure to its code and the line with it."""
        values = dict(vars(self))
        failure, kind = self.failure, self.failure_class
        values["failure"] = failure and {"code": failure.code, "line": failure.line}
        values["failure_class"] = kind and kind.value
        return values


@dataclass(frozen=True)
class Pace:
    """How fast an attempt has trained; what counts stands in `training.progress`.

    The ranks make their steps together, so that the one of which least time counts gives the pace:
    the others wait for it while it evaluates or saves.

    Attributes:
        first_step_s: Seconds of the first step, with compilation, on the rank that took longest;
            None if that is not known.
        steps: The steps after it that count.
        seconds: The time of these.
        steps_per_s: Their quotient.
        samples_per_s: The samples of all ranks in ``sample_ranks`` a second; None without any.
        sample_ranks: The ranks that have reported samples.
        has_all_samples: Whether these are all ranks of the job.
        slow_rank: The rank for which the others waited in most of the steps; None if there is none.
    """

    first_step_s: Optional[float]
    steps: int
    seconds: float
    steps_per_s: float
    samples_per_s: Optional[float]
    sample_ranks: Tuple[int, ...]
    has_all_samples: bool
    slow_rank: Optional[int]


@dataclass
class Attempt:
    """One attempt at the job: filled as things happen, and complete when it is judged.

    Attributes:
        number: From 1.
        job_id: Its ``JOB_ID``.
        folder: Its folder, with those of the ranks.
        started: In seconds since 1970.
        ended: Likewise; no process of the job lived then, but for those in ``left``.
        ranks: The ranks of this node, in order.
        cause: Why it failed; None if every rank ended with 0 and they hold one model, as far as
            that was compared.
        swept: What was left of the job when its ranks had ended, and was then ended.
        left: Processes that could not be ended.
        stopped: When everyone was asked to end; None if nobody was.
        first_failed: The rank whose failure explained those of the others then, if that was clear.
        signal: The signal to the launcher because of which everyone was, or None.
        killed: When what had not exited was killed; None if nothing was.
        is_kill_asked: Whether that was because of a second signal, and not after the grace.
        stall: What the ranks were doing when they stalled, in sentences; empty if they did not.
        standing: Who waited for whom when ``signal`` came to a job that stood still, as parts of a
            sentence; else empty.
        guardian_died: Whether the guardian did not live to the end.
        not_bound: The ranks that could not be bound to their CPUs.
        script_ranks: The ranks that its only rank, a script, was seen to start.
        background_failure: The first training that a rank has left running and that failed; None if
            none has.
        repeated: The rank that was seen to start others, as each does; None if none was.
        lost: Sentences about processes below ranks that failed, besides those of the cause, or
            about ranks that left no record.
        reports: What its ranks have reported.
        first_step: The global step with which rank 0 began, as `training.SaveOnPreemptionHook`
            has noted it; None if nothing did.
        is_one_model: Whether the ranks hold one model; None if nothing was compared.
        model_notes: What else is to be said about the models of the ranks.
        late_shares: By rank, the share of the steps in which all others waited for it; empty if
            there were too few steps, or this cannot be seen.
        slow_rank: The rank for which they waited in most of the steps; None if there is none.
        gaps: What the ranks have reported of their hosts' time between runs.
        pace: How fast the ranks have trained; None if too little of it is known.
    """

    number: int
    job_id: str
    folder: str
    started: float
    ended: float = 0.0
    ranks: Tuple[LaunchRank, ...] = ()
    cause: Optional[Cause] = None
    swept: Tuple[str, ...] = ()
    left: Tuple[str, ...] = ()
    stopped: Optional[float] = None
    first_failed: Optional[int] = None
    signal: Optional[int] = None
    killed: Optional[float] = None
    is_kill_asked: bool = False
    stall: Tuple[str, ...] = ()
    standing: str = ""
    guardian_died: bool = False
    not_bound: Tuple[NotBound, ...] = ()
    script_ranks: Tuple[ScriptRank, ...] = ()
    background_failure: Optional[BackgroundEnded] = None
    repeated: Optional[Repeated] = None
    lost: Tuple[str, ...] = ()
    reports: Reports = field(default_factory=Reports)
    first_step: Optional[int] = None
    is_one_model: Optional[bool] = None
    model_notes: Tuple[str, ...] = ()
    late_shares: Tuple[float, ...] = ()
    slow_rank: Optional[int] = None
    gaps: ReportedGaps = field(default_factory=lambda: ReportedGaps([0]), compare=False)
    pace: Optional[Pace] = None

    @classmethod
    def begin(cls, plan: Plan, started: float) -> Attempt:
        """Begin an attempt; its ranks are those of the plan."""
        gaps = ReportedGaps([rank.rank for rank in plan.ranks])
        folder = plan.folder
        return cls(plan.attempt, plan.job_id, folder, started, ranks=plan.ranks, gaps=gaps)

    def of(self, rank: int) -> LaunchRank:
        """Return what is known of a rank, by its number in the job."""
        return self.ranks[rank - self.ranks[0].rank]

    @property
    def alive(self) -> Dict[int, int]:
        """Rank and pid of those that were started and have not ended."""
        return {
            rank.rank: rank.pid
            for rank in self.ranks
            if rank.pid is not None and rank.ended is None
        }

    def as_dict(self) -> Dict[str, Any]:
        """Convert the attempt to plain values."""
        return {
            "number": self.number,
            "job_id": self.job_id,
            "folder": self.folder,
            "started": self.started,
            "ended": self.ended,
            "ranks": [rank.as_dict() for rank in self.ranks],
            "cause": None if self.cause is None else self.cause.as_dict(),
            "swept": self.swept,
            "left": self.left,
            "signal": self.signal,
            "first_step": self.first_step,
            "is_one_model": self.is_one_model,
            "late_shares": self.late_shares,
            "pace": None if self.pace is None else asdict(self.pace),
        }
