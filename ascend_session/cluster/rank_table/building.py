"""Making tables: from lists of devices, from what is on this host, and from other tables."""

import socket
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ascend_session.cluster.rank_table.contents import V1_0, V1_2, Contents
from ascend_session.cluster.rank_table.parts import TableDevice, TableServer
from ascend_session.cluster.rings import ring_fault
from ascend_session.errors import JobError
from ascend_session.hardware.device import Device
from ascend_session.hardware.families import family as family_of
from ascend_session.hardware.super_pods import SuperPodPlace
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

__all__ = ["Addresses", "from_devices", "from_lists", "merged", "numbered", "training_faults"]

Addresses = Union[str, Sequence[str], None]
"""What stands for the addresses of one device: one, several, or None if they are not known."""

_TRAINING = family_of("910A")
_LONGEST_ID = 64


class Source(NamedTuple):
    """A table to be merged, and what it is called in messages."""

    name: str
    table: Contents


def from_lists(servers: Mapping[str, Mapping[int, Addresses]]) -> Tuple[TableServer, ...]:
    """Servers of ``{server_id: {physical id: address}}``, ranks in the order given.

    Raises:
        JobError: If there is no server, or one without devices, or an id is no physical id.
    """
    if not servers:
        raise JobError("A rank table was asked for, but no server for it.")
    made = []
    for server_id, devices in servers.items():
        if not devices:
            raise JobError(f"Server {server_id!r} has no devices.")
        parts = tuple(
            TableDevice(0, _physical(number), server_id, _several(address))
            for number, address in devices.items()
        )
        made.append(TableServer(server_id, parts))
    return numbered(made)


def from_devices(
    devices: Sequence[Device],
    server_id: Optional[str] = None,
    host_ip: Optional[str] = None,
    place_of: Optional[Callable[[int, int], Optional[SuperPodPlace]]] = None,
) -> Tuple[TableServer, ...]:
    """This host as the one server of a table, ranks in the order of the devices.

    Args:
        devices: What `ascend_session.devices` found.
        server_id: The server's name; that of the host if None.
        host_ip: Its address, if the table is to have it.
        place_of: Says where a card's chip is in its superpod; None for a table without superpods.

    Raises:
        JobError: If there is no device, or one of which nobody says the physical id.
    """
    if not devices:
        raise JobError("There is no Ascend device here to put into a rank table.")
    name = socket.gethostname()[:_LONGEST_ID] if server_id is None else server_id
    parts, pods = [], []
    for device in devices:
        if device.physical_id is None:
            raise JobError(
                f"Which /dev/davinci<N> card {device.npu_id}, chip {device.chip_id} is cannot be "
                "told, and a rank table goes by N.",
                hint="`ascend-session devices` shows what is known.",
            )
        place = _place(device, place_of)
        made = TableDevice(0, device.physical_id, name, _several(device.address), host_ip)
        parts.append(made if place is None else made._replace(super_device_id=place.device))
        pods += [] if place is None else [place.pod]
    pod = pods[0] if pods and len(set(pods)) == 1 else None
    return numbered([TableServer(name, tuple(parts), host_ip, pod)])


def _place(
    device: Device, place_of: Optional[Callable[[int, int], Optional[SuperPodPlace]]]
) -> Optional[SuperPodPlace]:
    if place_of is None or device.npu_id is None or device.chip_id is None:
        return None
    return place_of(device.npu_id, device.chip_id)


def merged(sources: Sequence[Source]) -> Tuple[str, Tuple[TableServer, ...]]:
    """The servers of several tables, one table after the other, with new ranks.

    Returns:
        The format, ``1.2`` if all of them have it and else ``1.0``, and the servers.

    Raises:
        JobError: If two of them name the same server.
    """
    owners: Dict[str, str] = {}
    found: List[TableServer] = []
    for name, table in sources:
        servers = sorted(table.servers, key=lambda one: min(d.rank_id for d in one.devices))
        for server in servers:
            if server.server_id in owners:
                raise JobError(
                    f"{owners[server.server_id]} and {name} both have a server "
                    f"{server.server_id!r}, so that it is not clear whether they are one.",
                    hint="Make one of them again with another --server-id.",
                )
            owners[server.server_id] = name
            found.append(server)
    is_pods = all(table.format == V1_2 for _, table in sources)
    return V1_2 if is_pods else V1_0, numbered(found)


def numbered(servers: Sequence[TableServer]) -> Tuple[TableServer, ...]:
    """The servers with ranks that follow each other, in the order of those they had."""
    made, rank = [], 0
    for server in servers:
        devices = []
        for device in sorted(server.devices, key=lambda one: one.rank_id):
            devices.append(
                device._replace(
                    rank_id=rank, server_id=server.server_id, host_ip=server.host_ip, pod_name=None
                )
            )
            rank += 1
        made.append(server._replace(devices=tuple(devices)))
    return tuple(made)


def training_faults(servers: Sequence[TableServer], family: Optional[str]) -> List[str]:
    """Why no table of these devices is made for the Atlas training series without being asked to.

    HCCL takes such tables. The manual does not: devices of both rings are slow or do not work, and
    a device without its address does not find the others (launch_facts.md, A2 rule 10 and A5).
    """
    if family != _TRAINING:
        return []
    faults = []
    for server in servers:
        fault = ring_fault([int(one.device_id) for one in server.devices])
        faults += [f"Server {server.server_id!r}: {fault}"] if fault else []
        unknown = [str(one.device_id) for one in server.devices if not one.device_ip]
        if unknown:
            faults.append(
                f"Server {server.server_id!r}: the address of device {', '.join(unknown)} is not "
                f"known, which {family} needs; /etc/hccn.conf and hccn_tool do not say it."
            )
    return faults


def _physical(number: int) -> PhysicalDeviceId:
    if isinstance(number, LogicalDeviceId):
        raise JobError(
            f"{number!r} is logical; a rank table has physical ids, the N of /dev/davinciN.",
            hint="`ascend-session devices` shows both.",
        )
    try:
        made: PhysicalDeviceId = PhysicalDeviceId(number)
    except (TypeError, ValueError):
        raise JobError(f"{number!r} is no physical id of a device, which is 0 or more.") from None
    return made


def _several(addresses: Addresses) -> Tuple[str, ...]:
    if addresses is None:
        return ()
    return (addresses,) if isinstance(addresses, str) else tuple(addresses)
