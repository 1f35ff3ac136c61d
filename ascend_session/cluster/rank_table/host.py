"""Find the server of a rank table that is this host, and check that the table fits the host."""

import hashlib
import socket
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.kubernetes import find_pod_names
from ascend_session.cluster.machine import is_address
from ascend_session.cluster.rank_table.contents import COMPLETED, Contents, TableDevice
from ascend_session.cluster.rank_table.fields import pack_address
from ascend_session.cluster.rank_table.formats import parse_table
from ascend_session.cluster.rank_table.rules import make_finding, tidy_findings
from ascend_session.cluster.rank_table.table import RankTable
from ascend_session.cluster.rank_table.table_file import read_text
from ascend_session.errors import JobError
from ascend_session.findings import ERROR, INFO, NOT_CHECKED, WARNING, Finding
from ascend_session.hardware.device_report import Device, DeviceReport
from ascend_session.hardware.families import SERVER_DEVICES
from ascend_session.ids import PhysicalDeviceId
from ascend_session.vendor import A2, A3, address_family


def find_host_names() -> List[str]:
    """List the hostname and the IP addresses of this host, without those of loopback."""
    import psutil

    names = [socket.gethostname()]
    for addresses in psutil.net_if_addrs().values():
        names += [
            each.address.split("%")[0]
            for each in addresses
            if each.family in (socket.AF_INET, socket.AF_INET6)
        ]
    return [name for name in names if name not in ("127.0.0.1", "::1")]


class TableNode(NamedTuple):
    """A server of a table.

    Attributes:
        name: Its server_id.
        address: Its IP address; empty if the table does not have it.
        devices: Its devices, in order of rank.
        evidence: Why this node is this host, as in ``10.0.0.7 is POD_IP``; empty if it may not be.
    """

    name: str
    address: str
    devices: Tuple[TableDevice, ...]
    evidence: str

    @property
    def first_rank(self) -> int:
        """Its lowest rank."""
        return self.devices[0].rank_id


class TableNodes(NamedTuple):
    """The nodes of a table.

    Attributes:
        nodes: In the order of their ranks.
        own: The index of this node; None if it is not known.
        job_id: A ``JOB_ID`` that differs between tables.
        path: The table's file.
    """

    nodes: Tuple[TableNode, ...]
    own: Optional[int]
    job_id: str
    path: str

    @property
    def size(self) -> int:
        """The number of ranks."""
        return sum(len(node.devices) for node in self.nodes)


def read_nodes(path: str, environ: Mapping[str, str]) -> TableNodes:
    """Read the nodes of a table, and find out which one this host is.

    Raises:
        JobError: If HCCL refuses the table, if it is not completed, or if the ranks of a node are
            not consecutive.
    """
    table = RankTable.read(path)
    if table.status != COMPLETED:
        raise JobError(
            f"{path} is not completed: its status is {table.status!r}. HCCL would wait for 1800 s "
            "in silence.",
            hint=f"`ascend-session ranktable check --wait 10m {path}` waits until it is completed.",
            findings=table.problems(),
        )
    return find_nodes(table, environ)


def find_nodes(table: RankTable, environ: Mapping[str, str]) -> TableNodes:
    """List the nodes of a parsed table, and find out which one this host is.

    Raises:
        JobError: If HCCL refuses the table, or if the ranks of a node are not consecutive.
    """
    path = table.name
    table.check()
    names = dict.fromkeys(find_host_names(), "a name or address of this host")
    names.update(find_pod_names(environ))
    nodes = []
    for name, devices in _group_devices(table).items():
        first = devices[0]
        labels = (name, first.host_ip or "")
        evidence = next((f"{each} is {names[each]}" for each in labels if each in names), "")
        address = first.host_ip or (name if is_address(name) else "")
        nodes.append(TableNode(name, address, tuple(devices), evidence))
    nodes.sort(key=lambda node: node.first_rank)
    for node in nodes:
        ranks = [device.rank_id for device in node.devices]
        if ranks != list(range(node.first_rank, node.first_rank + len(ranks))):
            raise JobError(
                f"{path}: {node.name} has the ranks {', '.join(map(str, ranks))}, which do not "
                "follow each other; one launcher starts ranks that do.",
                hint="`ascend-session ranktable make` numbers them server by server.",
            )
    here = [number for number, node in enumerate(nodes) if node.evidence]
    here = here or ([0] if len(nodes) == 1 else [])
    text = repr([tuple(node[:3]) for node in nodes])
    job_id = "table_" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return TableNodes(tuple(nodes), here[0] if len(here) == 1 else None, job_id, path)


