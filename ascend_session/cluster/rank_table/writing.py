"""Writing tables: their text, and a file that is never there in part.

HCCL fails at once on half a table (launch_facts.md, A2 rule 2).
"""

import json
from typing import Dict, Iterable, List

from ascend_session.cluster.rank_table.contents import V1_0, V1_2, Contents
from ascend_session.cluster.rank_table.parts import TableDevice, TableServer
from ascend_session.cluster.rank_table.source import name_fault
from ascend_session.errors import JobError

__all__ = ["text_of", "write_text"]

_MOST_NAMED = 3
_json = json.JSONEncoder(ensure_ascii=False).encode


def text_of(table: Contents, version: str) -> str:
    """The table as JSON text, one device on a line.

    Raises:
        JobError: If ``version`` is not 1.0 or 1.2, or the table has not what 1.2 needs.
    """
    if version not in (V1_0, V1_2):
        raise JobError(
            f"version={version!r}: rank tables are written in version 1.0 or 1.2.",
            hint='Write "1.2" for A3 with superpods, "1.0" for all else.',
        )
    if version == V1_2:
        _check_pods(table)
    servers = ",\n".join(_server(server, version) for server in table.servers)
    head = {"version": version, "status": table.status, "server_count": str(len(table.servers))}
    lines = [f"  {_json(key)}: {_json(value)},\n" for key, value in head.items()]
    tail = f",\n{_super_pods(table)}" if version == V1_2 else ""
    return "".join(["{\n", *lines, f'  "server_list": [\n{servers}\n  ]{tail}\n}}\n'])


def write_text(path: str, text: str, force: bool = False) -> None:
    """Writes a file so that whoever opens it sees all of it, or what was there before.

    Args:
        path: Its name; a link is followed.
        text: What goes into it.
        force: Whether a file that is there may be replaced; its permissions are kept.

    Raises:
        JobError: If HCCL takes no table of that name, if there is a file already, or if it cannot
            be written. Nothing is left behind then.
    """
    fault = name_fault(path)
    if fault:
        raise JobError(f"{path}: {fault}", hint="Name it hccl.json, for example.")
    # A table is written seldom, and this loads all kinds of files.
    from ascend_session.option_files.source import Kind
    from ascend_session.option_files.writing import write_content

    write_content(path, text.encode(), Kind("a rank table", "HCCL", JobError), force)


def _check_pods(table: Contents) -> None:
    outside = [server.server_id for server in table.servers if not server.super_pod_id]
    bare = [f"rank {one.rank_id}" for one in table.devices if one.super_device_id is None]
    missing = []
    if outside:
        missing.append(f"the superpod (super_pod_id) of server {_some(outside)}")
    if bare:
        missing.append(f"the super_device_id of {_some(bare)}")
    if missing:
        raise JobError(
            f"Version 1.2 needs {' and '.join(missing)}.",
            hint="`npu-smi info -t spod-info -i <id> -c <chip>` says both, as Super Pod ID and "
            "SDID. Without superpods, version 1.0 is the one to write.",
        )


def _some(names: List[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _server(server: TableServer, version: str) -> str:
    host = f', "host_ip": {_json(server.host_ip)}' if server.host_ip else ""
    devices = ",\n".join(_device(one, version == V1_2) for one in server.devices)
    named = f'    {{"server_id": {_json(server.server_id)}{host}, "device": ['
    return f"{named}\n{devices}\n    ]}}"


def _device(device: TableDevice, with_pods: bool) -> str:
    """The fields of a device that are known, in the order of the manual."""
    fields = (
        ("device_id", device.device_id),
        ("super_device_id", device.super_device_id if with_pods else None),
        ("device_ip", ",".join(device.device_ip) or None),
        ("device_port", device.device_port),
        ("device_vnic_port", device.device_vnic_port),
        ("backup_device_ip", ",".join(device.backup_device_ip) or None),
        ("backup_device_port", device.backup_device_port),
        ("host_port", device.host_port),
        ("net_position", device.net_position),
        ("net_protocol", device.net_protocol),
        ("rank_id", device.rank_id),
    )
    known = ", ".join(f'"{key}": {_json(str(value))}' for key, value in fields if value is not None)
    return f"      {{{known}}}"


def _super_pods(table: Contents) -> str:
    pods: Dict[str, List[str]] = {}
    for server in table.servers:
        pods.setdefault(server.super_pod_id or "", []).append(server.server_id)
    lines = ",\n".join(_pod(pod_id, servers) for pod_id, servers in pods.items())
    return f'  "super_pod_list": [\n{lines}\n  ]'


def _pod(pod_id: str, servers: Iterable[str]) -> str:
    listed = ",\n".join(f'      {{"server_id": {_json(server_id)}}}' for server_id in servers)
    return f'    {{"super_pod_id": {_json(pod_id)}, "server_list": [\n{listed}\n    ]}}'
