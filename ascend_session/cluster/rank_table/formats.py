"""From a table's JSON to what it says: which format it is, and version 1.0 and 1.2.

The older formats are read by `groups`.

Source: HCOMM, topoinfo_ranktableConcise.cc (GetSingleDevice, GetSingleSuperPod,
GetSingleSuperPodSever), and HCCL's manual on rank tables for what other versions are for.
"""

from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.rank_table.contents import (
    COMPLETED,
    LAB,
    TEMPLATE_2,
    V1_0,
    V1_2,
    Contents,
    TableDevice,
    TableServer,
)
from ascend_session.cluster.rank_table.fields import Fields, describe
from ascend_session.cluster.rank_table.groups import read_lab, read_template_2
from ascend_session.cluster.rank_table.source import parse_json
from ascend_session.errors import JobError
from ascend_session.findings import WARNING, Finding
from ascend_session.ids import PhysicalDeviceId

_OTHER_VERSIONS = {
    "1.1": "jobs of processors and host CPUs together",
    "2.0": "A5 (950), with rank_list and a topology file",
}
_KNOWN_VERSIONS = (
    "Versions 1.0 and 1.2 are read here, and the older formats, which have a group_list and no "
    "version."
)
_LONGEST_SERVER_ID, _LONGEST_POD_ID = 64, 127  # bytes

_TOP = ("version", "status", "server_count", "server_list")
_SERVER = ("server_id", "host_ip", "device")
_DEVICE = frozenset(("device_id", "device_ip", "rank_id"))
_RARE = (
    "device_port",
    "device_vnic_port",
    "backup_device_ip",
    "backup_device_port",
    "host_port",
    "net_position",
    "net_protocol",
)
# Keys that generators of tables write, and HCCL does not read.
_OTHER_TOOLS = ("container_ip", "hardware_type", "host_nic_ip", "server_ip", "super_pod_list")
_OTHER_TOOLS_OF_DEVICE = ("device_logical_id", "server_ip", "super_device_id")


class TableReading(NamedTuple):
    """What was read of a table.

    Attributes:
        contents: What the table says; of fields that were wrong only what is clear.
        findings: What is wrong with the fields.
        is_complete: Whether every device could be read.
    """

    contents: Contents
    findings: List[Finding]
    is_complete: bool


def parse_table(name: str, text: str, super_pods: bool = True) -> TableReading:
    """Parse the text of a table.

    Args:
        name: What messages call it.
        text: The text.
        super_pods: Whether HCCL reads superpods; what is wrong with them is a warning otherwise.

    Raises:
        JobError: If it is no JSON, no object, or of a version that is not read here.
    """
    table, findings = parse_json(name, text)
    if not isinstance(table, dict):
        raise JobError(
            f"{name}: is {describe(table)}; a rank table is an object with status and server_list.",
            hint="`ascend-session ranktable make` makes one.",
        )
    fields = Fields(findings)
    kind, servers = _read_servers(name, fields, table, super_pods)
    status = fields.text(table, "status", "")
    # Without one the table is refused already, and its status is not worth a second sentence.
    contents = Contents(kind, COMPLETED if status is None else status, tuple(servers))
    return TableReading(contents, fields.findings, fields.is_complete)


def _read_servers(
    name: str, fields: Fields, table: Mapping[str, Any], super_pods: bool
) -> Tuple[str, List[TableServer]]:
    """Find out which format a table has, and read its servers."""
    if "version" not in table:
        if "group_list" not in table and "server_list" in table:
            raise JobError(
                f"{name}: has a server_list but no version, so that HCCL reads it as template 2, "
                "and refuses it.",
                hint='Write "version": "1.0".',
            )
        if "deploy_mode" in table:
            return LAB, read_lab(fields, table)
        return TEMPLATE_2, read_template_2(fields, table)
    version = fields.text(table, "version", "")
    if version in _OTHER_VERSIONS:
        purpose = _OTHER_VERSIONS[version]
        raise JobError(f"{name}: has version {version}, which is for {purpose}. {_KNOWN_VERSIONS}")
    if version not in (V1_0, V1_2):
        value = describe(table["version"])
        raise JobError(
            f"{name}: version is {value}, which HCCL does not take. {_KNOWN_VERSIONS}",
            hint='Write "version": "1.0".',
        )
    return version, _read_server_list(fields, table, version == V1_2, super_pods)


def _read_server_list(
    fields: Fields, table: Mapping[str, Any], with_pods: bool, super_pods: bool
) -> List[TableServer]:
    known = (*_TOP, "super_pod_list") if with_pods else _TOP
    fields.report_unread(table, known, _OTHER_TOOLS, "")
    objects = fields.objects(table, "server_list", "")
    if "server_count" in table:
        count = fields.number(table, "server_count", "")
        listed = table.get("server_list")
        if count is not None and isinstance(listed, list) and count != len(listed) > 0:
            message = f"is {count}, but server_list has {len(listed)} servers."
            fields.refuse("count", "server_count", message, f'Write "{len(listed)}".')
    else:
        message = "is missing; HCCL counts server_list and warns, the manual wants it."
        fields.add(WARNING, "no count", "server_count", message)
    servers = [_read_server(fields, server, place, with_pods) for place, server in objects]
    if with_pods and "super_pod_list" in table:
        ids = {server.server_id for server in servers}
        pods = _read_super_pods(fields if super_pods else fields.lenient(), table, ids)
        servers = [server._replace(super_pod_id=pods.get(server.server_id)) for server in servers]
    return servers


