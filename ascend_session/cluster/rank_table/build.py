"""Making tables: from lists of devices, from what is on this host, and from other tables.

A table is written under another name and renamed, for HCCL fails at once on half a table.
"""

import json
import socket
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ascend_session.cluster.rank_table.contents import (
    V1_0,
    V1_2,
    Contents,
    TableDevice,
    TableServer,
)
from ascend_session.cluster.rank_table.source import find_name_fault
from ascend_session.cluster.rings import find_ring_fault
from ascend_session.errors import JobError
from ascend_session.hardware.devices import Device
from ascend_session.hardware.families import family as family_of
from ascend_session.hardware.npu_smi import SuperPodPlace
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

Addresses = Union[str, Sequence[str], None]
"""What stands for the addresses of one device: one, several, or None if they are not known."""

_TRAINING = family_of("910A")
_LONGEST_ID = 64
_MOST_NAMED = 3
_to_json = json.JSONEncoder(ensure_ascii=False).encode

_PlaceOf = Callable[[int, int], Optional[SuperPodPlace]]


class NamedTable(NamedTuple):
    """A table to be merged, and what it is called in messages."""

    name: str
    table: Contents


def build_from_lists(servers: Mapping[str, Mapping[int, Addresses]]) -> Tuple[TableServer, ...]:
    """Build servers of ``{server_id: {physical id: address}}``, ranks in the order given.

    Raises:
        JobError: If there is no server, or one without devices, or an id is no physical id.
    """
    if not servers:
        raise JobError("A rank table was asked for, but no server for it.")
    built = []
    for server_id, devices in servers.items():
        if not devices:
            raise JobError(f"Server {server_id!r} has no devices.")
        table_devices = [
            TableDevice(0, _check_physical(number), server_id, _list_addresses(addresses))
            for number, addresses in devices.items()
        ]
        built.append(TableServer(server_id, tuple(table_devices)))
    return number_ranks(built)


