"""What is looked at where there are devices, and what is said where there are none."""

import platform
from typing import List, Mapping, Optional

from ascend_session.checks.environment import check_visible
from ascend_session.checks.finding import ERROR, INFO, WARNING, Finding
from ascend_session.checks.health import check_health
from ascend_session.checks.holders import Seen, check_holders
from ascend_session.checks.network import Interfaces, may_have_interfaces, need_of
from ascend_session.checks.nodes import check_nodes
from ascend_session.checks.operators import check_operators
from ascend_session.checks.ports import check_ports
from ascend_session.checks.tables import check_table, read_table
from ascend_session.checks.toolkit import check_installed, check_sourced, check_versions
from ascend_session.hardware.device import DeviceReport
from ascend_session.hardware.hccn import HccnTool
from ascend_session.hardware.nodes import CONTROL_NODES, processor_nodes
from ascend_session.hardware.versions import read_versions

__all__ = ["on_devices", "without_devices"]

_PASS_IN = "In a container, pass the nodes in with --device; on a host, look at the driver."


def without_devices(environ: Mapping[str, str], root: str, report: DeviceReport) -> List[Finding]:
    """Says what was looked for, and what is there of an Ascend host although no device is."""
    versions = read_versions(environ, root)
    parts = {"a driver": versions.driver, "firmware": versions.firmware}
    there = [f"{name} ({found.path})" for name, found in parts.items() if found]
    there += [f"a toolkit ({toolkit.path})" for toolkit in versions.toolkits]
    said = (
        f"There is no Ascend processor here: no /dev/davinci<N>, where {', '.join(CONTROL_NODES)} "
        "would be too, and no npu-smi that lists one."
    )
    if there:
        said = f"{said} Found are {', '.join(there)}."
        return [Finding("devices", WARNING, said, _PASS_IN)]
    return [
        Finding(
            "devices",
            INFO,
            f"{said} Neither was a driver, firmware or toolkit (CANN) found in /usr/local/Ascend.",
            "The same script runs on the stub, with TensorFlow on the CPU.",
        )
    ]


def on_devices(
    environ: Mapping[str, str],
    root: str,
    report: DeviceReport,
    rank_table: Optional[str],
    tool: HccnTool,
) -> List[Finding]:
    """Everything about the devices of this host, whoever is to use them.

    Args:
        environ: The environment to go by.
        root: Root of the host.
        report: What was seen of the machine.
        rank_table: A rank table to compare with the devices; None for none.
        tool: What has asked ``hccn_tool`` for the cards' addresses.
    """
    nodes = processor_nodes(root)
    versions = read_versions(environ, root)
    found: List[Finding] = []
    if not nodes:
        said = "There is no /dev/davinci<N>: no process here can open a device."
        found.append(Finding("devices", ERROR, said, _PASS_IN))
    unknown = [one for one in report if one.physical_id not in nodes]
    if nodes and unknown:
        said = f"npu-smi lists {len(unknown)} device(s) that have no node /dev/davinci<N> here."
        found.append(Finding("devices", WARNING, said, _PASS_IN))
    found += [*check_nodes(root, nodes), *check_health(report, nodes)]
    found += [*check_holders(Seen.of(report)), *check_visible(environ, len(nodes))]
    found += _network(environ, report, rank_table, tool)
    found += check_ports(environ, [int(node) for node in nodes])
    found += [*check_installed(versions), *check_versions(versions, root, _machine(root))]
    found += [*check_sourced(environ, root), *check_operators(environ, root)]
    return found


def _machine(root: str) -> Optional[str]:
    """The kind of processor; None where another machine's files are looked at."""
    return platform.machine() if root == "/" else None


def _network(
    environ: Mapping[str, str],
    report: DeviceReport,
    rank_table: Optional[str],
    tool: HccnTool,
) -> List[Finding]:
    devices = [one for one in report if may_have_interfaces(one.family)]
    families = {one.family for one in devices}
    product = next(iter(families)) if len(families) == 1 else None
    found: List[Finding] = []
    table = leaves_server = None
    if rank_table is not None:
        read = read_table(rank_table, product, environ)
        found += read.findings
        table, leaves_server = read.table, read.leaves_server
        if table is not None:
            found += check_table(table, report)
    addresses = {
        int(one.physical_id): one.address for one in devices if one.physical_id is not None
    }
    if not addresses:
        return found
    interfaces = Interfaces(addresses, tool)
    need = need_of(product, leaves_server, table, environ)
    found += interfaces.check_links(need)
    found += interfaces.check_addresses(need)
    found += interfaces.check_tls()
    return found
