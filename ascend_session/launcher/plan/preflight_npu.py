"""What is checked of the devices before a job and after it, and how they are waited for.

A process that nothing could end, or a driver that has not let go yet, makes the next job on the
device fail in ways that say little (guides/facts/failures.md#devices-in-use).
"""

import logging
import time
from typing import Callable, List, Optional

import tenacity

from ascend_session.backends.npu_job import Devices
from ascend_session.checks.availability import (
    HOLDERS,
    Holders,
    await_free,
    await_gone,
    check_health,
    check_holders,
    check_nodes,
    find_holders,
)
from ascend_session.checks.environment import check_job_variables
from ascend_session.checks.network import (
    PORTS,
    Interfaces,
    check_ports,
    find_need,
    may_have_interfaces,
)
from ascend_session.checks.tables import check_table, read_table
from ascend_session.config.hccl_variables import check_hccl_variables
from ascend_session.errors import PreflightError
from ascend_session.findings import Finding, errors_of
from ascend_session.hardware.device_report import DeviceReport, common_family, survey
from ascend_session.hardware.hccn import HccnTool
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.processes import proc_problem
from ascend_session.hardware.program import TIME_LIMIT
from ascend_session.launcher.plan.plan import JobDraft, Plan
from ascend_session.text import join_words

_logger = logging.getLogger(__name__)

_ALL_ANSWERS_S = 20.0  # for all that hccn_tool is asked

# What another job takes with it when it ends.
_PASSING = (HOLDERS, PORTS)


def check_host(job: JobDraft, say: Optional[Callable[[str], None]] = None) -> List[Finding]:
    """Check everything that a job needs of devices and network.

    Args:
        job: The job; its devices are known.
        say: Takes a sentence if an answer takes its time; None means that it is logged.
    """
    environ = job.request.environ
    root = host_root(environ)
    is_alone = job.size == 1 and job.rank_table is None
    tool = HccnTool(environ, root, TIME_LIMIT, _ALL_ANSWERS_S, say or _logger.warning)
    report = survey(environ, root, TIME_LIMIT, addresses=not is_alone, tool=tool)
    findings = [
        *check_nodes(root, job.physical),
        *check_health(report, job.physical),
        *check_holders(
            Holders.from_report(report, [int(device.logical) for device in job.devices])
        ),
        *(check_job_variables(job.variables) if job.ranks else ()),
    ]
    return findings if is_alone else [*findings, *_check_network(job, report, tool)]


def _check_network(job: JobDraft, report: DeviceReport, tool: HccnTool) -> List[Finding]:
    """Check what ranks need to find each other."""
    ranks = {
        rank: device.physical
        for rank, device in enumerate(job.devices, job.first_rank)
        if device.physical is not None
    }
    product = common_family(device for device in report if device.physical_id in ranks.values())
    findings = list(check_hccl_variables(job.variables, product))
    table = None
    leaves_server: Optional[bool] = job.size > len(job.devices)
    if job.rank_table is not None:
        read = read_table(job.rank_table, product, job.variables)
        findings += read.findings
        table, leaves_server = read.table, read.leaves_server
        if table is not None:
            findings += check_table(table, report, ranks, job.size or None)
    if may_have_interfaces(product):
        known = {
            int(device.physical_id): device.address
            for device in report
            if device.physical_id is not None
        }
        addresses = {int(device): known.get(int(device)) for device in ranks.values()}
        interfaces = Interfaces(addresses, tool)
        need = find_need(product, leaves_server, table, job.variables)
        findings += interfaces.check_links(need)
        findings += interfaces.check_addresses(need)
    return [*findings, *check_ports(job.variables, job.physical)]


