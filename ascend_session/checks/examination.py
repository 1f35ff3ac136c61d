"""All checks of this host, for ``ascend-session doctor``; no job is started."""

import os
import platform
import sys
from typing import List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.checks.availability import Holders, check_health, check_holders, check_nodes
from ascend_session.checks.environment import (
    FOLDER,
    check_folder,
    check_job_variables,
    check_limits,
    check_visible,
)
from ascend_session.checks.interpreter import Interpreter, check_interpreter, inspect_interpreter
from ascend_session.checks.network import Interfaces, check_ports, find_need, may_have_interfaces
from ascend_session.checks.tables import check_table, read_table
from ascend_session.checks.toolkit import (
    check_installed,
    check_operators,
    check_sourced,
    check_versions,
)
from ascend_session.config.hccl_variables import check_hccl_variables
from ascend_session.findings import ERROR, INFO, WARNING, Finding
from ascend_session.hardware.device_report import DeviceReport, common_family, survey
from ascend_session.hardware.hccn import HccnTool
from ascend_session.hardware.installation import Component, read_versions
from ascend_session.hardware.nodes import host_root, processor_nodes
from ascend_session.hardware.program import TIME_LIMIT
from ascend_session.rank_folder import LOGS_FOLDER

_IMPORTS_S = 120.0  # TensorFlow alone takes 20 s on a slow disk
_ALL_ANSWERS_S = 60.0  # for all answers of hccn_tool together
_UNKNOWN = "-"
_PASS_IN = "In a container, pass the nodes in with --device; on a host, check the driver."


class Examination(NamedTuple):
    """The facts and findings about a host.

    Attributes:
        facts: ``(name, version)`` of machine, driver, toolkit and others; ``-`` if not known.
        findings: The findings of all checks, in the order of the checks.
    """

    facts: Tuple[Tuple[str, str], ...]
    findings: Tuple[Finding, ...]


def examine(
    environ: Mapping[str, str],
    on_npu: bool,
    rank_table: Optional[str] = None,
    log_dir: Optional[str] = None,
    python: Optional[str] = None,
    timeout_s: Optional[float] = None,
    imports_s: Optional[float] = None,
) -> Examination:
    """Run all checks; starts ``npu-smi``, ``hccn_tool`` and a Python, but no job.

    Args:
        environ: The environment to check.
        on_npu: Whether a job would run on Ascend processors here.
        rank_table: The rank table to compare with the devices; None for none.
        log_dir: The folder for logs; None means ``ascend-logs`` in the working directory.
        python: The Python for the ranks; None means this one.
        timeout_s: Seconds that one answer of ``npu-smi`` or ``hccn_tool`` may take; None means 10.
        imports_s: Seconds that Python may take to import TensorFlow and the adapter; None means
            120.
    """
    root = host_root(environ)
    findings: List[Finding] = []
    limit_s = timeout_s or TIME_LIMIT
    tool = HccnTool(environ, root, limit_s, max(_ALL_ANSWERS_S, limit_s))
    report = survey(environ, root, limit_s, tool=tool)
    has_devices = bool(processor_nodes(root) or report.devices or on_npu)
    if has_devices:
        findings += _check_devices(environ, root, report, rank_table, tool)
    else:
        findings.append(_describe_absence(environ, root))
        if rank_table is not None:
            findings += read_table(rank_table, None, environ).findings
    interpreter = inspect_interpreter(
        python or sys.executable or "python3", environ, on_npu, imports_s or _IMPORTS_S
    )
    findings += check_interpreter(interpreter, on_npu)
    findings += check_job_variables(environ)
    findings += check_hccl_variables(environ, common_family(report), is_used=has_devices)
    findings += [*_check_logs(log_dir), *check_limits()]
    return Examination(_list_facts(report, interpreter), tuple(findings))


