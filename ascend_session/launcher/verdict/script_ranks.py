"""What became of the ranks and trainings that a rank, a script, has started.

Most scripts for eight devices end with a bare ``wait``, which gives 0 whatever became of these
(guides/facts/launch.md#scripts-for-eight-devices). What counts is what their processes have
recorded (`witness`, `cluster.member`) and what the guardian has seen of them. Any other program is
the script's business.
"""

import os
import re
from typing import Iterable, List, Optional, Sequence, Tuple

from ascend_session.cluster.member import ENDED, FAILED, JoinedProcess
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.launcher.job.attempt import HIDDEN_FAILURE, Attempt, Cause
from ascend_session.launcher.job.events import BackgroundEnded
from ascend_session.launcher.job.script_ranks import is_rank_number
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.verdict.descriptions import (
    describe_announced,
    describe_background,
    describe_lost,
    describe_missing,
    describe_unrecorded,
    describe_unstarted,
)
from ascend_session.launcher.verdict.evidence import had_witness, read_crash, read_last_lines
from ascend_session.launcher.verdict.script_text import read_announced_size, read_looped_size
from ascend_session.rank_folder import name_stacks

_PYTHON = re.compile(r"python[0-9.]*$")
_NO_VENDOR = re.compile("No module named '?(npu_bridge|hccl)")

# What to do.
_READ_SCRIPT = (
    "Read their output where the script sends it. A bare `wait` gives 0 even if they failed."
)
_WAIT = (
    "Read its output. Let the script wait for it (in a shell `wait $!`, or no &), so that it fails "
    "with it."
)
_KEEP_PATH = (
    "The ranks do not find the stub's packages, which `launch` puts on PYTHONPATH: the script has "
    'replaced that. Let it add to it: export PYTHONPATH="FOLDER:$PYTHONPATH".'
)


def blame_background(event: BackgroundEnded) -> Cause:
    """Blame a training that a rank has left running, and whose exit status is a failure."""
    code = event.status if event.status > 0 else 128 - event.status
    tail = tuple(read_last_lines(event.output))
    return Cause(event.rank, code, describe_background(event), advice=_WAIT, tail=tail)


def find_lost(attempt: Attempt) -> List[Cause]:
    """Find the ranks below which processes of the job ended with an exception or a signal.

    Those that ended because everyone was asked to end do not count.

    Returns:
        A `Cause` for each such rank, which counts only if all ranks ended with 0.
    """
    lost = []
    for rank in attempt.ranks:
        if rank.ended is not None and (attempt.stopped is None or rank.ended <= attempt.stopped):
            swept = {int(words.split()[0]) for words in attempt.swept}
            processes = attempt.reports.list_processes(rank.rank)
            below = [
                process
                for process in processes
                if process.pid != rank.pid and not (process.pid in swept and not process.joined)
            ]
            ended = _find_lost_processes(below)
            if ended:
                first = min(ended, key=lambda each: _explains_less(each, ended))
                is_own = sum(each.output == first.output for each in below) == 1
                output = read_last_lines(first.output) if is_own else []
                stacks = read_crash(rank, name_stacks(first.pid))
                stacks = stacks.replace(rank.cwd + os.sep, "")
                sentence = describe_lost(rank, first, ended, len(below), output, stacks)
                lost.append(Cause(rank.rank, HIDDEN_FAILURE, sentence, advice=_READ_SCRIPT))
    return lost


def _explains_less(
    process: JoinedProcess, others: Sequence[JoinedProcess]
) -> Tuple[bool, int, float]:
    """Give how little an end explains those of others; of equals the first one counts."""
    has_followed = any(_has_preceded(other, process) for other in others)
    if JOB_CANNOT_GO_ON in process.error:
        return has_followed, 2, process.time
    return has_followed, 0 if process.error else 1, process.time


