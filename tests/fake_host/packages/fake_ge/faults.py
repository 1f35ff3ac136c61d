"""Faults, asked for with ``FAKE_GE_FAULTS``: a comma list of ``name[=value][*times]``.

A new one is a line in `KNOWN` and a call of `fault` where it strikes.
"""

import fcntl
import os
import re
from typing import Dict, NamedTuple, Optional

__all__ = ["KNOWN", "fault", "host_root", "parse"]

KNOWN: Dict[str, str] = {
    "init": "GEInitialize fails with this code, default EJ0001",
    "tdt": "the data-transfer host does not start; the value is the code",
    "parser": "the parser does not start",
    "run": "an offloaded run fails with this code, default EZ9999",
    "shutdown": "the run of NPUShutdown raises InternalError, and GE stays up",
    "finalize": "GEFinalize fails with this code, default EE9999, and only logs it; GE is down",
    "close": "closing a session raises InternalError after it was closed",
    "init-raises": "the run of NPUInit raises InternalError with this code, default EJ0001",
    "library": "the adapter's library cannot be loaded",
    "values": "offloaded results are wrong by 5 %",
    "later-values": "offloaded results are wrong by 5 % for each time that GE came up before",
    "off-by-one": "all numbers that a run gives back are too large by one, those of the host, too",
    "feeds": "numbers that are fed arrive as zeros",
    "no-deterministic": "the option deterministic is ignored",
    "no-precision": "the precision modes are ignored",
    "noise": "offloaded results differ from run to run by about 0.1 %",
    "no-offload": "everything runs on the CPU without a word",
    "no-dump": "no dump files are written",
    "no-profile": "no profiling data is written",
    "same-device": "session_device_id is ignored",
    "keeps-device": "the node stays open after GEFinalize, and no other process gets the device",
    "orphan": "GEInitialize leaves a process that holds the node and outlives this one",
    "no-reinit": "GE comes up only once in a process; then InternalError",
    "hang": "GEInitialize takes this many seconds, default 3600",
    "hccl-forgets": "a reduction between ranks leaves the last one out",
    "hccl-fails": "this operator of this type fails; the value is HcomReduce/float32",
    "hccl-order": "allgather has the ranks in reverse order",
    "hccl-root": "broadcast and reduce take the next rank for the root",
    "hccl-parts": "reduce_scatter and all_to_all give parts that are another rank's",
    "hccl-lost": "receive gives zeros",
    "hccl-differs": "the first number of what a collective gives has another last bit on each rank "
    "but the first",
    "hccl-world": "the collectives of a group are those of all ranks",
    "hccl-groups": "every group is said to have all ranks",
    "hccl-kept": "a group stays when it is destroyed",
    "hccl-phantom": "one rank more is said to be there, before all others",
    "hccl-gradient": "the gradient of allreduce is not reduced",
    "inf-nan": "an overflow on the device becomes Inf or NaN; without it, the device saturates",
    "overflow": "the device notices an overflow in each step",
    "early-destroy": "kernels go when a session is closed, not when its object is deleted",
}

_WORD = re.compile(r"([a-z-]+)(?:=([^*]*))?(?:\*([0-9]+))?")


class Asked(NamedTuple):
    """A fault that was asked for: its value, and how often it strikes; None for ever."""

    value: str
    times: Optional[int]


def fault(name: str, default: str = "") -> Optional[str]:
    """The fault's value if it strikes now, else None; each call counts as one time.

    Raises:
        ValueError: If a fault is asked for that does not exist.
    """
    assert name in KNOWN, name
    asked = parse(os.environ.get("FAKE_GE_FAULTS", "")).get(name)
    if asked is None or not _strikes(name, asked.times):
        return None
    return asked.value or default


def parse(text: str) -> Dict[str, Asked]:
    """The faults that a text asks for.

    Raises:
        ValueError: If there is no such fault.
    """
    found = {}
    for word in filter(None, text.split(",")):
        match = _WORD.fullmatch(word.strip())
        if not match or match.group(1) not in KNOWN:
            raise ValueError(f"FAKE_GE_FAULTS: {word!r} is no fault; there are {sorted(KNOWN)}.")
        times = match.group(3)
        found[match.group(1)] = Asked(match.group(2) or "", int(times) if times else None)
    return found


def host_root() -> str:
    """The root of the fake host."""
    return os.environ.get("ASCEND_SESSION_HOST_ROOT") or "/"


def _strikes(name: str, times: Optional[int]) -> bool:
    """Whether it still strikes; the file's size is how often it did, in all processes."""
    if times is None:
        return True
    folder = os.path.join(host_root(), "fake_ge", "faults")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_size >= times:
            return False
        file.write(b".")
        return True
