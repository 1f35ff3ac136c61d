"""What is checked before a job on devices, and what is waited for."""

import logging
import time
from typing import Callable, List, Mapping, Optional

from ascend_session.checks.environment import check_hccl_variables, check_job_variables
from ascend_session.checks.finding import Finding, errors
from ascend_session.checks.health import check_health
from ascend_session.checks.holders import HOLDERS, Seen, check_holders, look
from ascend_session.checks.network import Interfaces, may_have_interfaces, need_of
from ascend_session.checks.nodes import check_nodes
from ascend_session.checks.ports import PORTS, check_ports
from ascend_session.checks.tables import check_table, read_table
from ascend_session.checks.waiting import await_free, await_gone
from ascend_session.errors import PreflightError
from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.device import DeviceReport
from ascend_session.hardware.hccn import HccnTool
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.survey import survey
from ascend_session.ids import PhysicalDeviceId
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.intended import Intended
from ascend_session.launcher.plan import Plan

__all__ = ["check_free_again", "look_and_wait", "on_devices"]

_logger = logging.getLogger(__name__)

_ALL_ANSWERS = 20.0  # seconds for all that hccn_tool is asked

# What another job takes with it when it ends.
_PASSING = (HOLDERS, PORTS)


def on_devices(
    job: Intended,
    environ: Mapping[str, str],
    timeout: float = TIME_LIMIT,
    say: Optional[Callable[[str], None]] = None,
) -> List[Finding]:
    """Everything that a job needs of devices and network.

    Args:
        job: The job; its devices are known.
        environ: The launcher's environment.
        timeout: Seconds that one answer of ``npu-smi`` or ``hccn_tool`` may take.
        say: Is told if that takes its time; None means that it is logged.
    """
    root = host_root(environ)
    physical = [one.physical for one in job.devices.values() if one.physical is not None]
    is_alone = job.size == 1 and job.rank_table is None
    tool = HccnTool(environ, root, timeout, _ALL_ANSWERS, say or _logger.warning)
    report = survey(environ, root, timeout, addresses=not is_alone, tool=tool)
    found = [
        *check_nodes(root, physical),
        *check_health(report, physical),
        *check_holders(Seen.of(report, [int(one.logical) for one in job.devices.values()])),
        *(check_job_variables(job.environ) if job.is_planned else ()),
    ]
    return found if is_alone else [*found, *_together(job, report, tool)]


def _together(job: Intended, report: DeviceReport, tool: HccnTool) -> List[Finding]:
    """What ranks need to find each other."""
    ranks = {rank: one.physical for rank, one in job.devices.items() if one.physical is not None}
    product = _product(report, list(ranks.values()))
    found = list(check_hccl_variables(job.environ, product))
    table = None
    leaves_server: Optional[bool] = job.size > len(job.devices)
    if job.rank_table is not None:
        read = read_table(job.rank_table, product, job.environ)
        found += read.findings
        table, leaves_server = read.table, read.leaves_server
        if table is not None:
            found += check_table(table, report, ranks, job.size or None)
    if may_have_interfaces(product):
        known = {int(one.physical_id): one.address for one in report if one.physical_id is not None}
        addresses = {int(device): known.get(int(device)) for device in ranks.values()}
        interfaces = Interfaces(addresses, tool)
        need = need_of(product, leaves_server, table, job.environ)
        found += interfaces.check_links(need)
        found += interfaces.check_addresses(need)
    return [*found, *check_ports(job.environ, _ids(job))]


def _ids(job: Intended) -> List[int]:
    """The physical ids of the job's devices, as far as they are known."""
    return [int(one.physical) for one in job.devices.values() if one.physical is not None]


def _product(report: DeviceReport, physical: List[PhysicalDeviceId]) -> Optional[str]:
    """The family of these devices; None if it is not known."""
    found = {one.family for one in report if one.physical_id in physical}
    return found.pop() if len(found) == 1 else None


def look_and_wait(
    job: Intended,
    config: LaunchConfig,
    environ: Mapping[str, str],
    before: List[Finding],
    say: Optional[Callable[[str], None]],
) -> List[Finding]:
    """What was found of devices, after they were waited for if that was asked.

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
    found = [*before, *(on_devices(job, environ, say=say) if config.preflight else ())]
    in_the_way = {finding.check for finding in errors(found)}
    if not config.wait_for_devices or in_the_way - set(_PASSING):
        return found
    if in_the_way or not config.preflight:
        ids = [int(one.logical) for one in job.devices.values()]
        until = time.monotonic() + config.wait_for_devices
        await_free(ids, config.wait_for_devices, environ, say)
    if not in_the_way:
        return found
    # Who ends lets go of devices and ports one after the other.
    left = max(until - time.monotonic(), 0)
    await_gone(lambda: errors(check_ports(job.environ, _ids(job))), left, say)
    return [*before, *on_devices(job, environ, say=say)]


def check_free_again(
    planned: Plan,
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    """Looks before another attempt whether the devices are free, and waits if that was asked.

    Raises:
        DeviceTimeoutError: If they were waited for and are still held.
        PreflightError: If they are held.
    """
    ids = [int(one.device) for one in planned.ranks]
    if config.wait_for_devices:
        await_free(ids, config.wait_for_devices, environ, say, sleep)
    elif config.preflight:
        held = errors(check_holders(look(ids, environ)))
        if held:
            said = " ".join(one.said for one in held)
            raise PreflightError(said, hint=held[0].hint, findings=held)