def find_unrecorded(plan: Plan, attempt: Attempt) -> List[str]:
    """Find ranks of a launch that succeeded of which only exit codes are known, in sentences.

    These are Pythons that the witness was kept from (``-I``, ``-E``, ``-S``), and what a script has
    started besides ranks that left a record.
    """
    if plan.size == 1:
        processes = attempt.reports.list_processes(plan.ranks[0].rank)
        known = {process.rank_id for process in processes}
        unknown = sorted({each.rank_id for each in attempt.script_ranks} - known)
    else:
        unknown = [
            str(rank.rank)
            for rank in plan.ranks
            if _PYTHON.match(os.path.basename(rank.command[0]))
            and not had_witness(rank)
            and rank.rank not in attempt.reports.members
        ]
    return [describe_unrecorded(unknown)] if unknown else []


def find_missing(plan: Plan, attempt: Attempt) -> Optional[Cause]:
    """Find out whether a script has started ranks of which none has joined a job, or not all.

    A Python that has come to its end in order did what it was to do, without the device.

    Returns:
        What is the cause then, if the script has ended with 0.
    """
    rank = attempt.ranks[0]
    processes = attempt.reports.list_processes(rank.rank)
    if plan.size != 1 or any(each.joined for each in processes):
        return None
    seen = attempt.script_ranks
    tail = read_last_lines(rank.stderr, rank.stdout)
    if any(each.state == ENDED for each in processes):
        absent = _find_unstarted(rank, processes, [each.rank_id for each in seen])
        if not absent:
            return None
        sentence = describe_unstarted(rank, absent, processes[0].rank_size)
    elif seen:
        own = read_last_lines(seen[-1].output)
        sentence = describe_missing(rank, seen, own)
        tail = own or tail
    else:
        size = read_announced_size(rank.command, rank.cwd)
        if size is None:
            return None
        sentence = describe_announced(rank, size)
    hides_stub = any(_NO_VENDOR.search(line) for line in tail)
    advice = _KEEP_PATH if hides_stub else _READ_SCRIPT
    return Cause(rank.rank, HIDDEN_FAILURE, sentence, advice=advice, tail=tuple(tail))


def _has_preceded(first: JoinedProcess, second: JoinedProcess) -> bool:
    """Return whether the first of two ranks of a script had exited when the second one started."""
    have_met = first.pid in second.beside or second.pid in first.beside
    return 0 < first.began < second.began and not have_met


def _find_lost_processes(processes: Sequence[JoinedProcess]) -> List[JoinedProcess]:
    """Return the dead processes that an exception, a signal or a code other than 0 ended.

    A script may start and kill processes that are no ranks, and may start a rank again. So one that
    did not join the job counts unless another one was its rank, and ended in order.
    """
    good = [process for process in processes if not process.is_lost]
    return [
        process
        for process in processes
        if process.is_lost
        and (process.joined or not any(_makes_up_for(other, process) for other in good))
    ]


def _makes_up_for(other: JoinedProcess, lost: JoinedProcess) -> bool:
    """Return whether a process shows that another one with its RANK_ID was no rank that failed.

    The same program was started again after a signal had ended it; of another program it was a
    helper, which lived beside it or later. An evaluation after a training proves nothing.
    """
    if other.rank_id != lost.rank_id:
        return False
    if lost.state == FAILED:
        return other.joined and not lost.uses_vendor
    return _has_preceded(lost, other) == (lost.program == other.program)


def _find_unstarted(
    rank: LaunchRank, processes: Sequence[JoinedProcess], seen: Iterable[str]
) -> List[int]:
    """Find the ranks that a script has not started, although it has started others of their job.

    A script for one of several machines starts a block of the ranks, and one may start any single
    rank, unless it has a loop over all: neither misses any.

    Args:
        rank: The script.
        processes: What has reported; of the ranks, all have the same size.
        seen: The RANK_ID of ranks that were seen from outside.
    """
    sizes = {each.rank_size for each in processes if each.rank_size}
    names = {*seen, *(each.rank_id for each in processes)}
    if len(sizes) != 1 or not all(map(is_rank_number, sizes | names)):
        return []
    size, ranks = int(sizes.pop()), set(map(int, names))
    count, first = len(ranks), min(ranks)
    is_block = ranks == set(range(first, first + count)) and first % count == size % count == 0
    if is_block and (count > 1 or read_looped_size(rank.command, rank.cwd) != size):
        return []
    return sorted(set(range(size)) - ranks)
