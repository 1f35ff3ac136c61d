"""Build the servers of a table from lists or from this host's devices, and format a table."""

import json
import socket
from itertools import count
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ascend_session.cluster.rank_table.contents import (
    V1_0,
    V1_2,
    Contents,
    TableDevice,
    TableServer,
)
from ascend_session.errors import JobError
from ascend_session.hardware.device_report import Device
from ascend_session.hardware.families import find_ring_fault
from ascend_session.hardware.npu_smi import NpuSmi
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.vendor import TRAINING

Addresses = Union[str, Sequence[str], None]
"""The IP addresses of one device: one, several, or None if unknown."""

_LONGEST_ID = 64  # characters of a server_id
_MOST_NAMED = 3  # servers or ranks in a message
_to_json = json.JSONEncoder(ensure_ascii=False).encode


def build_from_lists(servers: Mapping[str, Mapping[int, Addresses]]) -> Tuple[TableServer, ...]:
    """Build servers of ``{server_id: {physical id: address}}``; ranks follow the order given.

    Raises:
        JobError: If there is no server or device, or a value has a wrong type.
    """
    if not servers:
        raise JobError("A rank table needs at least one server; none was given.")
    built = []
    for server_id, devices in servers.items():
        if not devices:
            raise JobError(f"Server {server_id!r} has no devices.")
        if not isinstance(devices, Mapping):
            raise JobError(f"Server {server_id!r} takes {{physical id: address}}, not {devices!r}.")
        table_devices = []
        for number, addresses in devices.items():
            if isinstance(addresses, str):
                addresses = (addresses,)
            physical = _check_physical(number)
            try:
                listed = tuple(addresses or ())
            except TypeError:
                listed = (addresses,)  # type: ignore[assignment]
            if not all(isinstance(address, str) for address in listed):
                raise JobError(
                    f"Device {number} of server {server_id!r} takes its address as text, a list of "
                    f"texts or None, not {addresses!r}."
                )
            table_devices.append(TableDevice(0, physical, server_id, listed))
        built.append(TableServer(server_id, tuple(table_devices)))
    return number_ranks(built)


def build_from_devices(
    devices: Sequence[Device],
    server_id: Optional[str],
    host_ip: Optional[str],
    npu_smi: Optional[NpuSmi],
) -> Tuple[TableServer, ...]:
    """Build this host as the only server of a table.

    Args:
        devices: The devices, in the order of their ranks.
        server_id: Name of the server; None means the hostname.
        host_ip: IP address of the server, if known.
        npu_smi: Answers which superpod a chip is in; None for a table without superpods.

    Raises:
        JobError: If there is no device, or the physical id of one is unknown.
    """
    if not devices:
        raise JobError(
            "This machine has no Ascend device to put into a rank table.",
            hint="Make the table on the servers of the job. A job on the stub needs none.",
        )
    name = socket.gethostname()[:_LONGEST_ID] if server_id is None else server_id
    table_devices, pods = [], set()
    for device in devices:
        if device.physical_id is None:
            raise JobError(
                f"The node /dev/davinci<N> of card {device.npu_id}, chip {device.chip_id} is not "
                "known, and a rank table names devices by N.",
                hint="`ascend-session devices` shows what is known.",
            )
        sdid = None
        if npu_smi is not None and device.npu_id is not None and device.chip_id is not None:
            answer = npu_smi.super_pod(device.npu_id, device.chip_id)
            if answer is not None:
                sdid, pod = answer
                pods.add(pod)
        addresses = () if device.address is None else (device.address,)
        table_devices.append(
            TableDevice(0, device.physical_id, name, addresses, host_ip, super_device_id=sdid)
        )
    pod_id = pods.pop() if len(pods) == 1 else None
    return number_ranks([TableServer(name, tuple(table_devices), host_ip, pod_id)])


def number_ranks(servers: Sequence[TableServer]) -> Tuple[TableServer, ...]:
    """Give the devices consecutive ranks: server by server, inside each in order of rank."""
    numbered, ranks = [], count()
    for server in servers:
        name, host_ip = server.server_id, server.host_ip
        devices = sorted(server.devices, key=lambda device: device.rank_id)
        renumbered = tuple(
            device._replace(rank_id=next(ranks), server_id=name, host_ip=host_ip)
            for device in devices
        )
        numbered.append(server._replace(devices=renumbered))
    return tuple(numbered)


def find_training_faults(servers: Sequence[TableServer], family: Optional[str]) -> List[str]:
    """List, in sentences, why a table needs force on the Atlas training series.

    HCCL accepts such tables, but the manual does not: devices of two rings are slow or do not work,
    and other ranks cannot connect to a device without an address.
    """
    if family != TRAINING:
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
                f"known, which {family} needs; /etc/hccn.conf and hccn_tool do not report it."
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
        raise JobError(f"{number!r} is not a physical device id; those are 0 or more.") from None
    return physical


def format_table(table: Contents, version: str) -> str:
    """Format a table as JSON of version 1.0 or 1.2, one device per line."""
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
    """Format an object whose last field is a list with one item per line."""
    listed = ",\n".join(f"      {item}" for item in items)
    return f'    {_to_json(fields)[:-1]}, "{key}": [\n{listed}\n    ]}}'


def _device_fields(device: TableDevice, with_pods: bool) -> Dict[str, str]:
    """Return the fields of a device that are known, in the order of the manual."""
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
            hint="`npu-smi info -t spod-info -i <id> -c <chip>` shows both, as Super Pod ID and "
            "SDID. Without superpods, write version 1.0.",
        )


def _name_some(names: List[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
