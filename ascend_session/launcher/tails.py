"""What a rank wrote last, and where the vendor's stack wrote about it.

Source: launch_facts.md, B4 (``{run,debug}/plog/plog-<pid>_*.log`` below the log folder).
"""

import os
from typing import Iterable, List, Optional

from ascend_session.failures.record import end_of
from ascend_session.launcher.cleaning import clean, is_blank
from ascend_session.launcher.command import RUNNER
from ascend_session.launcher.rank import Rank
from ascend_session.launcher.variables import LOG_PATH

__all__ = ["last_lines", "plogs_of", "tail_text", "without_runner"]

_LINES, _WIDTH = 20, 400
_FOR_LINES = 64 * 1024  # bytes in which the last lines are looked for
_PLOGS = 16  # files of one process; beyond these the newest count


def tail_text(path: str, limit: int) -> str:
    """The end of a file, at most ``limit`` bytes, with bytes that are no UTF-8 made visible."""
    return end_of(path, limit).decode("utf-8", "backslashreplace")


def last_lines(path: str) -> List[str]:
    """The last 20 lines of a file that are not blank at the end, fit to be shown.

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
    """The lines of a stack that are the user's: without the frames of the runner."""
    own = (
        RUNNER,
        os.path.join(os.path.dirname(RUNNER), "launcher", "inside"),
        'File "sys", line 1',
    )
    return [line for line in lines if not any(part in line for part in own)]


def plogs_of(rank: Rank, pid: Optional[int]) -> List[str]:
    """The vendor's log files of a rank's process, sorted by name.

    If there are none of that process in the rank's own folder, but there are others, it was one
    that the process started: then these.
    """
    folder = rank.environment.get(LOG_PATH) or rank.plog
    found = [
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.startswith("plog-") and name.endswith(".log")
    ]
    own = [path for path in found if os.path.basename(path).startswith(f"plog-{pid}_")]
    if not own and folder == rank.plog:
        own = found
    return sorted(sorted(own, key=_changed)[-_PLOGS:])


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
