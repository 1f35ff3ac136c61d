"""Which rank's failure explains the others', or what else ended an attempt.

A rank's record and the ends of its logs say what failed, and `Failure.precedence` how well that
explains the rest: a secondary failure is no cause where there is a primary one
(guides/facts/failures.md#classes). An end without any code of the vendor is a failure of its own.

A rank may be a script that starts ranks itself. Most scripts for eight devices end with a bare
``wait``, which gives 0 whatever became of these (guides/facts/launch.md#scripts-for-eight-devices).
What counts is what its ranks have recorded (`witness`, `cluster.member`) and what the guardian has
seen of them (`script_ranks`). Any other program is the script's business.
"""

import errno
import math
import os
import re
import resource
import signal
import tempfile
from dataclasses import replace
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ascend_session.cluster import member
from ascend_session.failures.failure import Failure, FailureClass
from ascend_session.failures.scanner import classify, root_cause
from ascend_session.failures.table import JOB_CANNOT_GO_ON, PROCESS_LIMIT
from ascend_session.files import read_end
from ascend_session.launcher.job.attempt import Attempt, Cause
from ascend_session.launcher.job.events import BackgroundEnded
from ascend_session.launcher.plan.local_ranks import LOG_PATH
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict import script_ranks
from ascend_session.launcher.verdict.descriptions import (
    CRASHES,
    describe_announced,
    describe_background,
    describe_crash,
    describe_elsewhere,
    describe_end,
    describe_exception,
    describe_failure,
    describe_guardian,
    describe_interrupt,
    describe_killed,
    describe_last_line,
    describe_left,
    describe_lost,
    describe_missing,
    describe_repeated,
    describe_stopped,
    describe_unrecorded,
    describe_unstarted,
    find_stacks,
    lacks_interpreter,
    read_crash,
)
from ascend_session.launcher.verdict.suspect import Suspect, find_first_not_finite, find_suspect
from ascend_session.rank_folder import STACKS_NAME, name_stacks
from ascend_session.text import clean, is_blank, shorten

# Exit codes of a launch: as timeout(1), and if its ranks ended with 0.
_STALLED, _HIDDEN_FAILURE = 124, 1
# Signals by which others end a process; what it wrote before does not explain them.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_TAIL_BYTES = 256 * 1024  # of each file that are looked at
_ALL_BYTES = 16 * 1024 * 1024  # of all files of a job: about two seconds
_LEAST_BYTES = 8 * 1024
_LAST_LINES, _WIDTH = 20, 400
_LAST_LINES_BYTES = 64 * 1024  # in which they are looked for
_STACK_LINES = 20
_PLOGS = 16  # files of one process; beyond these the newest count
_PROBE_BYTES = 64 * 1024  # that are written to see whether a disk is full

_PYTHON = re.compile(r"python[0-9.]*$")
_NO_VENDOR = re.compile("No module named '?(npu_bridge|hccl)")
# What the stub's hub has told all ranks: whoever raises it has merely heard it.
_OF_ALL_RANKS = re.compile(
    rf"{JOB_CANNOT_GO_ON}(the ranks|ranks? [0-9][0-9, ando]*)( (?:disagree|do not|wait).*)",
    re.DOTALL,
)
# What a debugger and input() raise at the end of standard input.
_WITHOUT_TERMINAL = (("bdb.BdbQuit", ""), ("EOFError", "EOF when reading a line"))

