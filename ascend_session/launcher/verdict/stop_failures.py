"""Ranks that a signal to the launcher or the guardian has stopped, but not in order."""

import math
import signal
from typing import Dict

from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.launcher.job.attempt import Attempt
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict.descriptions import (
    describe_end,
    describe_killed,
    is_exit_code,
)
from ascend_session.launcher.verdict.evidence import find_failure, read_record_text


def find_stop_failures(plan: Plan, attempt: Attempt) -> Dict[int, str]:
    """Find the ranks that failed while they were stopped.

    A rank may exit with any code that its program chooses, and may fail because others have exited
    before it: neither is a failure.

    Returns:
        What went wrong, as a sentence, for each such rank.
    """
    cause = attempt.cause
    if cause is None or cause.rank is not None or attempt.stall or attempt.guardian_died:
        return {}
    failures = {}
    for rank in attempt.ranks:
        if rank.outcome != Outcome.STOPPED:
            continue
        ended = math.inf if rank.ended is None else rank.ended
        was_killed = attempt.killed is not None and ended >= attempt.killed
        if was_killed and rank.status == -signal.SIGKILL:
            if not attempt.is_kill_asked:
                failures[rank.rank] = describe_killed(rank, plan.config.grace)
        elif _has_failed_while_stopping(rank, attempt.signal or signal.SIGTERM):
            failures[rank.rank] = describe_end(rank)
    return failures


def _has_failed_while_stopping(rank: LaunchRank, number: int) -> bool:
    """Tell whether a rank has failed after this signal, and not because others had exited."""
    error, status = rank.error, rank.status or 0
    if error is None:
        numbers = (number, signal.SIGTERM)
        expected = {0, *(-each for each in numbers), *(128 + each for each in numbers)}
        if number == signal.SIGINT:
            expected.add(1)  # Python 3.7 after a KeyboardInterrupt
        return status not in expected
    if error.is_termination or error.type == "KeyboardInterrupt" or error.failed_rank is not None:
        return False
    if error.type == "SystemExit":
        return not is_exit_code(error.message)
    if JOB_CANNOT_GO_ON in error.message:
        return False
    failure = find_failure(read_record_text(rank))
    return failure is None or failure.is_own