def _describe_absence(environ: Mapping[str, str], root: str) -> Finding:
    """Report that there is no device, and which software of an Ascend host is installed."""
    versions = read_versions(environ, root)
    parts = {"a driver": versions.driver, "firmware": versions.firmware}
    installed = [f"{name} ({part.path})" for name, part in parts.items() if part]
    installed += [f"a toolkit ({toolkit.path})" for toolkit in versions.toolkits]
    message = (
        "This machine has no Ascend processor: there is no /dev/davinci<N>, and no npu-smi that "
        "lists one."
    )
    if installed:
        message = f"{message} It has {', '.join(installed)}."
        return Finding(WARNING, message, _PASS_IN, rule="devices")
    return Finding(
        INFO,
        f"{message} There is no driver, firmware or toolkit (CANN) in /usr/local/Ascend either.",
        "Scripts run on the stub here, with TensorFlow on the CPU.",
        rule="devices",
    )


def _check_devices(
    environ: Mapping[str, str],
    root: str,
    report: DeviceReport,
    rank_table: Optional[str],
    tool: HccnTool,
) -> List[Finding]:
    nodes = processor_nodes(root)
    findings: List[Finding] = []
    without_node = [device for device in report if device.physical_id not in nodes]
    if not nodes:
        message = "No process can open a device here: there is no /dev/davinci<N>."
        findings.append(Finding(ERROR, message, _PASS_IN, rule="devices"))
    elif without_node:
        count = len(without_node)
        message = f"npu-smi lists {count} device(s) that have no node /dev/davinci<N> here."
        findings.append(Finding(WARNING, message, _PASS_IN, rule="devices"))
    findings += [*check_nodes(root, nodes), *check_health(report, nodes)]
    findings += [*check_holders(Holders.from_report(report)), *check_visible(environ, len(nodes))]
    findings += _check_network(environ, report, rank_table, tool)
    findings += check_ports(environ, [int(node) for node in nodes])
    versions = read_versions(environ, root)
    # The files of another machine do not have to fit this machine's kind of processor.
    machine = platform.machine() if root == "/" else None
    findings += [*check_installed(versions), *check_versions(versions, root, machine)]
    findings += [*check_sourced(environ, root), *check_operators(environ, root)]
    return findings


def _check_network(
    environ: Mapping[str, str], report: DeviceReport, rank_table: Optional[str], tool: HccnTool
) -> List[Finding]:
    """Check the rank table, if there is one, and the network interfaces of the devices."""
    devices = [device for device in report if may_have_interfaces(device.family)]
    product = common_family(devices)
    findings: List[Finding] = []
    table = leaves_server = None
    if rank_table is not None:
        read = read_table(rank_table, product, environ)
        findings += read.findings
        table, leaves_server = read.table, read.leaves_server
        if table is not None:
            findings += check_table(table, report)
    addresses = {
        int(device.physical_id): device.address
        for device in devices
        if device.physical_id is not None
    }
    if not addresses:
        return findings
    interfaces = Interfaces(addresses, tool)
    need = find_need(product, leaves_server, table, environ)
    findings += interfaces.check_links(need)
    findings += interfaces.check_addresses(need)
    findings += interfaces.check_tls()
    return findings


def _check_logs(log_dir: Optional[str]) -> List[Finding]:
    try:
        folder = os.path.abspath(log_dir or LOGS_FOLDER)
    except FileNotFoundError:
        message = "The working directory has been removed."
        return [Finding(ERROR, message, "Change to another folder.", rule=FOLDER)]
    return list(check_folder(folder))


def _list_facts(report: DeviceReport, interpreter: Interpreter) -> Tuple[Tuple[str, str], ...]:
    toolkit = report.toolkits[0] if report.toolkits else None
    adapter = interpreter.versions.get("npu_bridge", _UNKNOWN) or "of an unknown version"
    return (
        ("machine", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("devices", str(len(report))),
        ("driver", _format_version(report.driver)),
        ("firmware", _format_version(report.firmware)),
        ("toolkit", _format_version(toolkit)),
        ("python", f"{interpreter.python or _UNKNOWN} ({interpreter.program})"),
        ("tensorflow", interpreter.versions.get("tensorflow") or _UNKNOWN),
        ("npu_bridge", adapter),
    )


def _format_version(component: Optional[Component]) -> str:
    return _UNKNOWN if component is None else component.version
