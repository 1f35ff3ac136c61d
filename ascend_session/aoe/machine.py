"""What limits a tuning run on this machine: its control groups, and the numbers of AOE's threads.

Containers and batch systems limit jobs by control groups, which neither psutil nor `free` shows. A
limit holds for all groups below, so each group up to the top counts.

Sources: the kernel's cgroup-v2.rst (memory.max, memory.current, memory.stat, cpu.max),
cgroup-v1/memory.rst and scheduler/sched-bwc.rst; the vendor's manual, TE_PARALLEL_COMPILER; the
manual of AOE, "Configuration File": aoe.ini is below tools/aoe/conf of the toolkit, newer ones have
it in conf; TUNING_PARALLEL_NUM is 8 if it is not there, and from 1 to 64.
"""

import os
import pwd
import re
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.hardware.installation import below
from ascend_session.hardware.nodes import read_host_file

MOST_PARALLEL = 64
"""The highest TUNING_PARALLEL_NUM."""

# Of each version: limit, usage, and what of the usage the kernel gives back when memory is short.
_MEMORY = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
_COMPILERS, _MOST_COMPILERS, _DEFAULT = "TE_PARALLEL_COMPILER", 32, 8
_HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
_PLACES = ("usr/local/Ascend/ascend-toolkit/latest", "usr/local/Ascend/cann")
_FILES = ("tools/aoe/conf/aoe.ini", "conf/aoe.ini")
_LINE = re.compile(r"\s*TUNING_PARALLEL_NUM\s*=\s*(.*?)\s*")


def find_home(environ: Mapping[str, str]) -> str:
    """Return the home directory: ``HOME``, else that of the user's account, else ``/``."""
    given = environ.get("HOME")
    if given:
        return given
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # as in a container that runs under a number
        return "/"


def measure_memory_left(root: str) -> Optional[int]:
    """Return the bytes that the control group may still take; None if it has no limit."""
    rooms: List[int] = []
    for version, folder in _find_groups("memory", root):
        limit_name, usage_name, reclaimed = _MEMORY[version]
        limit = _parse_limit(_read(folder, limit_name))
        usage = _parse_limit(_read(folder, usage_name))
        if limit is not None and usage is not None:
            lines = (line.split() for line in _read(folder, "memory.stat").splitlines())
            stat: Dict[str, str] = {words[0]: words[1] for words in lines if len(words) == 2}
            cache = _parse_limit(stat.get(reclaimed, ""))
            rooms.append(max(0, limit - usage + (cache or 0)))
    return min(rooms) if rooms else None


def measure_cpu_quota(root: str) -> Optional[float]:
    """Return how many CPUs' time the control group may take; None if it has no limit."""
    quotas: List[float] = []
    for version, folder in _find_groups("cpu", root):
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(_read(folder, name) for name in names).split()
        numbers = [_parse_limit(word) for word in words]
        if len(numbers) == 2 and numbers[0] and numbers[1]:
            quotas.append(numbers[0] / numbers[1])
    return min(quotas) if quotas else None


def _find_groups(controller: str, root: str) -> Iterator[Tuple[int, str]]:
    """Yield the folders of the group of this process and of those above it, with their version.

    A container may see its own group as the top, whatever path the kernel gives for it.
    """
    top = os.path.join(root, "sys/fs/cgroup")
    for line in _read(root, "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            version, folder = 2, top
        elif controller in controllers.split(","):
            version, folder = 1, os.path.join(top, controller)
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for count in range(len(parts), -1, -1):
            yield version, os.path.join(folder, *parts[:count])


def _parse_limit(text: str) -> Optional[int]:
    """Parse a number; ``max``, and -1 in the first version, mean that there is no limit."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) < 20 else None


def _read(folder: str, name: str) -> str:
    return read_host_file(folder, name) or ""


class Parallel(NamedTuple):
    """A number of processes or threads.

    Attributes:
        number: The number; None if it is not known.
        origin: Where it is from, or why it is not known, as a sentence without its full stop.
        legal: Whether the vendor's software takes it.
        is_set: Whether anybody has said it; otherwise it is the default.
    """

    number: Optional[int]
    origin: str
    legal: bool = True
    is_set: bool = True

    @property
    def legal_number(self) -> Optional[int]:
        """The number, if there is one and the vendor's software takes it."""
        return self.number if self.legal else None


def count_compilers(environ: Mapping[str, str]) -> Parallel:
    """Find TE_PARALLEL_COMPILER: how many processes compile operators."""
    given = environ.get(_COMPILERS, "").strip()
    if not given:
        origin = f"{_COMPILERS} is not set, and {_DEFAULT} by default"
        return Parallel(_DEFAULT, origin, is_set=False)
    number = _parse_whole(given)
    if number is None or not 1 <= number <= _MOST_COMPILERS:
        origin = f"{_COMPILERS}={given!r} is not a whole number from 1 to {_MOST_COMPILERS}"
        return Parallel(number, origin, legal=False)
    return Parallel(number, f"{_COMPILERS}={number}")


def count_tuners(given: Optional[int], environ: Mapping[str, str], root: str) -> Parallel:
    """Find TUNING_PARALLEL_NUM: how many threads tune.

    Args:
        given: What the user says, which counts.
        environ: Names the toolkit, whose aoe.ini counts otherwise.
        root: Root of the host.
    """
    if given is not None:
        return Parallel(given, f"tuning_parallel_num={given}, as was given")
    named = [below(root, environ[name]) for name in _HOMES if environ.get(name)]
    for folder in (*named, *_PLACES):
        for name in _FILES:
            path = os.path.join(root, folder, name)
            if os.path.isfile(path) and os.access(path, os.R_OK):
                return _parse_aoe_ini(f"/{os.path.join(folder, name)}", _read(root, path))
    return Parallel(None, "no aoe.ini of the toolkit was found")


def _parse_aoe_ini(path: str, text: str) -> Parallel:
    values = [match.group(1) for match in map(_LINE.fullmatch, text.splitlines()) if match]
    if not values:
        return Parallel(_DEFAULT, f"{path} does not set it; the default is {_DEFAULT}")
    number = _parse_whole(values[-1])
    if number is None or not 1 <= number <= MOST_PARALLEL:
        origin = f"{path} has {values[-1]!r}, which is not a whole number from 1 to {MOST_PARALLEL}"
        return Parallel(number, origin, legal=False)
    return Parallel(number, f"{path} has {number}")


def _parse_whole(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None
