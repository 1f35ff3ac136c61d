"""What happened to a rank or to the launcher, in one sentence each."""

import signal
from typing import Optional

from ascend_session.failures import Failure
from ascend_session.failures.record import ErrorRecord
from ascend_session.failures.rows.stub import JOB_CANNOT_GO_ON
from ascend_session.launcher.result import Outcome, RankResult
from ascend_session.launcher.signals import name_of, signal_name
from ascend_session.plain import blanked

__all__ = [
    "after_stop",
    "how_it_ended",
    "it_reported",
    "on_another_node",
    "stalled",
    "told",
    "without_guardian",
]

_LENGTH = 400  # characters of an exception's message
_KEYS = {signal.SIGINT: " (Ctrl-C)", signal.SIGQUIT: " (Ctrl-\\)"}


def how_it_ended(result: RankResult) -> str:
    """How a failed rank ended; the exception counts, if there was one."""
    if result.outcome == Outcome.NOT_STARTED:
        return result.trouble
    if result.error is not None and result.error.type != "SystemExit":
        return f"Rank {result.rank} raised {_exception(result.error)}"
    status = result.status
    if status is not None and status < 0 and result.error is None:
        return f"Rank {result.rank} was ended by {_by_signal(-status)}."
    code = result.exit_code if result.error is None else result.error.exit_code
    said = f"Rank {result.rank} ended with exit code {code}"
    if result.error is not None and not _is_number(result.error.message):
        return f"{said}: {_line(result.error.message)}"
    inner = name_of(code - 128) if result.error is None and code > 128 else None
    return f"{said}, which is what a shell says of {inner}." if inner else f"{said}."


def it_reported(failure: Optional[Failure], said: str = "") -> str:
    """A sentence to go on with, which begins with a space; empty if there is nothing to add.

    Args:
        failure: What is known of the failure, if anything.
        said: What is said of it already.
    """
    if failure is None:
        return ""
    if failure.meaning:
        return f" It reported {failure.code}: {failure.meaning}."
    if JOB_CANNOT_GO_ON in failure.line:
        return "" if JOB_CANNOT_GO_ON in said else f" It reported: {_line(failure.line)}"
    return f" It reported '{failure.code}'."


def after_stop(result: RankResult, failure: Failure, first: RankResult) -> str:
    """A rank that spoke of a failure of its own, and was stopped because of another one's."""
    meaning = f" ({failure.meaning})" if failure.meaning else ""
    return (
        f"Rank {result.rank} reported {failure.code}{meaning} and was stopped when rank "
        f"{first.rank} failed, which says less."
    )


def on_another_node(result: RankResult, failure: Failure) -> str:
    """A rank of another node is the cause, which the failure names; one here failed by it."""
    _, _, why = _line(failure.line).partition(JOB_CANNOT_GO_ON)
    why = why.split(". ")[0].rstrip(".")
    return f"The cause is on another node: {why}. Rank {result.rank} failed because of that."


def told(number: int) -> str:
    """The launcher got a signal."""
    name = signal_name(number)
    return f"The launcher was told to stop by {name}{_KEYS.get(signal.Signals(number), '')}."


def stalled(seconds: Optional[float]) -> str:
    """No rank showed a sign of life."""
    time = "too long" if seconds is None else f"{seconds:g} s"
    return f"The job stalled: no rank wrote anything or used a CPU for {time}."


def without_guardian(died: bool) -> str:
    """The job was ended by nobody that is known."""
    if died:
        return "The launcher's guardian, the parent of the ranks, was killed, and they with it."
    return "The launcher's guardian, the parent of the ranks, got a signal to end."


def _exception(error: ErrorRecord) -> str:
    name = error.type[len("__main__.") :] if error.type.startswith("__main__.") else error.type
    said = _line(error.message)
    return f"{name}: {said}" if said else f"{name}."


def _line(message: str) -> str:
    """The first line of a message that says anything, with a full stop.

    TensorFlow puts where it happened before the sentence of a rank that lost another one.
    """
    _, why, rest = message.partition(JOB_CANNOT_GO_ON)
    lines = [line.strip() for line in (why + rest or message).splitlines() if line.strip()]
    line = blanked(lines[0]) if lines else ""
    if len(line) > _LENGTH:
        line = line[: _LENGTH - 3] + "..."
    return line if not line or line.endswith((".", "!", "?")) else f"{line}."


def _by_signal(number: int) -> str:
    if number == signal.SIGKILL:
        return "SIGKILL, which is what the kernel's out-of-memory killer sends"
    name = name_of(number)
    return f"signal {number} ({name})" if name else f"signal {number}"


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit() or text in ("True", "False")
