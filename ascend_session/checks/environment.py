"""What a job gets from its environment: variables, devices left to it, and limits.

Variables can make something else of a job than it looks like.

Sources: guides/facts/launch.md#collectives-that-are-switched-off,
guides/facts/launch.md#hccl-timeouts, guides/facts/devices.md#visible-devices; HCOMM,
externalinput.cc, SetHccLExecTimeOut.
"""

import os
import resource
from typing import Iterator, Mapping, Optional

from ascend_session.cluster.variables import (
    find_traps,
    find_wrong_numbers,
    read_number,
    read_seconds,
)
from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.families import family
from ascend_session.hardware.nodes import VISIBLE_VARIABLE, read_visible

_VARIABLES = "environment"
_VISIBLE = "visible devices"
_LIMITS = "limits"
_LEAST_FILES = 1024
_SMALL_MB = 64  # what Docker gives a container that asks for nothing
_CONNECT = "HCCL_CONNECT_TIMEOUT"
_EXEC = "HCCL_EXEC_TIMEOUT"
_LONGEST_WAIT_S = 2147483647
_LONGEST_ELSEWHERE_S = 17340  # on other products than these
_LONG_WAITS = (family("910B"), family("910C"), family("950"))
_WRONG_VISIBLE = "NPU_VISIBLE_DEVICES"


def check_job_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the variables of a rank that describe its job."""
    problems = [*find_traps(environ), *find_wrong_numbers(environ)]
    for problem in problems:
        hint = "Correct or unset the variables; the adapter does not report this."
        yield Finding(ERROR, problem, hint, rule=_VARIABLES)
    if not problems:
        message = "The variables that describe a job do not contradict each other."
        yield Finding(OK, message, rule=_VARIABLES)


def check_hccl_variables(
    environ: Mapping[str, str], product: Optional[str] = None
) -> Iterator[Finding]:
    """Check whether HCCL takes its time limits; one that it does not take ends the ranks (EI0001).

    Args:
        environ: The environment of a rank.
        product: The family of the devices; None if not known, when the widest limits count.
    """
    given, link = environ.get(_CONNECT), read_number(environ, _CONNECT)
    if given and (link is None or not 120 <= link <= 7200):
        yield _refuse(_CONNECT, given, "from 120 to 7200 seconds")
    given, wait = environ.get(_EXEC), read_seconds(environ, _EXEC)
    if not given:
        return
    if product is None or product in _LONG_WAITS:
        if wait is None or wait > _LONGEST_WAIT_S:
            yield _refuse(_EXEC, given, f"from 0 to {_LONGEST_WAIT_S} seconds")
    elif not wait or wait > _LONGEST_ELSEWHERE_S:
        limits = f"above 0 and at most {_LONGEST_ELSEWHERE_S} seconds on {product}"
        yield _refuse(_EXEC, given, limits)


def _refuse(name: str, given: str, limits: str) -> Finding:
    message = f"{name}={given!r} is not {limits}; HCCL refuses it."
    return Finding(ERROR, message, f"Correct or unset {name}.", rule=_VARIABLES)


def check_visible(environ: Mapping[str, str], count: int) -> Iterator[Finding]:
    """Look at the variables that choose among the ``count`` devices of the driver."""
    visible = read_visible(environ.get(VISIBLE_VARIABLE), count)
    severity = WARNING if visible.ids else ERROR
    for trap in visible.traps:
        yield Finding(severity, trap, f"Correct or unset {VISIBLE_VARIABLE}.", rule=_VISIBLE)
    if environ.get(_WRONG_VISIBLE) and VISIBLE_VARIABLE not in environ:
        message = f"{_WRONG_VISIBLE}={environ[_WRONG_VISIBLE]!r} has no effect on the runtime."
        yield Finding(WARNING, message, f"The runtime reads {VISIBLE_VARIABLE}.", rule=_VISIBLE)
    elif not visible.traps:
        given = environ.get(VISIBLE_VARIABLE)
        setting = " is not set" if given is None else f"={given}"
        devices = f"{len(visible.ids)} of {count} device(s)"
        message = f"{VISIBLE_VARIABLE}{setting}: a process gets {devices}."
        yield Finding(OK, message, rule=_VISIBLE)


def check_limits(shared: str = "/dev/shm", least_mb: int = _SMALL_MB) -> Iterator[Finding]:
    """Look at open files and shared memory.

    Args:
        shared: The folder of shared memory.
        least_mb: It has to be larger than this, MB.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _LEAST_FILES:
        message = f"A process may have {soft} files open (ulimit -n), less than the usual 1024."
        most = "more" if hard == resource.RLIM_INFINITY else f"up to {hard}"
        yield Finding(WARNING, message, f"ulimit -n allows {most}.", rule=_LIMITS)
    else:
        count = "any number of" if soft == resource.RLIM_INFINITY else str(soft)
        yield Finding(OK, f"A process may have {count} files open (ulimit -n).", rule=_LIMITS)
    try:
        disk = os.statvfs(shared)
    except OSError as error:
        yield Finding(NOT_CHECKED, f"Shared memory, {shared}: {error.strerror}.", rule=_LIMITS)
        return
    room_mb = disk.f_blocks * disk.f_frsize >> 20
    if room_mb <= least_mb:
        message = (
            f"Shared memory, {shared}, has {room_mb} MB: loaders of data that use it may fail."
        )
        hint = "Start the container with a larger --shm-size, or remount the folder."
        yield Finding(WARNING, message, hint, rule=_LIMITS)
    else:
        yield Finding(OK, f"Shared memory, {shared}, has {room_mb} MB.", rule=_LIMITS)
