"""The stacks of processes that write them when they get a signal, as those of ranks do.

`faulthandler` writes them, in ranks that the launcher's runner has started (``stacks.log``) and in
other processes that have joined the job (``stacks_<pid>.log``).
"""

import contextlib
import os
import re
import time
from itertools import repeat
from typing import Dict, Optional, Sequence, Tuple

import psutil

from ascend_session.cluster.member import stacks_name
from ascend_session.failures.record import (
    STACK_SIGNAL,
    STACKS_NAME,
    Frame,
    parse_frames,
)
from ascend_session.files import read_end
from ascend_session.launcher.failure_place import without_runner
from ascend_session.launcher.lines import clean
from ascend_session.user_code import is_user_file

_ANSWER_S = 2.0  # that processes have to write their stacks
_QUIET_S = 0.2  # after which nothing more is expected
_MOST_BYTES = 16 * 1024
_DEAF = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)


def collect_stacks(processes: Sequence[Tuple[psutil.Process, str]]) -> Dict[int, str]:
    """Let processes write the stacks of their threads.

    Args:
        processes: Each with the folder of its rank.

    Returns:
        What each has written that can, by its pid, or that it has written nothing.
    """
    begun: Dict[int, Tuple[str, int]] = {}
    for process, folder in processes:
        for name in (stacks_name(process.pid), STACKS_NAME):
            path = os.path.join(folder, name)
            size = _size(path)
            if process.pid not in begun and _request_stacks(process, path):
                begun[process.pid] = path, size
    before: Dict[int, int] = {}
    quiet_since = time.monotonic()
    limit = quiet_since + _ANSWER_S
    while begun and time.monotonic() < limit:
        sizes = {pid: _size(path) for pid, (path, _) in begun.items()}
        if sizes != before:
            before, quiet_since = sizes, time.monotonic()
        have_answered = all(begun[pid][1] < size for pid, size in sizes.items())
        are_whole = all(read_end(path, 1) == b"\n" for path, _ in begun.values())
        # Who writes piece by piece may be kept from it for a moment, also in the middle of a line.
        if have_answered and are_whole and time.monotonic() - quiet_since >= _QUIET_S:
            break
        time.sleep(0.05)
    stacks = {}
    for pid, (path, size) in begun.items():
        text = "\n".join(without_runner(read_text(path, size).rstrip().splitlines()))
        stacks[pid] = text or f"Process {pid} wrote no stacks within {_ANSWER_S:g} s."
    return stacks


def _request_stacks(process: psutil.Process, path: str) -> bool:
    """Send the signal to a process that writes its stacks there; return whether it is one.

    By default the signal ends a program. It goes only to one that catches it and has the file open.
    """
    with contextlib.suppress(psutil.Error, OSError, LookupError):
        status = read_text(f"/proc/{process.pid}/status")
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        files = [f"/proc/{process.pid}/fd/{fd}" for fd in os.listdir(f"/proc/{process.pid}/fd")]
        is_able = caught >> (STACK_SIGNAL - 1) & 1 and process.status() not in _DEAF
        if is_able and any(map(os.path.samefile, files, repeat(path))):
            process.send_signal(STACK_SIGNAL)
            return True
    return False


def _size(path: str) -> int:
    with contextlib.suppress(OSError):
        return os.path.getsize(path)
    return 0


def read_text(path: str, begin: int = 0) -> str:
    """Read a file's text from ``begin`` on, or the end of that; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(begin, _size(path) - _MOST_BYTES))
        return clean(file.read(_MOST_BYTES), colour=False).decode().strip()
    return ""


_STANDARD_LIBRARY = re.compile(r"/lib/python[0-9.]+/")  # of an interpreter that is not this one


def find_user_frame(stacks: str) -> Optional[Frame]:
    """Find the innermost frame of the user's own files in the main thread, or else of any.

    The main thread is the last one that ``faulthandler`` writes.
    """
    last = re.split("^(?:Current thread|Thread) 0x", stacks, flags=re.MULTILINE)[-1]
    frames = parse_frames(last)
    own = [
        frame
        for frame in frames
        if is_user_file(frame.path) and not _STANDARD_LIBRARY.search(frame.path)
    ]
    return next(iter(own or frames), None)
