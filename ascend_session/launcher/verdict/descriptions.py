"""What happened to a rank or to the launcher, in a sentence."""

import contextlib
import errno
import os
import signal
from typing import Optional, Sequence

from ascend_session.cluster.member import JoinedProcess
from ascend_session.failures.failure import Failure
from ascend_session.failures.peers import find_peers
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.launcher.job.events import BackgroundEnded, NotStarted, Repeated, ScriptRank
from ascend_session.launcher.job.signals import find_signal_name, signal_name
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict.evidence import had_witness, read_last_lines
from ascend_session.launcher.verdict.failure_place import (
    REASON_WIDTH,
    describe_crash_in_short,
    describe_operator,
    find_reason,
)
from ascend_session.text import (
    blank_unprintable,
    format_ranges,
    format_rank_ids,
    join_words,
    label_ranks,
    shorten,
)

_COMMAND_WIDTH = 400
_MOST_PEERS_NAMED = 8


def describe_not_started(rank: LaunchRank, event: NotStarted) -> str:
    """Say why the program of a rank could not be started."""
    what, text = "", event.text
    if event.tried == "started" and rank.command:  # a rank of a saved result has none
        what = f"{rank.command[0]}: "
        why = _explain_program(rank.command[0], event.number)
        text += f" ({why})" if why else ""
    return f"Rank {rank.rank} could not be {event.tried}: {what}{text}."


def _explain_program(path: str, number: int) -> str:
    """Say what about a program's file keeps the kernel from starting it; empty if nothing."""
    begin = _read_begin(path)
    if number == errno.ENOENT and begin.startswith(b"#!") and begin.rstrip(b"\n").endswith(b"\r"):
        return "its lines end as on Windows, so the interpreter's name ends with a carriage return"
    if number == errno.ENOENT and begin:
        return "the file is there; the interpreter that its first line names is not"
    if number == errno.ENOEXEC and not begin:
        return "the file is empty"
    if number == errno.ENOEXEC and lacks_interpreter(path):
        return "it is a script, but no first line such as '#!/bin/bash' says what runs it"
    if number == errno.ENOEXEC:
        return "it is no program for this machine, or damaged"
    return ""


def lacks_interpreter(path: str) -> bool:
    """Tell whether a file is text that does not name its interpreter in the first line."""
    begin = _read_begin(path)
    is_text = bool(begin) and b"\0" not in begin and not begin.startswith(b"\x7fELF")
    return is_text and not begin.startswith(b"#!")


