"""What a job gets from its environment: variables, devices left to it, and limits.

Variables can make something else of a job than it looks like.

Source: launch_facts.md, A6 (variables that switch collectives off), A9 (limits) and B3 (visible
devices); HCOMM: SetHccLExecTimeOut in externalinput.cc.
"""

import os
import resource
from typing import Iterator, Mapping, Optional

from ascend_session.cluster.variables import find_traps, read_number, read_seconds
from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.families import family
from ascend_session.hardware.nodes import VISIBLE_VARIABLE, read_visible

_VARIABLES = "environment"
_VISIBLE = "visible devices"
_LIMITS = "limits"
_MB = 1024 * 1024
_LEAST_FILES = 1024
# What Docker gives a container that asks for nothing.
_SMALL_MB = 64
_CONNECT = "HCCL_CONNECT_TIMEOUT"
_EXEC = "HCCL_EXEC_TIMEOUT"
_LONGEST_WAIT = 2147483647
_LONGEST_ELSEWHERE = 17340  # seconds, on other products than these
_LONG_WAITS = (family("910B"), family("910C"), family("950"))
_ELSEWHERE = "NPU_VISIBLE_DEVICES"


def check_job_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the variables that describe a job.

    Args:
        environ: The environment of a rank.
    """
    problems = find_traps(environ)
    for problem in problems:
        hint = "The adapter would not say so: mend or unset the variables."
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
        yield _refused(_CONNECT, given, "from 120 to 7200 seconds")
    given, wait = environ.get(_EXEC), read_seconds(environ, _EXEC)
    if not given:
        return
    if product is None or product in _LONG_WAITS:
        if wait is None or wait > _LONGEST_WAIT:
            yield _refused(_EXEC, given, f"from 0 to {_LONGEST_WAIT} seconds")
    elif not wait or wait > _LONGEST_ELSEWHERE:
        limits = f"above 0 and at most {_LONGEST_ELSEWHERE} seconds, as {product} wants it"
        yield _refused(_EXEC, given, limits)


def _refused(name: str, given: str, limits: str) -> Finding:
    message = f"{name}={given!r} is not {limits}; HCCL refuses it."
    return Finding(ERROR, message, f"Mend or unset {name}.", rule=_VARIABLES)


def check_visible(environ: Mapping[str, str], count: int) -> Iterator[Finding]:
    """Look at the variables that choose devices.

    Args:
        environ: The environment.
        count: How many devices the driver has.
    """
    visible = read_visible(environ.get(VISIBLE_VARIABLE), count)
    severity = WARNING if visible.ids else ERROR
    for trap in visible.traps:
        yield Finding(severity, trap, f"Mend or unset {VISIBLE_VARIABLE}.", rule=_VISIBLE)
    if environ.get(_ELSEWHERE) and VISIBLE_VARIABLE not in environ:
        message = f"{_ELSEWHERE}={environ[_ELSEWHERE]!r} has no effect on the runtime."
        yield Finding(WARNING, message, f"The runtime reads {VISIBLE_VARIABLE}.", rule=_VISIBLE)
    elif not visible.traps:
        given = environ.get(VISIBLE_VARIABLE)
        shown = f"{VISIBLE_VARIABLE} is not set" if given is None else f"{VISIBLE_VARIABLE}={given}"
        message = f"{shown}: a process gets {len(visible.ids)} of {count} device(s)."
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
        shown = "any number of" if soft == resource.RLIM_INFINITY else str(soft)
        yield Finding(OK, f"A process may have {shown} files open (ulimit -n).", rule=_LIMITS)
    try:
        disk = os.statvfs(shared)
    except OSError as error:
        yield Finding(NOT_CHECKED, f"Shared memory, {shared}: {error.strerror}.", rule=_LIMITS)
        return
    room = disk.f_blocks * disk.f_frsize // _MB
    if room <= least_mb:
        message = f"Shared memory, {shared}, has {room} MB: loaders of data that use it may fail."
        hint = "Start the container with --shm-size, or mount the folder again with more."
        yield Finding(WARNING, message, hint, rule=_LIMITS)
    else:
        yield Finding(OK, f"Shared memory, {shared}, has {room} MB.", rule=_LIMITS)
