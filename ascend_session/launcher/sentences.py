"""What happened to a rank or to the launcher, in one sentence each."""

import errno
import os
import signal
from typing import TYPE_CHECKING, Optional, Sequence, Tuple

from ascend_session.cluster.member import JoinedProcess
from ascend_session.failures import JOB_CANNOT_GO_ON, Failure
from ascend_session.launcher.process import find_signal_name, signal_name
from ascend_session.launcher.result import Outcome, RankResult
from ascend_session.text import blanked, format_ranges, shorten

if TYPE_CHECKING:
    from ascend_session.launcher.events import NotStarted
    from ascend_session.launcher.plan import RankPlan

_LENGTH = 400  # characters of an exception's message
_KEYS = {signal.SIGINT: " (Ctrl-C)", signal.SIGQUIT: " (Ctrl-\\)"}


def describe_not_started(planned: "RankPlan", event: "NotStarted") -> str:
    """Say why the program of a rank could not be started."""
    what, text = "", event.text
    if event.tried == "started":
        what = f"{planned.command[0]}: "
        if event.number == errno.ENOENT and os.path.isfile(planned.command[0]):
            text += " (the file is there; the interpreter that its first line names is not)"
    return f"Rank {planned.rank} could not be {event.tried}: {what}{text}."


def describe_end(rank: RankResult) -> str:
    """Say how a failed rank ended; its exception counts, if there was one."""
    status, error = rank.status, rank.error
    if rank.outcome == Outcome.NOT_STARTED:
        return rank.trouble
    if error is not None and error.type != "SystemExit":
        message = _first_line(error.message)
        return f"Rank {rank.rank} raised {error.name}{f': {message}' if message else '.'}"
    if status is not None and status < 0 and error is None:
        return f"Rank {rank.rank} was ended by {_describe_signal(-status)}."
    code = rank.exit_code if error is None else error.exit_code
    sentence = f"Rank {rank.rank} ended with exit code {code}"
    text = "" if error is None else error.message
    is_code = text.lstrip("-").isdigit() or text in ("True", "False")
    if error is not None and text and not is_code:
        return f"{sentence}: {_first_line(error.message)}"
    inner = find_signal_name(code - 128) if code > 128 else None
    return f"{sentence}, the code a shell gives for {inner}." if inner else f"{sentence}."


def describe_failure(failure: Optional[Failure], before: str = "") -> str:
    """Add what a rank reported, in a sentence that begins with a space; empty if nothing.

    Args:
        failure: What is known of the failure, if anything.
        before: What is said of it already.
    """
    if failure is None:
        return ""
    if failure.meaning:
        return f" It reported {failure.code}: {failure.meaning}."
    if JOB_CANNOT_GO_ON in failure.line:
        return "" if JOB_CANNOT_GO_ON in before else f" It reported: {_first_line(failure.line)}"
    return f" It reported '{failure.code}'."


def describe_stopped(rank: RankResult, failure: Failure, first: RankResult) -> str:
    """Report a rank with a failure of its own that was stopped because of another one's."""
    meaning = f" ({failure.meaning})" if failure.meaning else ""
    return (
        f"Rank {rank.rank} reported {failure.code}{meaning} and was stopped when rank "
        f"{first.rank} failed, whose failure says less."
    )


def describe_elsewhere(rank: RankResult, failure: Failure) -> str:
    """Report that a rank of another node, which the failure names, is the cause."""
    _, _, why = _first_line(failure.line).partition(JOB_CANNOT_GO_ON)
    why = why.split(". ")[0].rstrip(".")
    return f"The cause is on another node: {why}. Rank {rank.rank} failed because of that."


def describe_interrupt(number: int) -> str:
    """Report that the launcher got a signal."""
    key = _KEYS.get(signal.Signals(number), "")
    return f"The launcher was stopped by {signal_name(number)}{key}."


def describe_guardian(died: bool) -> str:
    """Report that the guardian was killed, or got a signal to end."""
    if died:
        return (
            "The launcher's guardian, the parent of the ranks, was killed, and the ranks with it."
        )
    return "The launcher's guardian, the parent of the ranks, got a signal to end."


def describe_lost(rank: RankResult, ended: Sequence[JoinedProcess], count: int) -> str:
    """Report the processes of the job below a rank that failed, of so many that had joined."""
    hides = ", which its exit code 0 hides" if rank.status == 0 else ""
    first = min(ended, key=_explains_less)
    others = sorted({member.rank for member in ended} - {first.rank})
    kind, _, text = first.error.partition(": ")
    if kind in ("SystemExit", "Terminated"):
        how = f"ended with exit code {text}"
    elif first.error:
        how = f"raised {first.error}"
    else:
        how = "ended without an exception, as after a signal"
    how = how if how.endswith((".", "!", "?")) else f"{how}."
    noun = "other was rank" if len(others) == 1 else "others were ranks"
    more = f" The {noun} {format_ranges(others)}." if others else ""
    return (
        f"{len(ended)} of the {count} processes that joined the job below rank {rank.rank} ended "
        f"with an exception or a signal{hides}: rank {first.rank} {how}{more}"
    )


def _explains_less(member: JoinedProcess) -> Tuple[int, float]:
    """Give how little an end explains those of others; of equals the first one counts."""
    if JOB_CANNOT_GO_ON in member.error:
        return 2, member.time
    return (0 if member.error else 1), member.time


def _first_line(message: str) -> str:
    """Take the first line of a message that says anything, with a full stop.

    TensorFlow puts where it happened before the sentence of a rank that lost another one.
    """
    _, why, rest = message.partition(JOB_CANNOT_GO_ON)
    lines = [line.strip() for line in (why + rest or message).splitlines() if line.strip()]
    line = shorten(blanked(lines[0]), _LENGTH) if lines else ""
    return line if not line or line.endswith((".", "!", "?")) else f"{line}."


def _describe_signal(number: int) -> str:
    if number == signal.SIGKILL:
        return "SIGKILL, which is what the kernel's out-of-memory killer sends"
    name = find_signal_name(number)
    return f"signal {number} ({name})" if name else f"signal {number}"
