"""Why an attempt failed: the best of several explanations, in one list of them.

A rank's record and the ends of its logs say what failed, and `Failure.precedence` how well that
explains the rest: a secondary failure is no cause where there is a primary one
(guides/facts/failures.md#classes). An end without any code of the vendor is a failure of its own.

Where a signal to the launcher is the cause, ranks may have failed besides while they were stopped.
"""

import errno
import math
import re
import signal
from dataclasses import replace
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from ascend_session.failures.failure import Failure
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.launcher.job.attempt import HIDDEN_FAILURE, Attempt, Cause
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict.advice import advise, classify_in_job
from ascend_session.launcher.verdict.descriptions import (
    describe_elsewhere,
    describe_end,
    describe_failure,
    describe_guardian,
    describe_interrupt,
    describe_killed,
    describe_left,
    describe_repeated,
    describe_stopped,
    is_exit_code,
)
from ascend_session.launcher.verdict.evidence import (
    find_failure,
    find_lack_of_room,
    find_plogs,
    find_stacks,
    has_crashed,
    read_crash,
    read_last_lines,
    read_record_text,
    read_texts,
)
from ascend_session.launcher.verdict.failure_place import describe_place
from ascend_session.launcher.verdict.suspect import Suspect, find_first_not_finite, find_suspect

# Exit code of a launch, as of timeout(1).
_STALLED = 124
# Signals by which others end a process; what it wrote before does not explain them.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_STACK_LINES = 20
# What the stub's hub has told all ranks: whoever raises it has merely heard it.
_OF_ALL_RANKS = re.compile(
    rf"{JOB_CANNOT_GO_ON}(the ranks|ranks? [0-9][0-9, ando]*)( (?:disagree|do not|wait).*)",
    re.DOTALL,
)
_START_ONCE = (
    "Give -n 1: then the script starts the ranks itself, and they are one job. In Python, "
    "processes=1."
)
_ELSEWHERE = "See what the launcher of that node reports, and the logs of rank {} there."


def find_cause(plan: Plan, attempt: Attempt) -> Cause:
    """Find the cause of an attempt that did not succeed; see `result.judge`."""
    return next(cause for cause in _explain(_Case(plan, attempt)) if cause is not None)


def find_first_failed(plan: Plan, attempt: Attempt) -> Optional[int]:
    """Find the rank that `find_cause` will blame, as far as is known by now.

    The ranks are judged before (`result.judge_ranks`).

    Returns:
        The rank; None if its failure may come from that of another one, of which nothing is known
        yet.
    """
    case = _Case(plan, attempt)
    if not case.failed:
        return None
    first, failure = case.find_clearest()
    return first.rank if failure is None or failure.is_own else None