def may_have_several_nodes(path: str) -> bool:
    """Return whether a table that `read_nodes` refuses lists several nodes."""
    try:
        contents = parse_table(path, read_text(path))
    except JobError:
        return False
    return len(contents.servers) > 1


def _group_devices(table: Contents) -> Dict[str, List[TableDevice]]:
    groups: Dict[str, List[TableDevice]] = {}
    for device in table.devices:
        groups.setdefault(device.server_id, []).append(device)
    return groups


def check_host(
    table: Contents,
    report: DeviceReport,
    names: Sequence[str],
    opened: Optional[Mapping[int, PhysicalDeviceId]] = None,
) -> List[Finding]:
    """Check that a table fits the host.

    Args:
        table: The table.
        report: The devices of the host, from `ascend_session.devices`.
        names: The names and addresses of the host, from `find_host_names`.
        opened: The physical id that each rank of this host will open; None if unknown. Devices of
            other ranks are not checked, because another pod on this host may have them.
    """
    findings = [] if opened is None else [*_check_opened(table, opened)]
    index, reason = _find_server_here(table, report, names)
    if not report.devices:
        message = "There is no Ascend device here to compare the table with."
        findings.append(make_finding(NOT_CHECKED, "no device", "", message))
    elif index is None:
        message = f"This host was not found in the table: {reason}."
        findings.append(make_finding(NOT_CHECKED, "no server", "", message))
    else:
        server = table.servers[index].server_id
        message = f"This host is server {server!r} of the table: {reason}."
        findings.append(make_finding(INFO, "server", "", message))
        findings += _check_devices(table, index, report, opened)
    return tidy_findings(findings)


def _find_server_here(
    table: Contents, report: DeviceReport, names: Sequence[str]
) -> Tuple[Optional[int], str]:
    """Find the host's server by its names, otherwise by the addresses of its devices.

    Returns:
        Its index or None; and the evidence, or the reason for None.
    """
    for index, server in enumerate(table.servers):
        for name in (server.server_id, server.host_ip):
            if name in names:
                return index, f"{name} is this host"
    addresses = {pack_address(device.address) for device in report if device.address}
    for index, server in enumerate(table.servers):
        for device in server.devices:
            if any(pack_address(address) in addresses for address in device.device_ip):
                return index, f"{device.device_ip[0]} is an address of a device of this host"
    if len(table.servers) == 1:
        return 0, "the table has one server only"
    return None, "no server_id, host_ip or device_ip in it is one of this host's"


def _check_opened(table: Contents, opened: Mapping[int, PhysicalDeviceId]) -> Iterator[Finding]:
    """Check that each rank opens the device of the table; HCCL refuses another one."""
    devices = {device.rank_id: (spot, device) for spot, device in table.iterate()}
    for rank, physical in sorted(opened.items()):
        if rank not in devices:
            message = f"Rank {rank} would run, but the table has ranks 0 to {table.size - 1}."
            yield make_finding(ERROR, "no rank", "", message, "Make a new table.")
            continue
        spot, device = devices[rank]
        if int(device.device_id) != int(physical):
            message = f"is {device.device_id}, but rank {rank} opens the physical device "
            message += f"{physical}."
            hint = "Name the devices in the order of the table, or make a new table."
            yield make_finding(ERROR, "opened", table.locate(spot, "device_id"), message, hint)


