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
    Findings,
    TableFinding,
)
from ascend_session.cluster.rank_table.parts import TableDevice
from ascend_session.cluster.rank_table.values import packed
from ascend_session.hardware.device import Device, DeviceReport
from ascend_session.ids import PhysicalDeviceId

__all__ = ["Own", "check_host", "host_names", "own_server"]

_FACTS = "launch_facts A2 rule 6"


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
        _check_devices(table, own.place, report, found)
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


def _check_devices(table: Contents, own: int, report: DeviceReport, found: Findings) -> None:
    there: Dict[int, Device] = {
        int(device.physical_id): device for device in report if device.physical_id is not None
    }
    for index, device in enumerate(table.servers[own].devices):
        place, here = table.place((own, index), "device_id"), there.get(int(device.device_id))
        if here is None:
            nodes = ", ".join(map(str, sorted(there)))
            said = f"is {device.device_id}, but this host has {nodes or 'no device'}."
            found.add(ERROR, "no node", place, said, None, _FACTS)
            continue
        if here.logical_id is None:
            said = f"is {device.device_id}, which no process here can open. {' '.join(here.notes)}"
            found.add(ERROR, "hidden", place, said.strip(), None, _FACTS)
        _check_address(table.place((own, index), "device_ip"), device, here, found)


def _check_address(path: str, device: TableDevice, here: Device, found: Findings) -> None:
    if not device.device_ip:
        return
    if here.address is None:
        said = "The address of device {} is not known here, so that the table's was not compared."
        found.add(UNCHECKED, "address", path, said.format(device.device_id))
    elif packed(here.address) not in map(packed, device.device_ip):
        said = f"is {','.join(device.device_ip)}, but device {device.device_id} has {here.address}."
        hint = "Make the table anew, or set the card's address with hccn_tool."
        found.add(ERROR, "address", path, said, hint, "launch_facts E, EJ0004")
