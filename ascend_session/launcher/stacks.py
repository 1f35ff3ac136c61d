"""The stacks of the ranks' threads, written by each rank itself when it is asked."""

import contextlib
import os
from itertools import repeat
from typing import Dict, Mapping, Sequence

import psutil
import tenacity

from ascend_session.failures.record import STACK_SIGNAL, STACKS_NAME
from ascend_session.launcher.cleaning import clean
from ascend_session.launcher.plan import Plan
from ascend_session.launcher.tails import without_runner

__all__ = ["stacks_of", "text_of"]

_ANSWER = 2.0  # seconds that ranks have to write their stacks
_MOST_BYTES = 16 * 1024
_DEAF = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)


def stacks_of(plan: Plan, families: Mapping[int, Sequence[psutil.Process]]) -> Dict[int, str]:
    """Lets the ranks write the stacks of their threads; returns what each wrote, as lines."""
    paths = {rank: os.path.join(plan.of(rank).folder, STACKS_NAME) for rank in families}
    begun = {rank: _size(path) for rank, path in paths.items()}
    asked = [rank for rank in paths if any(_ask(one, paths[rank]) for one in families[rank])]
    sizes: Dict[int, int] = {}

    def is_written() -> bool:
        before = dict(sizes)
        sizes.update({rank: _size(paths[rank]) for rank in asked})
        return all(begun[rank] < sizes[rank] == before.get(rank) for rank in asked)

    again = tenacity.retry_if_result(lambda is_done: not is_done)
    stop, wait = tenacity.stop_after_delay(_ANSWER), tenacity.wait_fixed(0.05)
    tenacity.Retrying(stop=stop, wait=wait, retry=again, retry_error_callback=bool)(is_written)
    found = {rank: text_of(paths[rank], begun[rank]).rstrip() for rank in asked}
    texts = {rank: "\n".join(without_runner(text.splitlines())) for rank, text in found.items()}
    silent = f" It wrote no stacks within {_ANSWER:g} s."
    return {rank: f"\n{text}" if text else silent for rank, text in texts.items()}


def _ask(process: psutil.Process, path: str) -> bool:
    """Sends the signal to a process that writes its stacks there; returns whether it is one.

    By default the signal ends a program. It goes only to one that catches it and has the file open.
    """
    with contextlib.suppress(psutil.Error, OSError, LookupError):
        caught = int(text_of(f"/proc/{process.pid}/status").partition("SigCgt:")[2].split()[0], 16)
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


def text_of(path: str, begin: int = 0) -> str:
    """The end of a file's text from ``begin`` on; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(begin, _size(path) - _MOST_BYTES))
        return clean(file.read(_MOST_BYTES), colour=False).decode().strip()
    return ""