def find_stop_failures(plan: Plan, attempt: Attempt) -> Dict[int, str]:
    """Find the ranks that failed while a signal to the launcher or the guardian stopped them.

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


def _explain(case: "_Case") -> Iterator[Optional[Cause]]:
    """Give the explanations, the strongest first; None for each that does not hold."""
    yield _blame_repetition(case)
    if case.failed:
        first, failure = case.find_clearest()
        yield _blame_speaker(case, first, failure)
        yield _blame_named(case, first, failure)
        yield _blame_not_finite(case, first, failure)
        yield _blame_failed(case, first, failure)
    yield _blame_stall(case)
    yield _blame_signal(case)
    yield _blame_guardian(case)


def _blame_repetition(case: "_Case") -> Optional[Cause]:
    """Blame that each rank starts all ranks."""
    repeated = case.attempt.repeated
    if repeated is None:
        return None
    sentence = describe_repeated(repeated, case.plan.size)
    return Cause(repeated.rank, HIDDEN_FAILURE, sentence, advice=_START_ONCE)


def _blame_speaker(case: "_Case", first: LaunchRank, failure: Optional[Failure]) -> Optional[Cause]:
    """Blame a stopped rank that speaks of a failure of its own, if no failed one does."""
    speaker = None if failure is None or failure.is_own else case.find_speaker()
    if speaker is None:
        return None
    rank, own_failure = speaker
    sentence = describe_stopped(rank, own_failure, first)
    return case.blame(rank, _exit_code_of_launch(first), sentence, own_failure)


def _blame_named(case: "_Case", first: LaunchRank, failure: Optional[Failure]) -> Optional[Cause]:
    """Blame the rank that a failed rank names, unless its own end does not allow that."""
    suspect = None if failure is None else case.find_suspect(first, failure)
    if suspect is None:
        return None
    code = _exit_code_of_launch(first)
    here = [rank for rank in case.attempt.ranks if rank.rank in suspect.ranks]
    if not here:
        sentence = describe_elsewhere(first, suspect.why)
        cause, named = case.blame(first, code, sentence, failure), suspect.ranks[0]
        return replace(cause, elsewhere=named, advice=_ELSEWHERE.format(named))
    guilty = here[0]
    sentence = suspect.why
    if guilty.outcome in (Outcome.FAILED, Outcome.NOT_STARTED):
        if not suspect.is_by_hccl or guilty is first:
            return None
        sentence = f"{describe_end(guilty)} {suspect.why}"
        code = _exit_code_of_launch(guilty)
    elif guilty.outcome == Outcome.SUCCEEDED:
        sentence += f" Rank {guilty.rank} had exited with code 0."
    end = describe_end(first)
    if not suspect.is_by_hccl and JOB_CANNOT_GO_ON not in end:
        sentence += f" {end}"
    cause = case.blame(guilty, code, sentence, failure, is_first=case.is_one_node)
    if guilty.error is None and first.error is not None:
        cause = replace(cause, place=tuple(describe_place(first)))
    gone = (Outcome.SUCCEEDED, Outcome.STOPPED)
    return replace(cause, left=tuple(rank.rank for rank in here if rank.outcome in gone))


def _blame_not_finite(
    case: "_Case", first: LaunchRank, failure: Optional[Failure]
) -> Optional[Cause]:
    """Blame whose gradients were the first that were not finite, if a rank failed over such."""
    bad = find_first_not_finite(first.error, case.attempt.reports.not_finite)
    if bad is None:
        return None
    guilty = [rank for rank in case.failed if rank.rank in bad.ranks]
    return _blame_failed(case, guilty[0] if guilty else first, failure, bad.sentence)


def _blame_failed(
    case: "_Case", first: LaunchRank, failure: Optional[Failure], more: str = ""
) -> Cause:
    """Blame a failed rank for its own end; ``more`` is known of the reason."""
    is_secondary = failure is not None and failure.definition.is_secondary
    told = _OF_ALL_RANKS.search(describe_end(first))
    if told is not None:
        is_secondary, is_alike = False, told[1] == "the ranks"
        sentence = f"{told[1].capitalize()}{told[2]}"
    else:
        is_alike = not is_secondary and _raised_alike(case.failed, case.plan.size)
        sentence = describe_end(first, case.plan.size if is_alike else 0)
        sentence += describe_failure(failure, sentence)
    if more:
        sentence = f"{sentence.rstrip('.')}. {more}"
    left: Tuple[int, ...] = ()
    if is_secondary and not case.is_one_node:
        sentence += " The cause may be on another node: see what the launchers there report."
    elif is_secondary and failure is not None and JOB_CANNOT_GO_ON not in failure.line:
        left = case.find_ended_before(first)
        sentence += describe_left(left)
    is_first = case.is_one_node or told is not None
    cause = case.blame(first, _exit_code_of_launch(first), sentence, failure, is_first)
    if is_alike:
        cause = replace(cause, place=tuple(describe_place(first, case.plan.size)))
    return replace(cause, left=left)


def _blame_stall(case: "_Case") -> Optional[Cause]:
    """Report a stall, with what a rank said before it."""
    if not case.attempt.stall:
        return None
    sentence, *advice = case.attempt.stall
    speaker = case.find_speaker()
    if speaker is None:
        return Cause(None, _STALLED, sentence, advice=" ".join(advice))
    rank, failure = speaker
    sentence += describe_failure(failure, who=f"Rank {rank.rank}")
    return case.blame(rank, _STALLED, sentence, failure)


def _blame_signal(case: "_Case") -> Optional[Cause]:
    """Report a signal to the launcher, and if the job stood still then."""
    number, standing = case.attempt.signal, case.attempt.standing
    if number is None:
        return None
    more = f" The job stood still: {standing}." if standing else ""
    return Cause(None, 128 + number, describe_interrupt(number) + more)


def _blame_guardian(case: "_Case") -> Cause:
    """Report that the guardian was killed, or got a signal: nothing else ends a job."""
    died = case.attempt.guardian_died
    code = 128 + (signal.SIGKILL if died else signal.SIGTERM)
    return Cause(None, code, describe_guardian(died))


class _Case:
    """An attempt that did not succeed, and what its ranks have left.

    Attributes:
        failed: The ranks that failed by themselves. Of those whose failures explain as much, the
            one that was reported at once counts, or the first.
    """

    def __init__(self, plan: Plan, attempt: Attempt) -> None:
        self.plan = plan
        self.attempt = attempt
        self.is_one_node = plan.nodes.count == 1
        self.failed = sorted(
            (rank for rank in attempt.ranks if _has_failed(rank)),
            key=lambda rank: (rank.rank != attempt.first_failed, _failed_at(rank)),
        )

    def find_clearest(self) -> Tuple[LaunchRank, Optional[Failure]]:
        """Find the failed rank that explains most, the first of those that do equally.

        Returns:
            The rank, and the known failure of the vendor's stack, or None if it failed otherwise.
        """
        unclear: List[Tuple[LaunchRank, Failure]] = []
        for rank in self.failed:
            failure = self._find_failure_of(rank)
            if failure is None or failure.is_own:
                return rank, failure  # the logs of the others need not be read
            unclear.append((rank, failure))
        for rank in self.attempt.ranks:
            # Its streams were closed before its exit was seen, and others failed in between.
            is_killed = rank.outcome == Outcome.STOPPED and rank.status == -signal.SIGKILL
            if is_killed and self.attempt.killed is None:
                return rank, None
        return min(unclear, key=lambda pair: pair[1].precedence)

    def find_speaker(self) -> Optional[Tuple[LaunchRank, Failure]]:
        """Find the first stopped rank that speaks of a failure of its own."""
        for rank in self.attempt.ranks:
            if rank.outcome == Outcome.STOPPED:
                failure = find_failure(self._read_texts(rank))
                if failure is not None and failure.is_own:
                    return rank, failure
        return None

    def find_suspect(self, first: LaunchRank, failure: Failure) -> Optional[Suspect]:
        """Find the rank that ``first`` names, or that others do if its failure is not its own."""
        speakers = [first]
        if not failure.is_own:
            speakers += [rank for rank in self.attempt.ranks if rank is not first]
        for rank in speakers:
            suspect = find_suspect(self._read_texts(rank), self.plan, rank.rank)
            if suspect is not None:
                return suspect
        return None

    def find_ended_before(self, first: LaunchRank) -> Tuple[int, ...]:
        """Find the ranks that had ended with 0 when this one failed because others were missing."""
        return tuple(
            rank.rank
            for rank in self.attempt.ranks
            if rank.outcome == Outcome.SUCCEEDED and _failed_at(rank) < _failed_at(first)
        )

    def blame(
        self,
        rank: LaunchRank,
        code: int,
        sentence: str,
        failure: Optional[Failure],
        is_first: bool = False,
    ) -> Cause:
        """Make the cause; ``is_first`` if no other rank of the job can have failed before."""
        lack = ""
        if failure is None and (rank.error is None or rank.error.type in ("SystemExit", "OSError")):
            lack = find_lack_of_room(rank)
            sentence += f" Its log files take no more: {lack}." if lack else ""
        kind = None if failure is None else classify_in_job(self.plan, failure, is_first)
        place, tail = describe_place(rank), read_last_lines(rank.stderr, rank.stdout)
        if has_crashed(rank) and not place:
            tail += read_crash(rank).splitlines()[:_STACK_LINES]
        return Cause(
            rank=rank.rank,
            exit_code=code,
            said=sentence,
            failure=failure,
            failure_class=kind,
            advice=advise(self.plan, rank, code, failure, bool(lack)),
            others=tuple(other.rank for other in self.failed if other is not rank),
            tail=tuple(tail),
            place=tuple(place),
            stacks=find_stacks(rank) if has_crashed(rank) else "",
            plogs=tuple(find_plogs(rank)),
        )

    def _find_failure_of(self, rank: LaunchRank) -> Optional[Failure]:
        """Look into a failed rank's record, then into its logs."""
        failure = find_failure(read_record_text(rank))
        if failure is None and _speaks_for_itself(rank):
            return None
        if failure is None or not failure.is_exact:
            failure = find_failure(self._read_texts(rank))
        # A signal ended it, other than GE's own way to end: that is its own failure.
        status = rank.status or 0
        is_by_signal = status < 0 and status != -signal.SIGABRT and rank.error is None
        if failure is not None and is_by_signal and not failure.is_own:
            return None
        return failure

    def _read_texts(self, rank: LaunchRank) -> Iterator[str]:
        return read_texts(rank, len(self.attempt.ranks))


