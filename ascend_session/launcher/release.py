"""Whether the devices of a job are free when it is over.

A process that nothing could end, or a driver that has not let go yet, makes the next job on the
device fail in ways that say little (launch_facts.md, D: worst bugs; E: EJ0001, EL0005).
"""

from typing import List, Mapping

import tenacity

from ascend_session.backends.npu_devices import Devices
from ascend_session.checks.holders import Seen, look
from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.processes import proc_problem
from ascend_session.launcher.plan import Plan

__all__ = ["still_held"]

_LOOK_EVERY = 0.5  # seconds
_SHORTEST_ANSWER = 1.0  # seconds that npu-smi is given in any case


def still_held(plan: Plan, environ: Mapping[str, str], patience: float) -> List[str]:
    """Looks who holds the devices of an attempt that is over; on the stub there is nothing to see.

    What this process itself holds does not count.

    Args:
        plan: The attempt.
        environ: The launcher's environment.
        patience: Seconds to wait for holders to go; with 0 one look decides.

    Returns:
        A sentence for each device that is held, and one if that cannot be seen; empty if all are
        free.
    """
    if plan.backend != "npu":
        return []
    # Not by the plan's logical ids: they shift if a device has dropped off the bus.
    here = Devices.of(environ)
    wanted = [int(rank.physical) for rank in plan.ranks if rank.physical is not None]
    ids = {physical: here.logical(physical) for physical in wanted}
    gone = [physical for physical, logical in ids.items() if logical is None]
    seen = _look([one for one in ids.values() if one is not None], environ, patience)
    said = [
        f"After the job, {Seen({name: holders}, False, ())}; another job there may fail until "
        "that process has ended."
        for name, holders in seen.held.items()
    ]
    return said + _unseen(seen, gone, environ)


def _look(ids: List[int], environ: Mapping[str, str], patience: float) -> Seen:
    timeout = max(min(TIME_LIMIT, patience), _SHORTEST_ANSWER)
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_delay(patience),
        wait=lambda state: min(_LOOK_EVERY, max(patience - (state.seconds_since_start or 0), 0)),
        retry=tenacity.retry_if_result(lambda seen: not seen.is_free),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    found: Seen = retrying(look, ids, environ, timeout)
    return found


def _unseen(seen: Seen, gone: List[int], environ: Mapping[str, str]) -> List[str]:
    """A sentence if the devices may be held although nobody is seen to hold them."""
    problem = proc_problem(host_root(environ))
    why = []
    if seen.hidden:
        why.append("another container holds a device, which hides who holds the others")
    if gone:
        names = ", ".join(f"/dev/davinci{physical}" for physical in gone)
        why.append(f"there is no {names} any more")
    if problem:
        why.append(f"/proc could not be read ({problem}), so only what npu-smi lists is known")
    if not why:
        return []
    return [f"Whether the job's devices are free cannot be seen: {'; '.join(why)}."]
