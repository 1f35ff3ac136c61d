"""Names, timeouts and number formats of the vendor's software that several packages use."""

import re
import socket
from typing import Optional

# Product families
TRAINING, A2, A3, A5 = "Atlas training (910A)", "A2 (910B)", "A3", "A5 (950)"
DUO = "310P"

# HCCL's default timeouts, and what it adds to the first (guides/facts/launch.md#hccl-timeouts).
CONNECT_SECONDS, CONNECT_SECONDS_MORE = 120, 20
EXECUTION_SECONDS = 1836

LONGEST_NUMBER = 10
"""The most digits that HCCL reads of a number in one of its variables."""

WORLD_GROUP = "hccl_world_group"

HOST_JOBS = ("ps", "default")
"""The values of ``job`` with which the adapter leaves graphs on the host CPU."""

# The adapter recognises a loop by exactly this operation name (geop_npu.cc, AddNodeAttrs).
ITERATION_OP = "IterationOp"

LOOP_COUNTER = "npu_runconfig/iterations_per_loop"
"""Variable with the number of steps, less one, of a run of `ITERATION_OP` (npu/util.py)."""


def parse_seconds(text: str) -> Optional[float]:
    """Read seconds as HCCL does, with at most two decimals; None for anything else.

    Source: HCOMM, IsValidExecTimeOutMs in externalinput.cc.
    """
    return float(text) if re.fullmatch(r"[0-9]{1,300}(\.[0-9]{1,2})?", text) else None


def parse_whole_number(text: str) -> Optional[int]:
    """Read a whole number of 0 or more as HCCL does, which strips no blanks; None for others."""
    return int(text) if re.fullmatch(f"[0-9]{{1,{LONGEST_NUMBER}}}", text) else None


def read_int64(text: Optional[str]) -> Optional[int]:
    """Read a 64-bit whole number as the adapter's safe_strto64 does; None for anything else."""
    number = int(text) if text and re.fullmatch(r"\s*-?0*[0-9]{1,19}\s*", text, re.A) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def address_family(text: str) -> Optional[int]:
    """Return ``socket.AF_INET`` or ``AF_INET6``; None for a text that HCCL refuses as an address.

    The address may end with ``%`` and an interface (HCOMM, HcclIpAddress::SetReadableAddress).
    """
    plain, percent, interface = text.partition("%")
    if percent and not (plain and interface):
        return None
    family = socket.AF_INET6 if plain.count(":") >= 2 else socket.AF_INET
    try:
        socket.inet_pton(family, plain)
    except (OSError, ValueError):
        return None
    return int(family)