# What to do.
_OUT_OF_MEMORY = (
    "If nobody sent it, 'dmesg' or 'journalctl -k' names the process that the kernel killed; then "
    "give the job more memory, or let each rank use less."
)
_OUT_OF_TIME = (
    "The kernel also kills a process here once it has used {} s of CPU time: see 'ulimit -t'."
)
_CRASHED = (
    "That line led to a crash in compiled code. stacks.log, below, has the stacks of all threads."
)
_CRASHED_SILENTLY = (
    "Compiled code crashed. Run the program of one rank alone under a debugger, or allow core "
    "dumps with 'ulimit -c unlimited'."
)
_ELSEWHERE = "See what the launcher of that node reports, and the logs of rank {} there."
_READ_SCRIPT = (
    "Read their output where the script sends it. A bare `wait` gives 0 even if they failed."
)
_WAIT = (
    "Read its output. Let the script wait for it (in a shell `wait $!`, or no &), so that it fails "
    "with it."
)
_START_ONCE = (
    "Give -n 1: then the script starts the ranks itself, and they are one job. In Python, "
    "processes=1."
)
_NO_INTERPRETER = "Start it with a line '#!/bin/bash', or put bash before it: --no-python bash {}"
_KEEP_PATH = (
    "The ranks do not find the stub's packages, which `launch` puts on PYTHONPATH: the script has "
    'replaced that. Let it add to it: export PYTHONPATH="FOLDER:$PYTHONPATH".'
)
_NO_ROOM = (
    "Make room or raise the limit (quota, 'ulimit -f'), or put the logs on another disk with "
    "--log-dir (in Python, log_dir)."
)
_NO_TERMINAL = (
    "A rank has no terminal to be debugged at: launch with --attach {0} (in Python, attach={0}) to "
    "give it yours."
)
_NOT_STARTED = (
    "See that the program runs when it is started by hand in the ranks' folder, and that 'ulimit "
    "-a' leaves room for so many processes."
)


def find_cause(plan: Plan, attempt: Attempt) -> Cause:
    """Find the cause of an attempt that did not succeed; see `result.judge`."""
    if attempt.repeated is not None:
        sentence = describe_repeated(attempt.repeated, plan.size)
        return Cause(attempt.repeated.rank, _HIDDEN_FAILURE, sentence, advice=_START_ONCE)
    judge = _Judge(plan, attempt)
    if judge.failed:
        return judge.blame_rank()
    if attempt.stall:
        return judge.blame_stall(*attempt.stall)
    if attempt.signal is not None:
        sentence = describe_interrupt(attempt.signal)
        if attempt.standing:
            sentence += f" The job stood still: {attempt.standing}."
        return Cause(None, 128 + attempt.signal, sentence)
    code = 128 + (signal.SIGKILL if attempt.guardian_died else signal.SIGTERM)
    return Cause(None, code, describe_guardian(attempt.guardian_died))


def blame_background(event: BackgroundEnded) -> Cause:
    """Blame a training that a rank has left running, and whose exit status is a failure."""
    code = event.status if event.status > 0 else 128 - event.status
    tail = tuple(_last_lines(event.output)) if os.path.isfile(event.output) else ()
    return Cause(event.rank, code, describe_background(event), advice=_WAIT, tail=tail)


