"""Variables that make something else of a job than it looks like.

Source: launch_facts.md, A6 (variables that switch collectives off), A9 (limits) and B3 (visible
devices); HCOMM: SetHccLExecTimeOut in externalinput.cc.
"""

from typing import Iterator, Mapping, Optional

from ascend_session.checks.finding import ERROR, OK, WARNING, Finding
from ascend_session.cluster.traps import traps
from ascend_session.cluster.variables import number, seconds_given
from ascend_session.hardware.families import family
from ascend_session.hardware.visible import VISIBLE_VARIABLE, read_visible

__all__ = ["check_hccl_variables", "check_job_variables", "check_visible"]

_CHECK = "environment"
_VISIBLE = "visible devices"
_CONNECT = "HCCL_CONNECT_TIMEOUT"
_EXEC = "HCCL_EXEC_TIMEOUT"
_LONGEST_WAIT = 2147483647
_LONGEST_ELSEWHERE = 17340  # seconds, on other products than these
_LONG_WAITS = (family("910B"), family("910C"), family("950"))
_ELSEWHERE = "NPU_VISIBLE_DEVICES"


def check_job_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Looks at the variables that describe a job.

    Args:
        environ: The environment of a rank.
    """
    found = traps(environ)
    for trap in found:
        hint = "The adapter would not say so: mend or unset the variables."
        yield Finding(_CHECK, ERROR, trap, hint)
    if not found:
        said = "The variables that describe a job do not contradict each other."
        yield Finding(_CHECK, OK, said)


def check_hccl_variables(
    environ: Mapping[str, str], product: Optional[str] = None
) -> Iterator[Finding]:
    """Looks whether HCCL takes its time limits; one that it does not take ends the ranks (EI0001).

    Args:
        environ: The environment of a rank.
        product: The family of the devices; None if not known, when the widest limits count.
    """
    given, link = environ.get(_CONNECT), number(environ, _CONNECT)
    if given and (link is None or not 120 <= link <= 7200):
        yield _refused(_CONNECT, given, "from 120 to 7200 seconds")
    given, wait = environ.get(_EXEC), seconds_given(environ, _EXEC)
    if not given:
        return
    if product is None or product in _LONG_WAITS:
        if wait is None or wait > _LONGEST_WAIT:
            yield _refused(_EXEC, given, f"from 0 to {_LONGEST_WAIT} seconds")
    elif not wait or wait > _LONGEST_ELSEWHERE:
        limits = f"above 0 and at most {_LONGEST_ELSEWHERE} seconds, as {product} wants it"
        yield _refused(_EXEC, given, limits)


def _refused(name: str, given: str, limits: str) -> Finding:
    said = f"{name}={given!r} is not {limits}; HCCL refuses it."
    return Finding(_CHECK, ERROR, said, f"Mend or unset {name}.")


def check_visible(environ: Mapping[str, str], count: int) -> Iterator[Finding]:
    """Looks at the variables that choose devices.

    Args:
        environ: The environment.
        count: How many devices the driver has.
    """
    visible = read_visible(environ.get(VISIBLE_VARIABLE), count)
    severity = WARNING if visible.ids else ERROR
    for trap in visible.traps:
        yield Finding(_VISIBLE, severity, trap, f"Mend or unset {VISIBLE_VARIABLE}.")
    if environ.get(_ELSEWHERE) and VISIBLE_VARIABLE not in environ:
        said = f"{_ELSEWHERE}={environ[_ELSEWHERE]!r} has no effect on the runtime."
        yield Finding(_VISIBLE, WARNING, said, f"The runtime reads {VISIBLE_VARIABLE}.")
    elif not visible.traps:
        given = environ.get(VISIBLE_VARIABLE)
        shown = f"{VISIBLE_VARIABLE} is not set" if given is None else f"{VISIBLE_VARIABLE}={given}"
        said = f"{shown}: a process gets {len(visible.ids)} of {count} device(s)."
        yield Finding(_VISIBLE, OK, said)