def check_and_wait(
    job: JobDraft, before: List[Finding], say: Optional[Callable[[str], None]]
) -> List[Finding]:
    """Check the devices, and wait for them if the options ask for that.

    Nobody waits for a job that something else stands in the way of.

    Args:
        job: The job.
        before: What earlier checks have found.
        say: Takes a sentence about who is waited for; None means that it is logged.

    Raises:
        DeviceTimeoutError: If the devices are still held when the time is over.
    """
    config = job.request.config
    findings = [*before, *(check_host(job, say) if config.preflight else ())]
    in_the_way = {finding.rule for finding in errors_of(findings)}
    if not config.wait_for_devices or in_the_way - set(_PASSING):
        return findings
    if config.preflight and not in_the_way:
        return findings
    ids = [int(device.logical) for device in job.devices]
    until = time.monotonic() + config.wait_for_devices
    await_free(ids, config.wait_for_devices, job.request.environ, say)
    if not in_the_way:
        return findings
    # Who ends lets go of devices and ports one after the other.
    left_s = max(until - time.monotonic(), 0)

    def describe_ports() -> str:
        taken = errors_of(check_ports(job.variables, job.physical))
        return " ".join(finding.message for finding in taken).rstrip(".")

    await_gone(describe_ports, left_s, say)
    return [*before, *check_host(job, say)]


def check_free_again(
    planned: Plan, say: Callable[[str], None], sleep: Callable[[float], None]
) -> None:
    """Check before another attempt that the devices are free, or wait if the options say so.

    Raises:
        DeviceTimeoutError: If they were waited for and are still held.
        PreflightError: If they are held.
    """
    config, environ = planned.config, planned.environ
    ids = [int(rank.device_id) for rank in planned.ranks]
    if config.wait_for_devices:
        await_free(ids, config.wait_for_devices, environ, say, sleep)
    elif config.preflight:
        held = errors_of(check_holders(find_holders(ids, environ)))
        if held:
            message = " ".join(finding.message for finding in held)
            raise PreflightError(message, hint=held[0].hint, findings=held)


_LOOK_EVERY_S = 0.5
_SHORTEST_ANSWER_S = 1.0  # that npu-smi is given in any case


def note_held_devices(plan: Plan, patience_s: float) -> List[str]:
    """Look who holds the devices of an attempt that is over.

    What this process itself holds does not count.

    Args:
        plan: The attempt.
        patience_s: How long to wait for holders to go; with 0 one look decides.

    Returns:
        A sentence for each device that is held, and one if that cannot be seen; empty if all are
        free.
    """
    environ = plan.environ
    # Not by the plan's logical ids: they shift if a device has dropped off the bus.
    visible = Devices.of(environ)
    numbers = [rank.physical_id for rank in plan.ranks if rank.physical_id is not None]
    ids = {physical: visible.logical(physical) for physical in numbers}
    present = [logical for logical in ids.values() if logical is not None]
    timeout = max(min(TIME_LIMIT, patience_s), _SHORTEST_ANSWER_S)
    look_until_free = tenacity.Retrying(
        stop=tenacity.stop_after_delay(patience_s),
        wait=lambda state: min(
            _LOOK_EVERY_S, max(patience_s - (state.seconds_since_start or 0), 0)
        ),
        retry=tenacity.retry_if_result(lambda seen: not seen.is_free),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    seen: Holders = look_until_free(find_holders, present, environ, timeout)
    notes = [
        f"After the job, {Holders({name: holders}, False, ())}; another job there may fail until "
        "that process has exited."
        for name, holders in seen.held.items()
    ]
    why = []
    if seen.hidden:
        why.append("another container holds a device, which hides who holds the others")
    gone = [f"/dev/davinci{physical}" for physical, logical in ids.items() if logical is None]
    if gone:
        why.append(f"{join_words(gone)} {'has' if len(gone) == 1 else 'have'} disappeared")
    problem = proc_problem(host_root(environ))
    if problem:
        why.append(f"/proc could not be read ({problem}), so only what npu-smi lists is known")
    if why:
        notes.append(f"Whether the job's devices are free could not be checked: {'; '.join(why)}.")
    return notes
