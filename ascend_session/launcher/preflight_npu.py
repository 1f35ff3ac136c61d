"""What is checked of the devices before a job and after it, and what is waited for.

A process that nothing could end, or a driver that has not let go yet, makes the next job on the
device fail in ways that say little (launch_facts.md, D: worst bugs; E: EJ0001, EL0005).
"""

import logging
import time
from typing import Callable, List, Mapping, Optional

import tenacity

from ascend_session.backends import backend_class
from ascend_session.backends.npu_devices import Devices
from ascend_session.checks.devices import check_health, check_nodes
from ascend_session.checks.environment import check_hccl_variables, check_job_variables
from ascend_session.checks.holders import HOLDERS, Seen, await_free, await_gone, check_holders, look
from ascend_session.checks.network import Interfaces, may_have_interfaces, need_of
from ascend_session.checks.ports import PORTS, check_ports
from ascend_session.checks.tables import check_table, read_table
from ascend_session.errors import PreflightError
from ascend_session.findings import Finding, errors_of
from ascend_session.hardware.devices import DeviceReport, survey
from ascend_session.hardware.hccn import HccnTool
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.processes import proc_problem
from ascend_session.hardware.program import TIME_LIMIT
from ascend_session.ids import PhysicalDeviceId
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.plan import Plan

_logger = logging.getLogger(__name__)

_ALL_ANSWERS = 20.0  # seconds for all that hccn_tool is asked

# What another job takes with it when it ends.
_PASSING = (HOLDERS, PORTS)


def on_devices(
    job: Plan,
    environ: Mapping[str, str],
    timeout: float = TIME_LIMIT,
    say: Optional[Callable[[str], None]] = None,
) -> List[Finding]:
    """Check everything that a job needs of devices and network.

    Args:
        job: The job; its devices are known.
        environ: The launcher's environment.
        timeout: Seconds that one answer of ``npu-smi`` or ``hccn_tool`` may take.
        say: Is told if that takes its time; None means that it is logged.
    """
    root = host_root(environ)
    physical = [device.physical for device in job.devices if device.physical is not None]
    is_alone = job.size == 1 and job.rank_table is None
    tool = HccnTool(environ, root, timeout, _ALL_ANSWERS, say or _logger.warning)
    report = survey(environ, root, timeout, addresses=not is_alone, tool=tool)
    findings = [
        *check_nodes(root, physical),
        *check_health(report, physical),
        *check_holders(Seen.of(report, [int(device.logical) for device in job.devices])),
        *(check_job_variables(job.environment) if job.ranks else ()),
    ]
    return findings if is_alone else [*findings, *_together(job, report, tool)]


def _together(job: Plan, report: DeviceReport, tool: HccnTool) -> List[Finding]:
    """Check what ranks need to find each other."""
    by_rank = enumerate(job.devices, job.first_rank)
    ranks = {rank: one.physical for rank, one in by_rank if one.physical is not None}
    product = _product(report, list(ranks.values()))
    findings = list(check_hccl_variables(job.environment, product))
    table = None
    leaves_server: Optional[bool] = job.size > len(job.devices)
    if job.rank_table is not None:
        read = read_table(job.rank_table, product, job.environment)
        findings += read.findings
        table, leaves_server = read.table, read.leaves_server
        if table is not None:
            findings += check_table(table, report, ranks, job.size or None)
    if may_have_interfaces(product):
        known = {int(one.physical_id): one.address for one in report if one.physical_id is not None}
        addresses = {int(device): known.get(int(device)) for device in ranks.values()}
        interfaces = Interfaces(addresses, tool)
        need = need_of(product, leaves_server, table, job.environment)
        findings += interfaces.check_links(need)
        findings += interfaces.check_addresses(need)
    return [*findings, *check_ports(job.environment, _ids(job))]


def _ids(job: Plan) -> List[int]:
    """Give the physical ids of the job's devices, as far as they are known."""
    return [int(device.physical) for device in job.devices if device.physical is not None]


def _product(report: DeviceReport, physical: List[PhysicalDeviceId]) -> Optional[str]:
    """Give the family of these devices; None if it is not known."""
    families = {device.family for device in report if device.physical_id in physical}
    return families.pop() if len(families) == 1 else None


def look_and_wait(
    job: Plan,
    config: LaunchConfig,
    environ: Mapping[str, str],
    before: List[Finding],
    say: Optional[Callable[[str], None]],
) -> List[Finding]:
    """Check the devices, after they were waited for if that was asked.

    Nobody waits for a job that something else stands in the way of.

    Args:
        job: The job.
        config: What the launch is asked.
        environ: The launcher's environment.
        before: What was found already.
        say: Is told who is waited for; None means that it is logged.

    Raises:
        DeviceTimeoutError: If the devices are still held when the time is over.
    """
    findings = [*before, *(on_devices(job, environ, say=say) if config.preflight else ())]
    in_the_way = {finding.rule for finding in errors_of(findings)}
    if not config.wait_for_devices or in_the_way - set(_PASSING):
        return findings
    if in_the_way or not config.preflight:
        ids = [int(device.logical) for device in job.devices]
        until = time.monotonic() + config.wait_for_devices
        await_free(ids, config.wait_for_devices, environ, say)
    if not in_the_way:
        return findings
    # Who ends lets go of devices and ports one after the other.
    left = max(until - time.monotonic(), 0)
    await_gone(lambda: errors_of(check_ports(job.environment, _ids(job))), left, say)
    return [*before, *on_devices(job, environ, say=say)]


def check_free_again(
    planned: Plan,
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    """Look before another attempt whether the devices are free, and wait if that was asked.

    Raises:
        DeviceTimeoutError: If they were waited for and are still held.
        PreflightError: If they are held.
    """
    ids = [int(each.device) for each in planned.ranks]
    if config.wait_for_devices:
        await_free(ids, config.wait_for_devices, environ, say, sleep)
    elif config.preflight:
        held = errors_of(check_holders(look(ids, environ)))
        if held:
            message = " ".join(each.message for each in held)
            raise PreflightError(message, hint=held[0].hint, findings=held)


_LOOK_EVERY = 0.5  # seconds
_SHORTEST_ANSWER = 1.0  # seconds that npu-smi is given in any case


def still_held(plan: Plan, environ: Mapping[str, str], patience: float) -> List[str]:
    """Look who holds the devices of an attempt that is over; on the stub there is nothing to see.

    What this process itself holds does not count.

    Args:
        plan: The attempt.
        environ: The launcher's environment.
        patience: Seconds to wait for holders to go; with 0 one look decides.

    Returns:
        A sentence for each device that is held, and one if that cannot be seen; empty if all are
        free.
    """
    if not backend_class(plan.backend).holds_devices:
        return []
    # Not by the plan's logical ids: they shift if a device has dropped off the bus.
    here = Devices.of(environ)
    devices = [int(rank.physical) for rank in plan.ranks if rank.physical is not None]
    ids = {physical: here.logical(physical) for physical in devices}
    gone = [physical for physical, logical in ids.items() if logical is None]
    seen = _look([one for one in ids.values() if one is not None], environ, patience)
    notes = [
        f"After the job, {Seen({name: holders}, False, ())}; another job there may fail until "
        "that process has ended."
        for name, holders in seen.held.items()
    ]
    return notes + _unseen(seen, gone, environ)


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
    """Report, in a sentence, that the devices may be held although nobody is seen to hold them."""
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
