"""What is looked at where there are devices, and what is said where there are none."""

import platform
import socket
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.checks.environment import check_visible
from ascend_session.checks.finding import ERROR, INFO, NOT_CHECKED, WARNING, Finding, listed
from ascend_session.checks.health import check_health
from ascend_session.checks.holders import Seen, check_holders
from ascend_session.checks.network import Interfaces, may_have_interfaces, need_addresses
from ascend_session.checks.nodes import check_nodes
from ascend_session.checks.operators import check_operators
from ascend_session.checks.ports import check_ports
from ascend_session.checks.tables import Read, check_ranks, read_table
from ascend_session.checks.toolkit import check_installed, check_sourced, check_versions
from ascend_session.cluster.rank_table import RankTable, TableServer
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
    timeout: float,
) -> List[Finding]:
    """Everything about the devices of this host, whoever is to use them.

    Args:
        environ: The environment to go by.
        root: Root of the host.
        report: What was seen of the machine.
        rank_table: A rank table to compare with the devices; None for none.
        timeout: Seconds that one answer of ``hccn_tool`` may take.
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
    found += _network(environ, root, report, rank_table, timeout)
    found += check_ports(environ)
    found += [*check_installed(versions), *check_versions(versions, root, _machine(root))]
    found += [*check_sourced(environ, root), *check_operators(environ, root)]
    return found


def _machine(root: str) -> Optional[str]:
    """The kind of processor; None where another machine's files are looked at."""
    return platform.machine() if root == "/" else None


def _network(
    environ: Mapping[str, str],
    root: str,
    report: DeviceReport,
    rank_table: Optional[str],
    timeout: float,
) -> List[Finding]:
    devices = [
        one for one in report if one.physical_id is not None and may_have_interfaces(one.family)
    ]
    physical = [one.physical_id for one in devices if one.physical_id is not None]
    families = {one.family for one in devices}
    product = next(iter(families)) if len(families) == 1 else None
    read = Read(None, ())
    found: List[Finding] = []
    named: Dict[int, Tuple[str, ...]] = {}
    if rank_table is not None:
        read = read_table(rank_table, product, environ)
        found += read.findings
    if read.table is not None:
        addresses = {int(one.physical_id or 0): one.address for one in devices}
        found_here, named = _compared(read.table, addresses, processor_nodes(root))
        found += found_here
    if not physical:
        return found
    interfaces = Interfaces(physical, root, HccnTool(environ, root, timeout))
    found += interfaces.check_links(read.leaves_server)
    found += interfaces.check_addresses(named, need_addresses(product, read.leaves_server))
    found += interfaces.check_tls()
    return found


def _compared(
    table: RankTable, addresses: Mapping[int, Optional[str]], nodes: Sequence[int]
) -> Tuple[List[Finding], Dict[int, Tuple[str, ...]]]:
    """What a table says of this server, and the addresses that it has for its devices."""
    server = _own(table, addresses)
    if server is None:
        said = (
            f"Which of the {len(table.servers)} servers of the rank table this one is cannot be "
            "told: none has the address of a card here or of this host."
        )
        return [Finding("rank table", NOT_CHECKED, said)], {}
    missing = [int(one.device_id) for one in server.devices if int(one.device_id) not in nodes]
    if missing:
        said = f"The rank table gives this server device(s) {listed(missing)}, which have no node."
        hint = "Make the table again; `ascend-session devices` shows the physical ids."
        return [Finding("rank table", ERROR, said, hint)], {}
    ranks = {one.rank_id: int(one.device_id) for one in server.devices}
    named = {int(one.device_id): tuple(one.device_ip) for one in server.devices}
    return list(check_ranks(table, ranks, table.size)), named


def _own(table: RankTable, addresses: Mapping[int, Optional[str]]) -> Optional[TableServer]:
    """The table's entry of this server; None if that cannot be told."""
    if len(table.servers) == 1:
        return table.servers[0]
    cards = {address for address in addresses.values() if address}
    here = {socket.gethostname(), *_host_addresses()}
    for server in table.servers:
        if {server.server_id, server.host_ip} & here:
            return server
        if any(cards & set(device.device_ip) for device in server.devices):
            return server
    return None


def _host_addresses() -> List[str]:
    import psutil

    return [one.address for found in psutil.net_if_addrs().values() for one in found]
