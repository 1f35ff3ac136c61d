"""Waiting for a table that somebody else still fills in.

HCCL itself reads a table at "initializing" again each second, for 1800 seconds and without a word,
and fails at once where it meets half a file (launch_facts.md, A2 rule 2). This wait is seen, has a
limit, and bears with half a file.
"""

import time
from typing import Callable, NamedTuple, Optional, Tuple

from ascend_session.cluster.rank_table.contents import COMPLETED, V1_0, V1_2
from ascend_session.cluster.rank_table.source import UnfinishedError, parse, read_text
from ascend_session.errors import JobError
from ascend_session.plain import printable

__all__ = ["Tell", "Waiting", "wait_until_completed"]

_PAUSE = 1.0  # seconds; as often as HCCL looks


class Waiting(NamedTuple):
    """What is waited for.

    Attributes:
        left: Seconds until the wait is given up.
        why: What is still missing, in a few words.
    """

    left: float
    why: str


Tell = Callable[[Waiting], None]


def wait_until_completed(path: str, seconds: float, tell: Optional[Tell] = None) -> str:
    """Reads the file once a second until its status is ``completed``; returns its text.

    Args:
        path: The file; it need not be there yet.
        seconds: How long to wait; it is read once at least.
        tell: Called before each pause.

    Raises:
        JobError: If it is not completed in that time, or can never be, as a directory. What can
            never be a table is not waited for; nothing of it is checked here.
    """
    if not seconds >= 0:  # NaN is neither
        raise JobError(f"A rank table is waited for 0 seconds or more, not {seconds}.")
    end = time.monotonic() + seconds
    while True:
        text, why = _look(path)
        if text is not None:
            return text
        left = end - time.monotonic()
        if left <= 0:
            raise JobError(
                f"{path}: {why}, and {seconds:g} s are over.",
                hint="Whoever fills it in has not done so: look at the job's controller. "
                "HCCL would wait 1800 s for it in silence.",
            )
        if tell is not None:
            tell(Waiting(left, why))
        time.sleep(min(_PAUSE, left))


def _look(path: str) -> Tuple[Optional[str], str]:
    """The text of a table that is not to be waited for; else None and what is missing."""
    try:
        text = read_text(path)
        table = parse(path, text).value
    except UnfinishedError as error:
        return None, error.why
    status = table.get("status") if isinstance(table, dict) else None
    is_known = isinstance(table, dict) and table.get("version", V1_0) in (V1_0, V1_2)
    if not isinstance(status, str) or status == COMPLETED or not is_known:
        return text, ""
    return None, printable(f"its status is {status!r}")
