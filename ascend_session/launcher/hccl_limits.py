"""After what time HCCL itself gives up, for a stall that ends a job before or after that.

Source: launch_facts.md, A9; options_notes.md, section b.
"""

import math
from typing import List, Tuple

from ascend_session.cluster.variables import number, seconds_given, uses_collectives
from ascend_session.launcher.plan import Plan
from ascend_session.vendor import CONNECT_SECONDS, CONNECT_SECONDS_MORE, EXECUTION_SECONDS

__all__ = ["limits_in_words", "stall_notes"]

_CONNECT = f"HCCL_CONNECT_TIMEOUT and {CONNECT_SECONDS_MORE} s more"


def stall_notes(seconds: float, plan: Plan) -> List[str]:
    """What to know before the start if a slow start would be taken for a stall, in sentences."""
    link, _ = _limits(plan)
    said = (
        f"stall_timeout={seconds:g} s is shorter than the {link:g} s that HCCL gives ranks to find "
        f"each other ({_CONNECT}): a slow start would be taken for a stall. "
        f"Give more than {link:g}."
    )
    return [said] if seconds < link else []


def _limits(plan: Plan) -> Tuple[float, float]:
    """Seconds after which HCCL gives up linking up and a collective; 0 if the job has no HCCL."""
    if plan.backend != "npu" or not any(uses_collectives(one.environment) for one in plan.ranks):
        return 0, 0
    links = [number(one.environment, "HCCL_CONNECT_TIMEOUT") for one in plan.ranks]
    waits = [seconds_given(one.environment, "HCCL_EXEC_TIMEOUT") for one in plan.ranks]
    # HCCL refuses to start with what is out of range, and 0 is for ever.
    link = min(given if given and 120 <= given <= 7200 else CONNECT_SECONDS for given in links)
    wait = min(math.inf if given == 0 else max(given or EXECUTION_SECONDS, 1) for given in waits)
    return link + CONNECT_SECONDS_MORE, wait


def limits_in_words(seconds: float, plan: Plan) -> List[str]:
    """When HCCL would have given up a job that stalled for so long, in sentences."""
    link, wait = _limits(plan)
    said = []
    if seconds < link:
        more = f"only after {link:g} s ({_CONNECT})"
        said.append(f"HCCL itself gives up finding the other ranks {more}.")
    if seconds < wait < math.inf:
        step = max(wait // 68 * 68, 68)
        more = "" if step == wait else f"; on a 910A {step:g} s"
        more = f"only after {wait:g} s (HCCL_EXEC_TIMEOUT, or the script's hccl_timeout{more})"
        said.append(f"HCCL itself gives up a collective {more}.")
    if wait == math.inf:
        said.append("HCCL itself never gives up a collective (HCCL_EXEC_TIMEOUT=0).")
    return said