def _read_begin(path: str) -> bytes:
    """Read the first line of a file, as far as the kernel looks; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.readline(256)
    return b""


def describe_end(rank: LaunchRank, alike: int = 0) -> str:
    """Say how a failed rank ended; its exception counts, if there was one.

    Args:
        rank: The rank.
        alike: The number of ranks that have all raised this exception; 0 for this one alone.
    """
    status, error = rank.status, rank.error
    if rank.outcome == Outcome.NOT_STARTED:
        return rank.trouble
    if error is not None and error.is_termination:
        return f"Rank {rank.rank} was killed by SIGTERM."
    if error is not None and error.type != "SystemExit":
        message = _end_sentence(find_reason(error))
        operator = describe_operator(error, rank.cwd)
        more = f" {operator[0].upper()}{operator[1:]}." if operator else ""
        who = f"All {alike} ranks" if alike else f"Rank {rank.rank}"
        return f"{who} raised {error.name}{f': {message}' if message else '.'}{more}"
    if status is not None and status < 0 and error is None:
        return f"Rank {rank.rank} was killed by {_describe_signal(-status)}."
    code = rank.exit_code if error is None else error.exit_code
    sentence = f"Rank {rank.rank} exited with code {code}"
    if error is not None and error.message and not is_exit_code(error.message):
        return f"{sentence}: {_end_sentence(find_reason(error))}"
    if error is None and status == 1 and had_witness(rank):
        # The text of sys.exit("no data") has no record; the log ends with it.
        return sentence + _describe_last_line(read_last_lines(rank.stderr))
    inner = find_signal_name(code - 128) if code > 128 else None
    return f"{sentence}, the code a shell gives for {inner}." if inner else f"{sentence}."


def is_exit_code(text: str) -> bool:
    """Return whether the text of a SystemExit is its code, and says no more."""
    return text.lstrip("-").isdigit() or text in ("True", "False")


def describe_background(event: BackgroundEnded) -> str:
    """Say how a training ended that a rank had left running in the background."""
    what = f"Process {event.pid} ({event.command}), which rank {event.rank} left in the background,"
    end = f"exited with code {event.status}"
    if event.status < 0:
        end = f"was killed by {_describe_signal(-event.status)}"
    return f"{what} {end}.{_name_output(event.output)}"


def describe_failure(failure: Optional[Failure], before: str = "", who: str = "It") -> str:
    """Add what a rank reported, in a sentence that begins with a space; empty if nothing.

    Args:
        failure: What is known of the failure, if anything.
        before: What is said of it already.
        who: The subject of the sentence.
    """
    if failure is None:
        return ""
    if not failure.definition.is_listed and failure.meaning in before:
        return ""
    if failure.meaning:
        # A rank of a group may have another number in the job.
        peers = [each for each in find_peers(failure.line) if each.rank is not None]
        named = [str(peer) for peer in peers if not peer.in_group][:_MOST_PEERS_NAMED]
        waited = f"; it waited for {join_words(named)}" if named else ""
        return f" {who} reported {failure.code}: {failure.meaning}{waited}."
    if JOB_CANNOT_GO_ON in failure.line:
        line = _end_sentence(failure.line)
        return "" if JOB_CANNOT_GO_ON in before else f" {who} reported: {line}"
    is_said = failure.code in before or failure.line.strip() in before
    return "" if is_said else f" {who} reported '{failure.code}'."


def describe_stopped(rank: LaunchRank, failure: Failure, first: LaunchRank) -> str:
    """Report a rank with a failure of its own that was stopped because of another one's."""
    meaning = f" ({failure.meaning})" if failure.meaning else ""
    return (
        f"Rank {rank.rank} reported {failure.code}{meaning} and was stopped when rank "
        f"{first.rank} failed, whose failure says less."
    )


def describe_elsewhere(rank: LaunchRank, why: str) -> str:
    """Report that a rank of another node, which is named, is the cause."""
    first = why.split(". ")[0].rstrip(".")
    first = first[0].lower() + first[1:] if first.startswith("Rank") else first
    return f"The cause is on another node: {first}. Rank {rank.rank} failed because of that."


def describe_left(ranks: Sequence[int]) -> str:
    """Add the ranks that had ended in order before others failed; empty if there are none."""
    if not ranks:
        return ""
    return f" {label_ranks(ranks).capitalize()} had exited with code 0 before that."


def describe_interrupt(number: int) -> str:
    """Report that the launcher got a signal."""
    key = " (Ctrl-C)" if number == signal.SIGINT else ""
    return f"The launcher was stopped by {signal_name(number)}{key}."


def describe_killed(rank: LaunchRank, grace_s: float) -> str:
    """Report a rank that did not exit after a signal had stopped the job."""
    return f"Rank {rank.rank} had not exited after {grace_s:g} s and was killed."


def describe_guardian(died: bool) -> str:
    """Report that the guardian was killed, or got a signal to stop."""
    if died:
        return (
            "The launcher's guardian, the parent of the ranks, was killed, and the ranks with it."
        )
    return "The launcher's guardian, the parent of the ranks, got a signal to stop."