def _has_failed(rank: LaunchRank) -> bool:
    """Tell whether it failed by itself; one that was never tried did not."""
    if rank.outcome == Outcome.NOT_STARTED:
        return rank.ended is not None
    return rank.outcome == Outcome.FAILED


def _raised_alike(failed: Sequence[LaunchRank], size: int) -> bool:
    """Tell whether all ranks of a job have raised the same exception."""
    errors = [rank.error for rank in failed if rank.error is not None]
    if len(errors) != size or size == 1 or any(each.failed_rank is not None for each in errors):
        return False
    is_exit = errors[0].type == "SystemExit" or errors[0].is_termination
    return not is_exit and len({(each.type, each.message) for each in errors}) == 1


def _failed_at(rank: LaunchRank) -> float:
    if rank.error is not None:
        return rank.error.time
    return math.inf if rank.ended is None else rank.ended


def _exit_code_of_launch(rank: LaunchRank) -> int:
    """Give the exit code of a launch that fails because of this rank."""
    if rank.outcome == Outcome.NOT_STARTED:
        return 126 if rank.start_errno in (errno.EACCES, errno.ENOEXEC) else 127  # as a shell
    if rank.error is not None and (rank.status is None or rank.status < 0):
        return rank.error.exit_code  # it hung then, and was ended
    return rank.exit_code


def _speaks_for_itself(rank: LaunchRank) -> bool:
    if rank.error is not None:
        return rank.error.speaks_for_itself
    return rank.status is None or -rank.status in _FROM_OUTSIDE
