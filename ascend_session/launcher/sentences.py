"""What happened to a rank or to the launcher, in one sentence each, and what the rank wrote last.

Source: launch_facts.md, B4 (``{run,debug}/plog/plog-<pid>_*.log`` below the log folder).
"""

import os
import signal
from typing import Iterable, List, Optional

from ascend_session.failures import JOB_CANNOT_GO_ON, Failure
from ascend_session.failures.record import ErrorRecord, end_of
from ascend_session.launcher import rank_main
from ascend_session.launcher.environment import LOG_PATH
from ascend_session.launcher.lines import clean, is_blank
from ascend_session.launcher.plan import RankPlan
from ascend_session.launcher.process import name_of, signal_name
from ascend_session.launcher.result import Outcome, RankResult
from ascend_session.text import blanked

_LENGTH = 400  # characters of an exception's message
_KEYS = {signal.SIGINT: " (Ctrl-C)", signal.SIGQUIT: " (Ctrl-\\)"}


def how_it_ended(result: RankResult) -> str:
    """Say how a failed rank ended; the exception counts, if there was one."""
    if result.outcome == Outcome.NOT_STARTED:
        return result.trouble
    if result.error is not None and result.error.type != "SystemExit":
        return f"Rank {result.rank} raised {_exception(result.error)}"
    status = result.status
    if status is not None and status < 0 and result.error is None:
        return f"Rank {result.rank} was ended by {_by_signal(-status)}."
    code = result.exit_code if result.error is None else result.error.exit_code
    sentence = f"Rank {result.rank} ended with exit code {code}"
    if result.error is not None and not _is_number(result.error.message):
        return f"{sentence}: {_line(result.error.message)}"
    inner = name_of(code - 128) if result.error is None and code > 128 else None
    return f"{sentence}, which is what a shell says of {inner}." if inner else f"{sentence}."


def it_reported(failure: Optional[Failure], before: str = "") -> str:
    """Add a sentence, which begins with a space; empty if there is nothing to add.

    Args:
        failure: What is known of the failure, if anything.
        before: What is said of it already.
    """
    if failure is None:
        return ""
    if failure.meaning:
        return f" It reported {failure.code}: {failure.meaning}."
    if JOB_CANNOT_GO_ON in failure.line:
        return "" if JOB_CANNOT_GO_ON in before else f" It reported: {_line(failure.line)}"
    return f" It reported '{failure.code}'."


def after_stop(result: RankResult, failure: Failure, first: RankResult) -> str:
    """Report a rank that spoke of its own failure, and was stopped because of another one's."""
    meaning = f" ({failure.meaning})" if failure.meaning else ""
    return (
        f"Rank {result.rank} reported {failure.code}{meaning} and was stopped when rank "
        f"{first.rank} failed, which says less."
    )


def on_another_node(result: RankResult, failure: Failure) -> str:
    """Report that a rank of another node, which the failure names, is the cause."""
    _, _, why = _line(failure.line).partition(JOB_CANNOT_GO_ON)
    why = why.split(". ")[0].rstrip(".")
    return f"The cause is on another node: {why}. Rank {result.rank} failed because of that."


def told(number: int) -> str:
    """Report that the launcher got a signal."""
    name = signal_name(number)
    return f"The launcher was told to stop by {name}{_KEYS.get(signal.Signals(number), '')}."


def stalled(seconds: Optional[float]) -> str:
    """Report that no rank showed a sign of life."""
    time = "too long" if seconds is None else f"{seconds:g} s"
    return f"The job stalled: no rank wrote anything or used a CPU for {time}."


def without_guardian(died: bool) -> str:
    """Report that the job was ended by nobody that is known."""
    if died:
        return "The launcher's guardian, the parent of the ranks, was killed, and they with it."
    return "The launcher's guardian, the parent of the ranks, got a signal to end."


def _exception(error: ErrorRecord) -> str:
    name = error.type[len("__main__.") :] if error.type.startswith("__main__.") else error.type
    message = _line(error.message)
    return f"{name}: {message}" if message else f"{name}."


def _line(message: str) -> str:
    """Give the first line of a message that says anything, with a full stop.

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


_LINES, _WIDTH = 20, 400
_FOR_LINES = 64 * 1024  # bytes in which the last lines are looked for
_PLOGS = 16  # files of one process; beyond these the newest count


def tail_text(path: str, limit: int) -> str:
    """Read the end of a file, at most ``limit`` bytes; what is no UTF-8 is made visible."""
    return end_of(path, limit).decode("utf-8", "backslashreplace")


def last_lines(path: str) -> List[str]:
    """Read the last 20 lines of a file that are not blank at the end, fit to be shown.

    A longer line is cut to 400 characters.
    """
    data = end_of(path, _FOR_LINES).rstrip()
    if not data:
        return []
    lines = clean(data + b"\n", colour=False).split(b"\n")
    while lines and is_blank(lines[-1]):
        lines.pop()
    return [_cut(line.decode("utf-8", "backslashreplace")) for line in lines[-_LINES:]]


def without_runner(lines: Iterable[str]) -> List[str]:
    """Give the lines of a stack that are the user's: without the frames of the runner."""
    own = (rank_main.RUNNER, rank_main.__file__, f'File "{rank_main.GLUE}", line 1')
    return [line for line in lines if not any(part in line for part in own)]


def plogs_of(rank: RankPlan, pid: Optional[int]) -> List[str]:
    """Find the vendor's log files of a rank's process, sorted by name.

    If there are none of that process in the rank's own folder, but there are others, it was one
    that the process started: then these.
    """
    folder = rank.environment.get(LOG_PATH) or rank.plog
    paths = [
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.startswith("plog-") and name.endswith(".log")
    ]
    own = [path for path in paths if os.path.basename(path).startswith(f"plog-{pid}_")]
    if not own and folder == rank.plog:
        own = paths
    return sorted(sorted(own, key=_changed)[-_PLOGS:])


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
