"""Reading version 1.0 and 1.2: ``server_list[].device[]``.

Source: launch_facts.md, A2 and A3 (HCOMM: topoinfo_ranktableConcise.cc).
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ascend_session.cluster.rank_table.fields import Fields, shown
from ascend_session.cluster.rank_table.findings import WARNING
from ascend_session.cluster.rank_table.parts import TableDevice, TableServer
from ascend_session.cluster.rank_table.pods import read_super_pods
from ascend_session.ids import PhysicalDeviceId

__all__ = ["read_concise"]

_LONGEST_ID = 64  # bytes of a server_id

_TOP = ("version", "status", "server_count", "server_list")
_PODS = ("super_pod_list",)
_SERVER = ("server_id", "host_ip", "device")
_DEVICE = (
    "device_id",
    "device_ip",
    "rank_id",
    "device_port",
    "device_vnic_port",
    "backup_device_ip",
    "backup_device_port",
    "host_port",
    "net_position",
    "net_protocol",
)
# Written by generators (launch_facts.md, A2, and their documentation), and read by nobody here.
_OTHER_TOOLS = (
    "container_ip",
    "device_logical_id",
    "hardware_type",
    "host_nic_ip",
    "server_ip",
    "super_device_id",
    "super_pod_list",
)


def read_concise(fields: Fields, table: Mapping[str, Any], version: str) -> List[TableServer]:
    """The servers of a table, in its order; what is wrong is in ``fields``."""
    with_pods = version == "1.2"
    fields.unread(table, _TOP + (_PODS if with_pods else ()), _OTHER_TOOLS, "")
    servers = fields.objects(table, "server_list", "")
    _check_count(fields, table)
    found = [_server(fields, server, place, with_pods) for place, server in servers]
    if with_pods and "super_pod_list" in table:
        pods = read_super_pods(fields, table, {server.server_id for server in found})
        found = [one._replace(super_pod_id=pods.get(one.server_id)) for one in found]
    return found


def _check_count(fields: Fields, table: Mapping[str, Any]) -> None:
    if "server_count" not in table:
        said = "is missing; HCCL counts server_list and warns, the manual wants it."
        fields.found.add(WARNING, "no count", "server_count", said)
        return
    count, servers = fields.number(table, "server_count", ""), table.get("server_list")
    if count is not None and isinstance(servers, list) and count != len(servers):
        said = f"is {count}, but server_list has {len(servers)} servers."
        fields.refuse("count", "server_count", said, f'Write "{len(servers)}".')


def _server(fields: Fields, server: Dict[str, Any], place: str, with_pods: bool) -> TableServer:
    fields.unread(server, _SERVER, _OTHER_TOOLS, place)
    server_id = fields.text(server, "server_id", place)
    if server_id == "":
        fields.refuse("empty server_id", f"{place}.server_id", "is empty; HCCL refuses that.")
    elif server_id and len(server_id.encode()) > _LONGEST_ID:
        said = f"is {shown(server_id)}, longer than {_LONGEST_ID} bytes."
        fields.refuse("long server_id", f"{place}.server_id", said)
    host_ip = fields.addresses(server, "host_ip", place, several=False)
    if server.get("host_ip") == "":
        said = "is empty; HCCL takes an address or nothing."
        fields.refuse("empty host_ip", f"{place}.host_ip", said, "Leave it out.")
    host = host_ip[0] if host_ip else None
    devices = [
        _device(fields, device, path, server_id or "", host, with_pods)
        for path, device in fields.objects(server, "device", place)
    ]
    return TableServer(server_id or "", tuple(one for one in devices if one), host)


def _device(
    fields: Fields,
    device: Dict[str, Any],
    place: str,
    server_id: str,
    host_ip: Optional[str],
    with_pods: bool,
) -> Optional[TableDevice]:
    known = (*_DEVICE, "super_device_id") if with_pods else _DEVICE
    fields.unread(device, known, _OTHER_TOOLS, place)
    rank_id = fields.number(device, "rank_id", place)
    device_id = fields.number(device, "device_id", place)
    # HCCL looks at the virtual port only beside a device_port, and at the backup only where it
    # retries between superpods.
    seldom = fields.lenient()
    made = TableDevice(
        rank_id=rank_id or 0,
        device_id=PhysicalDeviceId(device_id or 0),
        server_id=server_id,
        device_ip=_device_ip(fields, device, place, host_ip),
        host_ip=host_ip,
        super_device_id=_super_device_id(fields, device, place) if with_pods else None,
        device_port=fields.port(device, "device_port", place),
        device_vnic_port=(fields if "device_port" in device else seldom).port(
            device, "device_vnic_port", place
        ),
        backup_device_ip=seldom.addresses(device, "backup_device_ip", place),
        backup_device_port=seldom.port(device, "backup_device_port", place),
        host_port=fields.port(device, "host_port", place),
        net_position=fields.text(device, "net_position", place, needed=False),
        net_protocol=fields.text(device, "net_protocol", place, needed=False),
    )
    if rank_id is None or device_id is None:
        fields.complete = False
        return None
    return made


def _device_ip(
    fields: Fields, device: Dict[str, Any], place: str, host_ip: Optional[str]
) -> Tuple[str, ...]:
    # Beside a host_ip, HCCL takes a device_ip that is no text for none.
    is_text = isinstance(device.get("device_ip"), str)
    reader = fields.lenient() if host_ip is not None and not is_text else fields
    return reader.addresses(device, "device_ip", place)


def _super_device_id(fields: Fields, device: Dict[str, Any], place: str) -> Optional[str]:
    number = fields.number(device, "super_device_id", place, needed=False)
    return None if number is None else str(number)