def find_stop_failures(plan: Plan, attempt: Attempt) -> Dict[int, str]:
    """Find the ranks that a signal to the launcher or the guardian has stopped, but not in order.

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
            failures[rank.rank] = _describe_end(rank)
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
        return not error.message.lstrip("-").isdigit() and error.message not in ("True", "False")
    if JOB_CANNOT_GO_ON in error.message:
        return False
    failure = _find_failure(_record_text(rank))
    return failure is None or failure.is_own


def find_first_failed(plan: Plan, attempt: Attempt) -> Optional[int]:
    """Find the rank that `find_cause` will blame, as far as is known by now.

    The ranks are judged before (`result.judge_ranks`).

    Returns:
        The rank; None if its failure may come from that of another one, of which nothing is known
        yet.
    """
    judge = _Judge(plan, attempt)
    if not judge.failed:
        return None
    first, failure = judge.find_clearest()
    return first.rank if failure is None or failure.is_own else None


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
            ended = script_ranks.find_lost(below)
            if ended:
                first = min(ended, key=lambda each: _explains_less(each, ended))
                is_own = sum(each.output == first.output for each in below) == 1
                output = _last_lines(first.output) if is_own else []
                stacks = read_crash(rank.folder, name_stacks(first.pid))
                stacks = stacks.replace(rank.cwd + os.sep, "")
                sentence = describe_lost(rank, first, ended, len(below), output, stacks)
                lost.append(Cause(rank.rank, _HIDDEN_FAILURE, sentence, advice=_READ_SCRIPT))
    return lost


def _explains_less(
    process: member.JoinedProcess, others: Sequence[member.JoinedProcess]
) -> Tuple[bool, int, float]:
    """Give how little an end explains those of others; of equals the first one counts."""
    has_followed = any(script_ranks.has_preceded(other, process) for other in others)
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
        return [describe_unrecorded(unknown)] if unknown else []
    unknown = [
        str(rank.rank)
        for rank in plan.ranks
        if _PYTHON.match(os.path.basename(rank.command[0]))
        and not os.path.exists(_path_of_stacks(rank))
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
    tail = _last_lines(rank.stderr) or _last_lines(rank.stdout)
    if any(each.state == member.ENDED for each in processes):
        absent = script_ranks.find_unstarted(processes, [each.rank_id for each in seen])
        if not absent and len({each.rank_id for each in processes}) == 1:
            size = script_ranks.read_looped_size(rank.command, rank.cwd)
            only = processes[0]
            if str(size) == only.rank_size and 0 <= only.rank < (size or 0):
                absent = sorted({*range(size or 0)} - {only.rank})
        if not absent:
            return None
        sentence = describe_unstarted(rank, absent, processes[0].rank_size)
    elif seen:
        last = seen[-1]
        own = _last_lines(last.output) if os.path.isfile(last.output) else []
        sentence = describe_missing(rank, seen, own)
        tail = own or tail
    else:
        size = script_ranks.read_announced_size(rank.command, rank.cwd)
        if size is None:
            return None
        sentence = describe_announced(rank, size)
    hides_stub = any(_NO_VENDOR.search(line) for line in tail)
    advice = _KEEP_PATH if hides_stub else _READ_SCRIPT
    return Cause(rank.rank, _HIDDEN_FAILURE, sentence, advice=advice, tail=tuple(tail))


class _Judge:
    """Weighs the failed ranks of an attempt against each other."""

    def __init__(self, plan: Plan, attempt: Attempt) -> None:
        self._plan = plan
        self._ranks = attempt.ranks
        self._reports = attempt.reports
        self._is_one_node = plan.nodes.count == 1
        self._has_killed = attempt.killed is not None
        # Bytes of each of a rank's files that are looked at.
        share = _ALL_BYTES // (3 * len(attempt.ranks))
        self._limit = max(_LEAST_BYTES, min(_TAIL_BYTES, share))
        # Of failures that explain as much, the one that was reported at once counts, or the first.
        self.failed = sorted(
            (rank for rank in attempt.ranks if _has_failed(rank)),
            key=lambda rank: (rank.rank != attempt.first_failed, _failed_at(rank)),
        )

    def blame_rank(self) -> Cause:
        """Blame one of the failed ranks, or one that says more or is named by it."""
        first, failure = self.find_clearest()
        is_own = failure is None or failure.is_own
        if not is_own:
            speaker = self._find_speaker()
            if speaker is not None:
                rank, own_failure = speaker
                sentence = describe_stopped(rank, own_failure, first)
                return self._blame(rank, _exit_code_of_launch(first), sentence, own_failure)
        first_bad = find_first_not_finite(first.error, self._reports.not_finite)
        if first_bad is not None:
            guilty = [rank for rank in self.failed if rank.rank in first_bad.ranks]
            first = guilty[0] if guilty else first
        suspect = None if failure is None else self._find_suspect(first, is_own)
        if failure is not None and suspect is not None:
            cause = self._blame_suspect(suspect, first, failure)
            if cause is not None:
                return cause
        return self._blame_first(first, failure, "" if first_bad is None else first_bad.sentence)

    def _blame_first(self, first: LaunchRank, failure: Optional[Failure], more: str) -> Cause:
        """Blame the rank that failed first for its own end; ``more`` is known of the reason."""
        is_secondary = failure is not None and failure.definition.is_secondary
        sentence = _describe_end(first)
        told = _OF_ALL_RANKS.search(sentence)
        is_alike = not is_secondary and _raised_alike(self.failed, self._plan.size)
        if told is not None:
            is_secondary, is_alike = False, told[1] == "the ranks"
            sentence = f"{told[1].capitalize()}{told[2]}"
        elif is_alike:
            sentence = sentence.replace(
                f"Rank {first.rank} raised", f"All {self._plan.size} ranks raised", 1
            )
        if told is None:
            sentence += describe_failure(failure, sentence)
        if more:
            sentence = f"{sentence.rstrip('.')}. {more}"
        left: Tuple[int, ...] = ()
        if is_secondary and self._is_one_node:
            if failure is not None and JOB_CANNOT_GO_ON not in failure.line:
                left = self._find_ended_before(first)
            sentence += describe_left(left)
        elif is_secondary:
            sentence += " The cause may be on another node: see what the launchers there report."
        code = _exit_code_of_launch(first)
        is_first = self._is_one_node or told is not None
        cause = self._blame(first, code, sentence, failure, is_first=is_first)
        place = cause.place
        if is_alike and place:
            who = f"All {self._plan.size} ranks failed, rank {first.rank}"
            place = (place[0].replace(f"Rank {first.rank} failed", who, 1), *place[1:])
        return replace(cause, left=left, place=place)

    def _find_ended_before(self, first: LaunchRank) -> Tuple[int, ...]:
        """Find the ranks that had ended with 0 when this one failed because others were missing."""
        return tuple(
            rank.rank
            for rank in self._ranks
            if rank.outcome == Outcome.SUCCEEDED and _failed_at(rank) < _failed_at(first)
        )

    def _find_suspect(self, first: LaunchRank, is_own: bool) -> Optional[Suspect]:
        """Find the rank that ``first`` names, or that others do if its failure is not its own."""
        speakers = [first]
        if not is_own:
            speakers += [rank for rank in self._ranks if rank is not first]
        for rank in speakers:
            suspect = find_suspect(self._texts(rank), self._plan, rank.rank)
            if suspect is not None:
                return suspect
        return None

    def _blame_suspect(
        self, suspect: Suspect, first: LaunchRank, failure: Failure
    ) -> Optional[Cause]:
        """Blame the rank that is named; None if its own end does not allow that."""
        code = _exit_code_of_launch(first)
        here = [rank for rank in self._ranks if rank.rank in suspect.ranks]
        if not here:
            sentence = describe_elsewhere(first, suspect.why)
            cause, named = self._blame(first, code, sentence, failure), suspect.ranks[0]
            return replace(cause, elsewhere=named, advice=_ELSEWHERE.format(named))
        guilty = here[0]
        sentence = suspect.why
        if guilty.outcome in (Outcome.FAILED, Outcome.NOT_STARTED):
            if not suspect.is_by_hccl or guilty is first:
                return None
            sentence = f"{_describe_end(guilty)} {suspect.why}"
            code = _exit_code_of_launch(guilty)
        elif guilty.outcome == Outcome.SUCCEEDED:
            sentence += f" Rank {guilty.rank} had exited with code 0."
        end = _describe_end(first)
        if not suspect.is_by_hccl and JOB_CANNOT_GO_ON not in end:
            sentence += f" {end}"
        cause = self._blame(guilty, code, sentence, failure, is_first=self._is_one_node)
        if guilty.error is None and first.error is not None:
            folder = first.cwd
            cause = replace(cause, place=tuple(describe_exception(first.rank, first.error, folder)))
        gone = (Outcome.SUCCEEDED, Outcome.STOPPED)
        return replace(cause, left=tuple(rank.rank for rank in here if rank.outcome in gone))

    def blame_stall(self, sentence: str, *advice: str) -> Cause:
        """Report a stall, with what a rank said before it."""
        speaker = self._find_speaker()
        if speaker is None:
            return Cause(None, _STALLED, sentence, advice=" ".join(advice))
        rank, failure = speaker
        more = describe_failure(failure).replace(" It", f" Rank {rank.rank}", 1)
        return self._blame(rank, _STALLED, sentence + more, failure)

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
        for rank in self._ranks:
            # Its streams were closed before its exit was seen, and others failed in between.
            is_killed = rank.outcome == Outcome.STOPPED and rank.status == -signal.SIGKILL
            if is_killed and not self._has_killed:
                return rank, None
        return min(unclear, key=lambda pair: pair[1].precedence)

    def _find_speaker(self) -> Optional[Tuple[LaunchRank, Failure]]:
        """Find the first stopped rank that speaks of a failure of its own."""
        for rank in self._ranks:
            if rank.outcome == Outcome.STOPPED:
                failure = _find_failure(self._texts(rank))
                if failure is not None and failure.is_own:
                    return rank, failure
        return None

    def _find_failure_of(self, rank: LaunchRank) -> Optional[Failure]:
        """Look into a failed rank's record, then into its logs."""
        failure = _find_failure(_record_text(rank))
        if failure is None and _speaks_for_itself(rank):
            return None
        if failure is None or not failure.is_exact:
            failure = _find_failure(self._texts(rank))
        # A signal ended it, other than GE's own way to end: that is its own failure.
        status = rank.status or 0
        is_by_signal = status < 0 and status != -signal.SIGABRT and rank.error is None
        if failure is not None and is_by_signal and not failure.is_own:
            return None
        return failure

    def _texts(self, rank: LaunchRank) -> Iterator[str]:
        """Give what a rank has recorded, and the end of each of its logs."""
        yield from _record_text(rank)
        yield _tail(rank.stderr, self._limit)
        yield _tail(rank.stdout, self._limit)
        paths = _find_plogs(rank)
        for path in paths:
            yield _tail(path, self._limit // len(paths))

    def _blame(
        self,
        rank: LaunchRank,
        code: int,
        sentence: str,
        failure: Optional[Failure],
        is_first: bool = False,
    ) -> Cause:
        """Make the cause; ``is_first`` if no other rank of the job can have failed before."""
        error = rank.error
        has_crashed = error is None and -(rank.status or 0) in CRASHES
        stacks = find_stacks(rank.folder) if has_crashed else ""
        advice = self._advise(rank, code, failure, has_crashed, bool(stacks))
        if failure is None and (error is None or error.type in ("SystemExit", "OSError")):
            why = _find_lack_of_room(rank)
            if why:
                sentence += f" Its log files take no more: {why}."
                advice = _NO_ROOM
        tail = _last_lines(rank.stderr) or _last_lines(rank.stdout)
        place: List[str] = []
        if error is not None:
            place = describe_exception(rank.rank, error, rank.cwd)
        elif has_crashed:
            place = describe_crash(rank.rank, rank.folder, rank.cwd)
            if not place:
                tail += read_crash(rank.folder).splitlines()[:_STACK_LINES]
        return Cause(
            rank=rank.rank,
            exit_code=code,
            said=sentence,
            failure=failure,
            failure_class=(
                None if failure is None else _class_in_job(self._plan, failure, is_first)
            ),
            advice=advice,
            others=tuple(other.rank for other in self.failed if other is not rank),
            tail=tuple(tail),
            place=tuple(place),
            stacks=stacks,
            plogs=tuple(_find_plogs(rank)),
        )

    def _advise(
        self, rank: LaunchRank, code: int, failure: Optional[Failure], crashed: bool, traced: bool
    ) -> str:
        """Say what to do about the end of a rank; empty if only its output can tell.

        Args:
            rank: The rank.
            code: What the launch ends with because of it.
            failure: The known failure of the vendor's stack behind it.
            crashed: Whether compiled code has crashed.
            traced: Whether the rank has left its stacks then.
        """
        error = rank.error
        if rank.outcome == Outcome.NOT_STARTED:
            program = os.path.normpath(rank.command[0])
            if rank.start_errno == errno.EAGAIN:
                return PROCESS_LIMIT
            is_script = rank.start_errno == errno.ENOEXEC and lacks_interpreter(program)
            return _NO_INTERPRETER.format(program) if is_script else _NOT_STARTED
        wants_terminal = error is not None and (error.type, error.message) in _WITHOUT_TERMINAL
        if wants_terminal and self._plan.config.attach is None:
            return _NO_TERMINAL.format(rank.rank)
        if failure is not None:
            return failure.advice
        if code == 128 + signal.SIGKILL and (error is None or error.type == "SystemExit"):
            limit_s = resource.getrlimit(resource.RLIMIT_CPU)[1]  # the ranks have the launcher's
            is_limited = limit_s != resource.RLIM_INFINITY
            return _OUT_OF_MEMORY + (f" {_OUT_OF_TIME.format(limit_s)}" if is_limited else "")
        if crashed:
            return _CRASHED if traced else _CRASHED_SILENTLY
        return ""


def _find_lack_of_room(rank: LaunchRank) -> str:
    """Find out why a rank can write no more into its log files; empty if it can."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]  # the ranks have the launcher's
    try:
        sizes = [os.path.getsize(path) for path in (rank.stdout, rank.stderr)]
        if limit != resource.RLIM_INFINITY and max(sizes) >= limit:
            return os.strerror(errno.EFBIG)
        with tempfile.TemporaryFile(dir=rank.folder, buffering=0) as file:
            file.write(bytes(_PROBE_BYTES))
            os.fsync(file.fileno())  # a file server may say it only now
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            return failure.strerror or str(failure)
    return ""


def _class_in_job(plan: Plan, failure: Failure, is_first: bool) -> FailureClass:
    """Give the class of a failure in this job.

    A secondary one has the class of its row where no other rank can have failed first. That the
    TSD client does not open passes, unless two ranks of the job were given the same device.
    """
    devices = [rank.physical_id for rank in plan.ranks if rank.physical_id is not None]
    if failure.code == "Open TsdClient failed" and len(set(devices)) < len(devices):
        return FailureClass.PERMANENT
    return failure.definition.failure_class if is_first else failure.failure_class


def _describe_end(rank: LaunchRank) -> str:
    """Say how a failed rank ended.

    The text of ``sys.exit("no data")`` has no record: the code is 1 then, and the log ends with it.
    """
    sentence = describe_end(rank)
    has_record = rank.error is not None or not os.path.exists(_path_of_stacks(rank))
    if has_record or rank.status != 1 or rank.outcome == Outcome.NOT_STARTED:
        return sentence
    return sentence.rstrip(".") + (describe_last_line(_last_lines(rank.stderr)) or ".")


def _path_of_stacks(rank: LaunchRank) -> str:
    """Give the path of a file that the witness makes in each rank that is a Python."""
    return os.path.join(rank.folder, STACKS_NAME)


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


def _find_failure(texts: Iterable[str]) -> Optional[Failure]:
    """Find the failure to act upon; texts that could only say it less exactly are not read."""
    failures: List[Failure] = []
    for text in texts:
        failures += classify(text)
        failure = root_cause(failures)
        if failure is not None and failure.is_exact:
            return failure
    return root_cause(failures)


def _record_text(rank: LaunchRank) -> Iterator[str]:
    if rank.error is not None:
        yield f"{rank.error.message}\n{rank.error.traceback}"


def _tail(path: str, limit: int) -> str:
    return read_end(path, limit).decode("utf-8", "backslashreplace")


def _last_lines(path: str) -> List[str]:
    """Read the last lines of a file that are not blank at the end, fit to be shown."""
    data = read_end(path, _LAST_LINES_BYTES).rstrip()
    if not data:
        return []
    lines = clean(data + b"\n", colour=False).split(b"\n")
    while lines and is_blank(lines[-1]):
        lines.pop()
    last_lines = lines[-_LAST_LINES:]
    return [shorten(line.decode("utf-8", "backslashreplace"), _WIDTH) for line in last_lines]


def _find_plogs(rank: LaunchRank) -> List[str]:
    """Find the vendor's log files of a rank's process, sorted by name.

    If there are none of that process in the rank's own folder, but there are others, it was one
    that the process started: then these. Source: guides/facts/devices.md#logs
    """
    folder = rank.environment.get(LOG_PATH) or rank.plog
    paths = [
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.startswith("plog-") and name.endswith(".log")
    ]
    own = [path for path in paths if os.path.basename(path).startswith(f"plog-{rank.pid}_")]
    if not own and folder == rank.plog:
        own = paths
    return sorted(sorted(own, key=_changed_at)[-_PLOGS:])


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