def _check_devices(
    table: Contents,
    server: int,
    report: DeviceReport,
    opened: Optional[Mapping[int, PhysicalDeviceId]],
) -> Iterator[Finding]:
    """Check that the server's devices are here, can be opened, and have these addresses."""
    present = {int(each.physical_id): each for each in report if each.physical_id is not None}
    for index, device in enumerate(table.servers[server].devices):
        if opened is not None and device.rank_id not in opened:
            continue
        place = table.locate((server, index), "device_id")
        here = present.get(int(device.device_id))
        if here is None:
            nodes = ", ".join(map(str, sorted(present))) or "no device"
            message = f"is {device.device_id}, but this host has {nodes}."
            yield make_finding(ERROR, "no node", place, message)
            continue
        if here.logical_id is None:
            message = f"is {device.device_id}, which no process here can open. "
            message += " ".join(here.notes)
            yield make_finding(ERROR, "hidden", place, message.strip())
        yield from _check_super_device_id(
            table.locate((server, index), "super_device_id"), device, here, report
        )
        if device.device_ip:
            place = table.locate((server, index), "device_ip")
            is_used = _uses_device_addresses(table, here.family)
            yield from _check_address(place, device, here, report, is_used)


def _check_super_device_id(
    place: str, device: TableDevice, here: Device, report: DeviceReport
) -> Iterator[Finding]:
    """Check that the number in the superpod is the card's own; HCCL refuses another one.

    Source: HCOMM, CheckSuperDeviceId in hccl_communicator_attrs.cc.
    """
    ask, npu_id, chip_id = report.ask_super_pod, here.npu_id, here.chip_id
    if device.super_device_id is None or here.family != A3:
        return
    if ask is None or npu_id is None or chip_id is None:
        return
    answer = ask(npu_id, chip_id)
    if answer and answer[0] != device.super_device_id:
        message = f"is {device.super_device_id}, but npu-smi reports {answer[0]} of device "
        message += f"{device.device_id}; HCCL refuses another number than the card's."
        yield make_finding(ERROR, "own sdid", place, message, "Make a new table.")


def _uses_device_addresses(table: Contents, family: Optional[str]) -> bool:
    """Return whether the job's ranks connect by the addresses of devices.

    They do not inside one mesh or one superpod. Source: HCOMM, HcclCommunicator::IsNeedNicInit.
    """
    if family == A3:
        pods = {server.super_pod_id for server in table.servers}
        return len(table.servers) > 1 and (len(pods) > 1 or None in pods)
    if family == A2:
        meshes = {int(device.device_id) // SERVER_DEVICES for device in table.devices}
        return len(table.servers) > 1 or len(meshes) > 1
    return True


def _check_address(
    place: str, device: TableDevice, here: Device, report: DeviceReport, is_used: bool
) -> Iterator[Finding]:
    """Check that a device has the table's address; ask the card, as /etc/hccn.conf may be old."""
    number, listed = device.device_id, ",".join(device.device_ip)
    packed = set(map(pack_address, device.device_ip))
    if here.address is None:
        message = f"The address of device {number} is not known here, so that the table's was not "
        yield make_finding(NOT_CHECKED, "address", place, f"{message}compared.")
        return
    if pack_address(here.address) in packed:
        return
    address, source, severity = here.address, "", ERROR
    if report.ask_address is not None:
        answer = report.ask_address(int(number))
        if answer:
            address, source = answer, ", as hccn_tool says"
        else:
            source, severity = ", as /etc/hccn.conf says; hccn_tool does not answer", WARNING
    if pack_address(address) in packed:
        return
    if address_family(address) not in map(address_family, device.device_ip):
        message = f"is {listed}, and of device {number} only {address} is known, which is of the "
        message += "other kind (IPv4, IPv6)."
        yield make_finding(NOT_CHECKED, "kind of address", place, message)
        return
    message = f"is {listed}, but device {number} has {address}{source}."
    if not is_used:
        message += " This job does not use it, unless HCCL_INTRA_ROCE_ENABLE=1."
        severity = WARNING
    hint = "Make a new table, or set the card's address with hccn_tool."
    yield make_finding(severity, "address", place, message, hint)
