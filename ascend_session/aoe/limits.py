"""What the control group of this process leaves it of the machine: memory, and time of CPUs.

Containers and batch systems limit jobs so, which neither psutil nor `free` shows. Source: the
kernel's cgroup-v2.rst (memory.max, memory.current, memory.stat, cpu.max); cgroup-v1/memory.rst and
scheduler/sched-bwc.rst. A limit holds for all groups below, so each group up to the top counts.
"""

import os
from typing import Dict, Iterator, List, Optional, Tuple

__all__ = ["cpu_quota", "memory_left"]

_TOP = "sys/fs/cgroup"
# Of each version: limit, usage, and what of the usage the kernel gives back when memory is short.
_MEMORY = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
_MOST_CHARACTERS = 100000


def memory_left(root: str = "/") -> Optional[int]:
    """Bytes that the group may still take; None if it has no limit.

    Args:
        root: Root of the host.
    """
    found: List[int] = []
    for version, folder in _groups("memory", root):
        limit_name, usage_name, reclaimed = _MEMORY[version]
        limit = _number(_text(folder, limit_name))
        usage = _number(_text(folder, usage_name))
        if limit is not None and usage is not None:
            cache = _number(_keys(_text(folder, "memory.stat")).get(reclaimed, ""))
            found.append(max(0, limit - usage + (cache or 0)))
    return min(found) if found else None


def cpu_quota(root: str = "/") -> Optional[float]:
    """How many CPUs' time the group may take; None if it has no limit.

    Args:
        root: Root of the host.
    """
    found: List[float] = []
    for version, folder in _groups("cpu", root):
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(_text(folder, name) for name in names).split()
        numbers = [_number(word) for word in words]
        if len(numbers) == 2 and numbers[0] and numbers[1]:
            found.append(numbers[0] / numbers[1])
    return min(found) if found else None


def _groups(controller: str, root: str) -> Iterator[Tuple[int, str]]:
    """The folders of the group of this process and of those above it, with their version.

    A container may see its own group as the top, whatever path the kernel gives for it.
    """
    for line in _text(root, "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            version, top = 2, os.path.join(root, _TOP)
        elif controller in controllers.split(","):
            version, top = 1, os.path.join(root, _TOP, controller)
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for count in range(len(parts), -1, -1):
            yield version, os.path.join(top, *parts[:count])


def _keys(text: str) -> Dict[str, str]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _number(text: str) -> Optional[int]:
    """``max``, and -1 in the first version, mean that there is no limit."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) < 20 else None


def _text(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    except OSError:
        return ""
