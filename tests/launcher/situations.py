"""Attempts that ended in some way, made of files and times, for the tests of their judgement."""

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from ascend_session.launcher.job.attempt import Attempt, Cause
from ascend_session.launcher.job.events import NotStarted
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.verdict.cause import find_first_failed
from ascend_session.launcher.verdict.descriptions import describe_not_started
from ascend_session.launcher.verdict.result import judge, judge_ranks

__all__ = ["STOP", "Situation", "printed"]

STOP = 20.0
"""When everyone was asked to end, in the seconds of `Situation`."""


def printed(code: str) -> str:
    """A line of the vendor's stack with a code."""
    said = f"failed, ret[{code}]." if code.isdigit() else f"{code}: something failed."
    return f"[ERROR] HCCL(1,python):2026-11-20-10:00:00.000.001 {said}\n"


class Situation:
    """An attempt of some ranks on the stub; each ended with 0 at 10 s, unless it is said here."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.plan = plan_job(
            LaunchConfig(program="/bin/sh", processes=ranks, backend="stub", log_dir=str(folder)),
            dict(os.environ),
        )
        self.attempt = Attempt.begin(self.plan, 0.0)
        for result in self.attempt.ranks:
            result.pid, result.status = 1000 + result.rank, 0
            result.started, result.ended = 1.0, 10.0
        for rank in self.plan.ranks:
            os.makedirs(rank.plog)

    def ended(self, rank: int, status: Optional[int], at: float = 10.0) -> "Situation":
        """The rank ended with this code, or by minus this signal."""
        seen = self.attempt.ranks[rank]
        seen.status, seen.ended = status, None if status is None else at
        return self

    def stopped(self, *ranks: int, status: int = -15) -> "Situation":
        """Everyone was asked to end, and these ranks did."""
        self.attempt.stopped = STOP
        for rank in ranks:
            self.ended(rank, status, STOP + 1)
        return self

    def raised(
        self, rank: int, kind: str, said: str, at: float, code: int = 1, **more: Any
    ) -> "Situation":
        """The rank recorded an exception, and ended half a second later."""
        record: Dict[str, Any] = {
            "type": kind,
            "message": said,
            "traceback": f"Traceback (most recent call last):\n{kind}: {said}\n",
            "time": at,
            "pid": 1000 + rank,
            "exit_code": code,
            **more,
        }
        Path(self.plan.ranks[rank].folder, "error.json").write_text(json.dumps(record))
        return self.ended(rank, code, at + 0.5)

    def wrote(self, rank: int, text: str, stream: str = "stderr") -> "Situation":
        """The rank wrote this."""
        Path(getattr(self.plan.ranks[rank], stream)).write_text(text)
        return self

    def logged(self, rank: int, text: str, pid: Optional[int] = None) -> str:
        """The vendor's stack logged this for the rank; returns the file."""
        folder = Path(self.plan.ranks[rank].plog, "debug", "plog")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"plog-{1000 + rank if pid is None else pid}_20261120.log"
        file.write_text(text)
        return str(file)

    def not_started(self, rank: int, number: int, tried: str = "started") -> "Situation":
        """The rank's program could not be started."""
        seen = self.attempt.ranks[rank]
        seen.pid = seen.status = None
        seen.start_errno = number
        event = NotStarted(rank, tried, number, os.strerror(number), 10.0)
        seen.trouble = describe_not_started(seen, event)
        return self

    def never_tried(self, rank: int) -> "Situation":
        """The rank's turn never came."""
        seen = self.attempt.ranks[rank]
        seen.pid = seen.status = seen.started = seen.ended = None
        return self

    def judged(self) -> Tuple[Tuple[LaunchRank, ...], Optional[Cause]]:
        """The results and the cause."""
        judge(self.plan, self.attempt)
        return self.attempt.ranks, self.attempt.cause

    def outcomes(self) -> Tuple[str, ...]:
        """How the ranks ended."""
        return tuple(rank.outcome for rank in self.judged()[0])

    def first_failed(self) -> Optional[int]:
        """The rank whose failure is reported at once."""
        judge_ranks(self.attempt)
        return find_first_failed(self.plan, self.attempt)

    def cause(self) -> Cause:
        """The cause; there must be one."""
        cause = self.judged()[1]
        assert cause is not None
        return cause
