"""Rules between a table and the host it is used on.

Source: launch_facts.md, A2 rule 6 (a rank's device_id is the physical id of the device it opens)
and E (EJ0004: the device_ip in the table is not the card's).
"""

import socket
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.rank_table.contents import Contents
from ascend_session.cluster.rank_table.findings import (
    ERROR,
    INFO,
    UNCHECKED,
    WARNING,
    Findings,
    TableFinding,
)
from ascend_session.cluster.rank_table.parts import TableDevice
from ascend_session.cluster.rank_table.values import address_family, packed
from ascend_session.hardware.device import Device, DeviceReport
from ascend_session.hardware.families import family as family_of
from ascend_session.ids import PhysicalDeviceId

__all__ = ["Own", "check_host", "host_names", "own_server"]

_A2, _A3 = family_of("910B"), family_of("910C")
_MESH = 8  # devices of an A2 server that HCCS joins
_FACTS = "launch_facts A2 rule 6"
_OF_FILE = ", as /etc/hccn.conf says; hccn_tool does not answer"


class Own(NamedTuple):
    """Which server of a table a host is.

    Attributes:
        place: Its index in `servers`; None if that cannot be told.
        reason: How it was told, or why not.
    """

    place: Optional[int]
    reason: str


def host_names() -> List[str]:
    """What this host is called: its name, and the addresses of its interfaces."""
    import psutil

    names = [socket.gethostname()]
    for addresses in psutil.net_if_addrs().values():
        names += [
            one.address.split("%")[0]
            for one in addresses
            if one.family in (socket.AF_INET, socket.AF_INET6)
        ]
    return [name for name in names if name not in ("127.0.0.1", "::1")]


def own_server(table: Contents, report: DeviceReport, names: Sequence[str]) -> Own:
    """Which server of the table the host is, by its names, else by its devices' addresses."""
    known = set(names)
    for index, server in enumerate(table.servers):
        for name in (server.server_id, server.host_ip):
            if name in known:
                return Own(index, f"{name} is this host")
    own = {packed(device.address) for device in report if device.address}
    for index, server in enumerate(table.servers):
        for device in server.devices:
            if any(packed(address) in own for address in device.device_ip):
                return Own(index, f"{device.device_ip[0]} is an address of a device of this host")
    if len(table.servers) == 1:
        return Own(0, "the table has one server only")
    return Own(None, "no server_id, host_ip or device_ip of the table is this host's")


def check_host(
    table: Contents,
    report: DeviceReport,
    opened: Optional[Mapping[int, PhysicalDeviceId]] = None,
    names: Optional[Sequence[str]] = None,
) -> Tuple[TableFinding, ...]:
    """Looks at whether the table fits the host.

    Args:
        table: What the table says.
        report: What is on the host, as `ascend_session.devices` found it.
        opened: The physical id that each rank of this host will open; None if that is not known.
            The devices of other ranks are not looked at: another pod on this host may have them.
        names: What the host is called; its own names and addresses if None.
    """
    found = Findings()
    own = own_server(table, report, host_names() if names is None else names)
    if opened is not None:
        _check_opened(table, opened, found)
    if not report.devices:
        said = "There is no Ascend device here to compare the table with."
        found.add(UNCHECKED, "no device", "", said)
    elif own.place is None:
        said = f"Which server of the table this host is cannot be told: {own.reason}."
        found.add(UNCHECKED, "no server", "", said)
    else:
        server = table.servers[own.place].server_id
        said = f"This host is server {server!r} of the table: {own.reason}."
        found.add(INFO, "server", "", said)
        _check_devices(table, own.place, report, opened, found)
    return found.as_tuple()


def _check_opened(table: Contents, opened: Mapping[int, PhysicalDeviceId], found: Findings) -> None:
    """Rule 6: HCCL refuses a rank whose device is not the one in the table."""
    said_by = {device.rank_id: (spot, device) for spot, device in table.placed()}
    for rank, physical in sorted(opened.items()):
        if rank not in said_by:
            said = f"Rank {rank} is to run, but the table has ranks 0 to {table.size - 1}."
            found.add(ERROR, "no rank", "", said, "Make the table anew.", _FACTS)
            continue
        spot, device = said_by[rank]
        if int(device.device_id) != int(physical):
            said = f"is {device.device_id}, but rank {rank} opens the physical device {physical}."
            hint = "Name the devices in the order of the table, or make the table anew."
            found.add(ERROR, "opened", table.place(spot, "device_id"), said, hint, _FACTS)


def _check_devices(
    table: Contents,
    own: int,
    report: DeviceReport,
    opened: Optional[Mapping[int, PhysicalDeviceId]],
    found: Findings,
) -> None:
    there: Dict[int, Device] = {
        int(device.physical_id): device for device in report if device.physical_id is not None
    }
    for index, device in enumerate(table.servers[own].devices):
        if opened is not None and device.rank_id not in opened:
            continue
        place, here = table.place((own, index), "device_id"), there.get(int(device.device_id))
        if here is None:
            nodes = ", ".join(map(str, sorted(there)))
            said = f"is {device.device_id}, but this host has {nodes or 'no device'}."
            found.add(ERROR, "no node", place, said, None, _FACTS)
            continue
        if here.logical_id is None:
            said = f"is {device.device_id}, which no process here can open. {' '.join(here.notes)}"
            found.add(ERROR, "hidden", place, said.strip(), None, _FACTS)
        place = table.place((own, index), "device_ip")
        _check_address(place, device, here, report, _is_used(table, here.family), found)


def _is_used(table: Contents, family: Optional[str]) -> bool:
    """Whether the job's ranks meet at the addresses of devices.

    Source: HCOMM, HcclCommunicator::IsNeedNicInit: not inside one mesh, nor inside one superpod.
    """
    if family == _A3:
        pods = {server.super_pod_id for server in table.servers}
        return len(table.servers) > 1 and (len(pods) > 1 or None in pods)
    if family == _A2:
        meshes = {int(device.device_id) // _MESH for device in table.devices}
        return len(table.servers) > 1 or len(meshes) > 1
    return True


def _check_address(
    path: str,
    device: TableDevice,
    here: Device,
    report: DeviceReport,
    is_used: bool,
    found: Findings,
) -> None:
    if not device.device_ip:
        return
    number, wanted = device.device_id, ",".join(device.device_ip)
    if here.address is None:
        said = f"The address of device {number} is not known here, so that the table's was not "
        found.add(UNCHECKED, "address", path, f"{said}compared.")
        return
    if packed(here.address) in map(packed, device.device_ip):
        return
    address, source, severity = here.address, "", ERROR
    if report.ask_address is not None:
        asked = report.ask_address(int(number))
        address, source = (asked.address, ", as hccn_tool says") if asked else (address, _OF_FILE)
        severity = ERROR if asked else WARNING
    if packed(address) in map(packed, device.device_ip):
        return
    kinds = {address_family(one) for one in device.device_ip}
    if address_family(address) not in kinds:
        said = f"is {wanted}, and of device {number} only {address} is known, which is of the other"
        found.add(UNCHECKED, "kind", path, f"{said} kind (IPv4, IPv6).")
        return
    said = f"is {wanted}, but device {number} has {address}{source}."
    if not is_used:
        said += " This job does not use it, unless HCCL_INTRA_ROCE_ENABLE=1."
        severity = WARNING
    hint = "Make the table anew, or set the card's address with hccn_tool."
    found.add(severity, "address", path, said, hint, "launch_facts E, EJ0004")