def _read_server(
    fields: Fields, server: Dict[str, Any], place: str, with_pods: bool
) -> TableServer:
    fields.report_unread(server, _SERVER, _OTHER_TOOLS, place)
    server_id = fields.text(server, "server_id", place)
    if server_id == "":
        fields.refuse("empty server_id", f"{place}.server_id", "is empty; HCCL refuses that.")
    elif server_id and len(server_id.encode()) > _LONGEST_SERVER_ID:
        message = f"is {describe(server_id)}, longer than {_LONGEST_SERVER_ID} bytes."
        fields.refuse("long server_id", f"{place}.server_id", message)
    addresses = fields.addresses(server, "host_ip", place, several=False)
    if server.get("host_ip") == "":
        message = "is empty; HCCL takes an address or nothing."
        fields.refuse("empty host_ip", f"{place}.host_ip", message, "Leave it out.")
    host_ip = addresses[0] if addresses else None
    devices = [
        _read_device(fields, device, path, server_id or "", host_ip, with_pods)
        for path, device in fields.objects(server, "device", place)
    ]
    known = tuple(device for device in devices if device is not None)
    return TableServer(server_id or "", known, host_ip)


def _read_device(
    fields: Fields,
    device: Dict[str, Any],
    place: str,
    server_id: str,
    host_ip: Optional[str],
    with_pods: bool,
) -> Optional[TableDevice]:
    """Read a device of a server; None if nobody can say which it is."""
    rank_id = fields.number(device, "rank_id", place)
    device_id = fields.number(device, "device_id", place)
    # Beside a host_ip, HCCL takes a device_ip that is no text for none.
    is_text = host_ip is None or isinstance(device.get("device_ip"), str)
    addresses = (fields if is_text else fields.lenient()).addresses(device, "device_ip", place)
    rare: Dict[str, Any] = {}
    if device.keys() - _DEVICE:  # most devices of large tables have nothing else
        known = (*_RARE, "super_device_id") if with_pods else _RARE
        fields.report_unread(device, (*_DEVICE, *known), _OTHER_TOOLS_OF_DEVICE, place)
        rare = {key: _read_rare(fields, device, key, place) for key in known if key in device}
    if rank_id is None or device_id is None:
        fields.is_complete = False
        return None
    physical = PhysicalDeviceId(device_id)
    return TableDevice(rank_id, physical, server_id, addresses, host_ip, **rare)


def _read_rare(fields: Fields, device: Dict[str, Any], key: str, place: str) -> Any:
    """Read a field that few tables have."""
    # HCCL looks at the virtual port only beside a device_port, and at the backup only where it
    # retries between superpods.
    is_backup = key.startswith("backup_")
    if is_backup or (key == "device_vnic_port" and "device_port" not in device):
        fields = fields.lenient()
    if key.endswith("_port"):
        return fields.port(device, key, place)
    if key == "backup_device_ip":
        return fields.addresses(device, key, place)
    if key == "super_device_id":
        number = fields.number(device, key, place, needed=False)
        return None if number is None else str(number)
    return fields.text(device, key, place, needed=False)


def _read_super_pods(
    fields: Fields, table: Mapping[str, Any], server_ids: AbstractSet[str]
) -> Dict[str, str]:
    """Read the superpod of each server that ``super_pod_list`` has."""
    pod_of: Dict[str, str] = {}
    seen: Dict[str, str] = {}
    for place, pod in fields.objects(table, "super_pod_list", ""):
        pod_id = fields.text(pod, "super_pod_id", place) or ""
        pod_place = f"{place}.super_pod_id"
        if pod.get("super_pod_id") == "":
            fields.refuse("empty pod", pod_place, "is empty; HCCL refuses that.")
        elif pod_id in seen:
            message = f"is {describe(pod_id)}, as is {seen[pod_id]}; a superpod is listed once."
            fields.refuse("pod twice", pod_place, message)
        elif len(pod_id.encode()) > _LONGEST_POD_ID:
            message = f"is {describe(pod_id)}, longer than {_LONGEST_POD_ID} bytes."
            fields.refuse("long pod", pod_place, message)
        seen.setdefault(pod_id, pod_place)
        for path, server in fields.objects(pod, "server_list", place):
            server_id = fields.text(server, "server_id", path)
            if server_id is None:
                continue
            server_place = f"{path}.server_id"
            if pod_of.setdefault(server_id, pod_id) != pod_id:
                message = f"is {describe(server_id)} again; HCCL takes the last superpod, "
                message += f"{describe(pod_id)}."
                hint = "List a server once."
                fields.add(WARNING, "server in two pods", server_place, message, hint)
            pod_of[server_id] = pod_id
            if server_id not in server_ids:
                message = f"is {describe(server_id)}, which the table's own server_list has not."
                fields.refuse("pod server", server_place, message)
    return pod_of