def build_from_devices(
    devices: Sequence[Device],
    server_id: Optional[str] = None,
    host_ip: Optional[str] = None,
    place_of: Optional[_PlaceOf] = None,
) -> Tuple[TableServer, ...]:
    """Build this host as the one server of a table, ranks in the order of the devices.

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
    table_devices, pods = [], set()
    for device in devices:
        if device.physical_id is None:
            raise JobError(
                f"Which /dev/davinci<N> card {device.npu_id}, chip {device.chip_id} is cannot be "
                "told, and a rank table goes by N.",
                hint="`ascend-session devices` shows what is known.",
            )
        addresses = _list_addresses(device.address)
        table_device = TableDevice(0, device.physical_id, name, addresses, host_ip)
        if place_of is not None and device.npu_id is not None and device.chip_id is not None:
            place = place_of(device.npu_id, device.chip_id)
            if place is not None:
                table_device = table_device._replace(super_device_id=place.device)
                pods.add(place.pod)
        table_devices.append(table_device)
    pod = pods.pop() if len(pods) == 1 else None
    return number_ranks([TableServer(name, tuple(table_devices), host_ip, pod)])


def merge_servers(tables: Sequence[NamedTable]) -> Tuple[str, Tuple[TableServer, ...]]:
    """Merge the servers of several tables, one table after the other, with new ranks.

    Returns:
        The format, ``1.2`` if all of them have it and else ``1.0``, and the servers.

    Raises:
        JobError: If two of them name the same server.
    """
    owners: Dict[str, str] = {}
    servers: List[TableServer] = []
    for name, table in tables:
        for server in sorted(table.servers, key=lambda s: min(d.rank_id for d in s.devices)):
            if server.server_id in owners:
                raise JobError(
                    f"{owners[server.server_id]} and {name} both have a server "
                    f"{server.server_id!r}, so that it is not clear whether they are one.",
                    hint="Make one of them again with another --server-id.",
                )
            owners[server.server_id] = name
            servers.append(server)
    with_pods = all(table.format == V1_2 for _, table in tables)
    return V1_2 if with_pods else V1_0, number_ranks(servers)


def number_ranks(servers: Sequence[TableServer]) -> Tuple[TableServer, ...]:
    """Give the devices of the servers ranks that follow each other, in the order they had."""
    numbered, rank = [], 0
    for server in servers:
        devices = []
        for device in sorted(server.devices, key=lambda device: device.rank_id):
            devices.append(
                device._replace(
                    rank_id=rank, server_id=server.server_id, host_ip=server.host_ip, pod_name=None
                )
            )
            rank += 1
        numbered.append(server._replace(devices=tuple(devices)))
    return tuple(numbered)


def find_training_faults(servers: Sequence[TableServer], family: Optional[str]) -> List[str]:
    """Say why no table of these devices is made for the Atlas training series without force.

    HCCL takes such tables. The manual does not: devices of both rings are slow or do not work, and
    a device without its address does not find the others.
    """
    if family != _TRAINING:
        return []
    faults = []
    for server in servers:
        fault = find_ring_fault([int(device.device_id) for device in server.devices])
        if fault:
            faults.append(f"Server {server.server_id!r}: {fault}")
        unknown = [str(device.device_id) for device in server.devices if not device.device_ip]
        if unknown:
            faults.append(
                f"Server {server.server_id!r}: the address of device {', '.join(unknown)} is not "
                f"known, which {family} needs; /etc/hccn.conf and hccn_tool do not say it."
            )
    return faults


def _check_physical(number: int) -> PhysicalDeviceId:
    if isinstance(number, LogicalDeviceId):
        raise JobError(
            f"{number!r} is logical; a rank table has physical ids, the N of /dev/davinciN.",
            hint="`ascend-session devices` shows both.",
        )
    try:
        physical: PhysicalDeviceId = PhysicalDeviceId(number)
    except (TypeError, ValueError):
        raise JobError(f"{number!r} is no physical id of a device, which is 0 or more.") from None
    return physical


def _list_addresses(addresses: Addresses) -> Tuple[str, ...]:
    if addresses is None:
        return ()
    return (addresses,) if isinstance(addresses, str) else tuple(addresses)


def format_table(table: Contents, version: str) -> str:
    """Format a table as JSON text, one device on a line.

    Raises:
        JobError: If ``version`` is not 1.0 or 1.2, or the table has not what 1.2 needs.
    """
    if version not in (V1_0, V1_2):
        raise JobError(
            f"version={version!r}: rank tables are written in version 1.0 or 1.2.",
            hint='Write "1.2" for A3 with superpods, "1.0" for all else.',
        )
    with_pods = version == V1_2
    if with_pods:
        _check_pods(table)
    head = {"version": version, "status": table.status, "server_count": str(len(table.servers))}
    lines = ["{", *(f"  {_to_json(key)}: {_to_json(value)}," for key, value in head.items())]
    servers = []
    for server in table.servers:
        fields = {"server_id": server.server_id}
        if server.host_ip:
            fields["host_ip"] = server.host_ip
        devices = [_to_json(_device_fields(device, with_pods)) for device in server.devices]
        servers.append(_format_list(fields, "device", devices))
    lines += ['  "server_list": [', ",\n".join(servers), "  ]"]
    if with_pods:
        ids: Dict[str, List[str]] = {}
        for server in table.servers:
            ids.setdefault(server.super_pod_id or "", []).append(server.server_id)
        pods = [
            _format_list(
                {"super_pod_id": pod_id},
                "server_list",
                [_to_json({"server_id": i}) for i in of_pod],
            )
            for pod_id, of_pod in ids.items()
        ]
        lines[-1] += ","
        lines += ['  "super_pod_list": [', ",\n".join(pods), "  ]"]
    return "\n".join([*lines, "}", ""])


def _format_list(fields: Dict[str, str], key: str, items: Sequence[str]) -> str:
    """Format an object, with its last field a list of one item on a line."""
    listed = ",\n".join(f"      {item}" for item in items)
    return f'    {_to_json(fields)[:-1]}, "{key}": [\n{listed}\n    ]}}'


def _device_fields(device: TableDevice, with_pods: bool) -> Dict[str, str]:
    """Give the fields of a device that are known, in the order of the manual."""
    fields = {
        "device_id": device.device_id,
        "super_device_id": device.super_device_id if with_pods else None,
        "device_ip": ",".join(device.device_ip) or None,
        "device_port": device.device_port,
        "device_vnic_port": device.device_vnic_port,
        "backup_device_ip": ",".join(device.backup_device_ip) or None,
        "backup_device_port": device.backup_device_port,
        "host_port": device.host_port,
        "net_position": device.net_position,
        "net_protocol": device.net_protocol,
        "rank_id": device.rank_id,
    }
    return {key: str(value) for key, value in fields.items() if value is not None}


def _check_pods(table: Contents) -> None:
    without_pod = [server.server_id for server in table.servers if not server.super_pod_id]
    without_id = [f"rank {d.rank_id}" for d in table.devices if d.super_device_id is None]
    missing = []
    if without_pod:
        missing.append(f"the superpod (super_pod_id) of server {_name_some(without_pod)}")
    if without_id:
        missing.append(f"the super_device_id of {_name_some(without_id)}")
    if missing:
        raise JobError(
            f"Version 1.2 needs {' and '.join(missing)}.",
            hint="`npu-smi info -t spod-info -i <id> -c <chip>` says both, as Super Pod ID and "
            "SDID. Without superpods, version 1.0 is the one to write.",
        )


def _name_some(names: List[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def write_table(path: str, text: str, force: bool = False) -> None:
    """Write a file so that whoever opens it sees all of it, or what was there before.

    Args:
        path: Its name; a link is followed.
        text: What goes into it.
        force: Whether a file that is there may be replaced; its permissions are kept.

    Raises:
        JobError: If HCCL takes no table of that name, if there is a file already, or if it cannot
            be written. Nothing is left behind then.
    """
    fault = find_name_fault(path)
    if fault:
        raise JobError(f"{path}: {fault}", hint="Name it hccl.json, for example.")
    # A table is written seldom, and this loads all kinds of files.
    from ascend_session.option_files.source import Kind, write_content

    write_content(path, text.encode(), Kind("a rank table", "HCCL", JobError), force)