def describe_lost(
    rank: LaunchRank,
    first: JoinedProcess,
    ended: Sequence[JoinedProcess],
    count: int,
    output: Sequence[str],
    stacks: str,
) -> str:
    """Report the ranks below a rank that failed, of so many; or before they had joined the job.

    Args:
        rank: The rank.
        first: The one below it that explains the others.
        ended: All that failed.
        count: The number of all that were started.
        output: The last lines that the first one wrote, if they are known to be its own.
        stacks: Those with which it crashed; may be empty.
    """
    hides = ", which its exit code 0 hides" if rank.status == 0 else ""
    others = sorted({process.rank for process in ended} - {first.rank, -1})
    kind, _, text = first.error.partition(": ")
    if kind == "Terminated":
        how = "was killed by SIGTERM"
    elif kind == "SystemExit" and text.lstrip("-").isdigit():
        how = f"exited with code {text}{_describe_last_line(output)}"
    elif kind == "SystemExit":
        how = f"ended: {text}"
    elif first.error:
        how = f"raised {first.error}"
    else:
        how = f"exited without an exception, as after a signal{describe_crash_in_short(stacks)}"
    how = how if how.endswith((".", "!", "?")) else f"{how}."
    were = "other was" if len(others) == 1 else "others were"
    more = f" The {were} {label_ranks(others)}." if others else ""
    have_joined = all(process.joined for process in ended)
    which = "processes that joined the job" if have_joined else "ranks that were started"
    file = _name_output(first.output)
    return (
        f"{len(ended)} of the {count} {which} below rank {rank.rank} ended with an exception or a "
        f"signal{hides}: rank {first.rank_id} {how}{more}{file}"
    )


def _name_output(path: str) -> str:
    """Add the file with the output of a process, in a sentence that begins with a space."""
    return f" Its output is in {path}." if os.path.isfile(path) else ""


def _describe_last_line(output: Sequence[str]) -> str:
    """End a sentence how a rank ended with what it wrote last, if that is known."""
    return f". It wrote last: {_end_sentence(output[-1])}" if output else "."


def describe_unstarted(rank: LaunchRank, absent: Sequence[int], size: str) -> str:
    """Report ranks that a script, which has started others of their job, has not started."""
    were = "was" if len(absent) == 1 else "were"
    return (
        f"Rank {rank.rank} is a script for {size} ranks that exited with code 0, but "
        f"{label_ranks(absent)} {were} not started, or exited at once: no program reported "
        "to be one of them."
    )


def describe_unrecorded(rank_ids: Sequence[str]) -> str:
    """Report ranks that have left no record of how they ended."""
    who = format_rank_ids(rank_ids)
    noun, have, they = ("Rank", "has", "it") if len(rank_ids) == 1 else ("Ranks", "have", "they")
    return (
        f"{noun} {who} {have} left no record of how {they} ended, as below python -I, env -i or "
        f"sudo, or with another PYTHONPATH: that {they} succeeded is known from exit codes alone."
    )


def describe_missing(rank: LaunchRank, seen: Sequence[ScriptRank], output: Sequence[str]) -> str:
    """Report ranks that a script has started and that never joined a job; output is the last's."""
    last = seen[-1]
    command, size = shorten(blank_unprintable(last.command), _COMMAND_WIDTH), len(seen)
    which = f"none of the {size} ranks it started joined a job or"
    if size == 1:
        which = "the only rank it started neither joined a job nor"
    end = _describe_last_line(output) + _name_output(last.output)
    return (
        f"Rank {rank.rank} is a script that exited with code 0, but {which} reported "
        f"how it ended. Rank {last.rank_id} ran: {command}{end}"
    )


def describe_repeated(repeated: Repeated, size: int) -> str:
    """Report a launch of so many ranks of which each starts the ranks itself."""
    ranks = format_ranges(map(int, repeated.rank_ids))
    return (
        f"Each of the {size} ranks of this launch runs a script that starts the ranks itself: "
        f"ranks {ranks} were running below rank {repeated.rank}."
    )


def describe_announced(rank: LaunchRank, size: int) -> str:
    """Report a script for so many ranks that has started none that anybody saw."""
    return (
        f"Rank {rank.rank} is a script for {size} ranks that exited with code 0, but no process "
        "became one of them: nothing was trained."
    )


def _end_sentence(text: str) -> str:
    """End a text with a full stop, on one line that can be shown; leave an empty one empty."""
    _, why, rest = text.partition(JOB_CANNOT_GO_ON)
    line = shorten(blank_unprintable((why + rest or text).strip()), REASON_WIDTH)
    return line if not line or line.endswith((".", "!", "?")) else f"{line}."


def _describe_signal(number: int) -> str:
    if number == signal.SIGKILL:
        return "SIGKILL, which is what the kernel's out-of-memory killer sends"
    name = find_signal_name(number)
    return f"signal {number} ({name})" if name else f"signal {number}"
