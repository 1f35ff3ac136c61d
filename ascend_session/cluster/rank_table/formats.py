"""Parse a table's JSON, of version 1.0 or 1.2; other layouts are named, and not checked.

Source: HCOMM, topoinfo_ranktableConcise.cc (GetSingleDevice, GetSingleSuperPod,
GetSingleSuperPodSever) and topoinfo_ranktableStandard.cc; for other versions HCCL's manual,
cluster_info_config.
"""

from typing import AbstractSet, Any, Dict, List, Optional

from ascend_session.cluster.rank_table.contents import (
    COMPLETED,
    INITIALIZING,
    V1_0,
    V1_2,
    Contents,
    TableDevice,
    TableServer,
)
from ascend_session.cluster.rank_table.fields import Faults, JsonObject, describe, is_unset
from ascend_session.cluster.rank_table.table_file import parse_json
from ascend_session.errors import JobError
from ascend_session.findings import ERROR, INFO, NOT_CHECKED, WARNING, Finding
from ascend_session.ids import PhysicalDeviceId
from ascend_session.spelling import option
from ascend_session.vendor import A3, A5

_OTHER_VERSIONS = {
    "1.1": "jobs of processors and host CPUs together",
    "2.0": "A5 (950), with rank_list and a topology file",
}
_VERSIONS = "Versions 1.0 and 1.2 are read here."


A3_ONLY = " Only A3 reads superpods."  # ends messages that are "not checked"


def rate_super_pods(family: Optional[str]) -> str:
    """Return the severity of a fault in superpods, which HCCL reads on A3 only.

    Source: HCOMM, GetSuperPodList, which does nothing if IsSuperPodMode is false.
    """
    return {A3: ERROR, None: NOT_CHECKED}.get(family, WARNING)


def parse_table(name: str, text: str, family: Optional[str] = None) -> Contents:
    """Parse the text of a table; `Contents.remarks` has the findings about its fields.

    Args:
        name: Its file, or another name for messages.
        text: The text.
        family: The product, as in `ascend_session.hardware.families`; None if not known.

    Raises:
        JobError: If it is no JSON, no object, or of a version that is not supported.
    """
    value, findings = parse_json(name, text)
    if not isinstance(value, dict):
        raise JobError(
            f"{name}: is {describe(value)}; a rank table is an object with status and server_list.",
            hint="`ascend-session ranktable make` makes one.",
        )
    table = JsonObject(value, "", Faults(findings))
    kind = _find_format(name, table, family)
    servers = _read_server_list(table, kind == V1_2, rate_super_pods(family))
    status = table.text("status")
    # A missing status is an error already; the rules need not report it again.
    status = COMPLETED if status is None else status
    is_complete = table.faults.is_complete
    return Contents(kind, status, tuple(servers), name, tuple(findings), is_complete)


def _find_format(name: str, table: JsonObject, family: Optional[str]) -> str:
    keys = table.value
    if "version" not in keys and keys.get("status") == INITIALIZING:
        return V1_0  # it has not been filled in yet
    if "version" not in keys and "group_list" in keys:
        layout = "lab" if "deploy_mode" in keys else "template 2"
        message = f"has a group_list and no version: the former layout {layout!r}, which only HCCL "
        message += f"reads. {_VERSIONS}"
        hint = "Make a new one with `ascend-session ranktable make`, or launch a job of several "
        hint += f"servers with {option('nnodes')} and {option('node_rank')}."
        finding = Finding(NOT_CHECKED, message, hint, rule="version")
        raise JobError(f"{name}: {message}", hint=hint, findings=[finding])
    if "version" not in keys:
        raise JobError(
            f"{name}: has no version, and no group_list as tables without one; HCCL refuses it.",
            hint='Write "version": "1.0".',
        )
    version = table.text("version")
    if version in _OTHER_VERSIONS:
        message = f"has version {version}, which is for {_OTHER_VERSIONS[version]}. "
        message += _VERSIONS
        severity = ERROR if version == "2.0" and family not in (None, A5) else NOT_CHECKED
        finding = Finding(severity, message, rule="version")
        raise JobError(f"{name}: {message}", findings=[finding])
    if version not in (V1_0, V1_2):
        value = describe(keys["version"])
        raise JobError(
            f"{name}: version is {value}, which HCCL does not accept. {_VERSIONS}",
            hint='Write "version": "1.0".',
        )
    return version


# Versions 1.0 and 1.2

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


def _read_server_list(table: JsonObject, with_pods: bool, severity: str) -> List[TableServer]:
    table.report_unread((*_TOP, "super_pod_list") if with_pods else _TOP, _OTHER_TOOLS)
    objects = table.objects("server_list")
    if "server_count" in table.value:
        count = table.number("server_count")
        listed = table.value.get("server_list")
        if count is not None and isinstance(listed, list) and count != len(listed) > 0:
            message = f"is {count}, but server_list has {len(listed)} servers."
            table.refuse("count", "server_count", message, f'Write "{len(listed)}".')
    else:
        message = "is missing; HCCL counts server_list and warns, the manual wants it."
        table.warn("no count", "server_count", message)
    servers = [_read_server(server, with_pods) for server in objects]
    if with_pods and "super_pod_list" in table.value:
        ids = {server.server_id for server in servers}
        note = A3_ONLY if severity == NOT_CHECKED else ""
        holder = table if severity == ERROR else table.lenient(severity, note)
        pods = _read_super_pods(holder, ids)
        servers = [server._replace(super_pod_id=pods.get(server.server_id)) for server in servers]
    return servers


def _read_server(server: JsonObject, with_pods: bool) -> TableServer:
    server.report_unread(_SERVER, _OTHER_TOOLS)
    server_id = _read_server_id(server)
    addresses = server.addresses("host_ip", several=False)
    if server.value.get("host_ip") == "":
        message = "is empty; HCCL accepts an address or a missing field."
        server.refuse("empty host_ip", "host_ip", message, "Leave it out.")
    elif any(map(is_unset, addresses)):
        message = f"is {addresses[0]}, which HCCL treats as missing."
        server.warn("unset host_ip", "host_ip", message, "Leave it out.")
        addresses = ()
    host_ip = addresses[0] if addresses else None
    devices = [
        _read_device(device, server_id, host_ip, with_pods) for device in server.objects("device")
    ]
    complete = tuple(device for device in devices if device is not None)
    return TableServer(server_id, complete, host_ip)


def _read_server_id(holder: JsonObject) -> str:
    """Read a server_id; empty if there is none."""
    server_id = holder.text("server_id")
    if server_id == "":
        holder.refuse("empty server_id", "server_id", "is empty; HCCL refuses that.")
    elif server_id and len(server_id.encode()) > _LONGEST_SERVER_ID:
        message = f"is {describe(server_id)}, longer than {_LONGEST_SERVER_ID} bytes."
        holder.refuse("long server_id", "server_id", message)
    return server_id or ""


def _read_device(
    device: JsonObject, server_id: str, host_ip: Optional[str], with_pods: bool
) -> Optional[TableDevice]:
    """Read a device of a server; None without a valid rank_id and device_id."""
    rank_id, device_id = device.number("rank_id"), device.number("device_id")
    # With a host_ip, HCCL takes a device_ip that is no text for a missing one.
    is_text = host_ip is None or isinstance(device.value.get("device_ip"), str)
    addresses = (device if is_text else device.lenient()).addresses("device_ip")
    rare: Dict[str, Any] = {}
    if device.value.keys() - _DEVICE:  # saves time: devices of large tables rarely have others
        keys = (*_RARE, "super_device_id") if with_pods else _RARE
        device.report_unread((*_DEVICE, *keys), _OTHER_TOOLS_OF_DEVICE)
        rare = {key: _read_rare(device, key) for key in keys if key in device.value}
    if rank_id is None or device_id is None:
        device.faults.is_complete = False
        return None
    physical = PhysicalDeviceId(device_id)
    return TableDevice(rank_id, physical, server_id, addresses, host_ip, **rare)


def _read_rare(device: JsonObject, key: str) -> Any:
    """Read a field that few tables have."""
    # HCCL reads the virtual port only with a device_port, and the backup only if it retries
    # between superpods (see `rules.rate_backups`).
    is_backup = key.startswith("backup_")
    if key == "backup_device_port" and not device.value.get("backup_device_ip"):
        device = device.lenient(INFO, " HCCL does not read it without a backup_device_ip.")
    elif is_backup or (key == "device_vnic_port" and "device_port" not in device.value):
        device = device.lenient()
    if key.endswith("_port"):
        return device.port(key)
    if key == "backup_device_ip":
        return device.addresses(key)
    if key == "super_device_id":
        number = device.number(key, needed=False)
        return None if number is None else str(number)
    return device.text(key, needed=False)


def _read_super_pods(table: JsonObject, server_ids: AbstractSet[str]) -> Dict[str, str]:
    """Map each server in ``super_pod_list`` to its superpod."""
    pod_of: Dict[str, str] = {}
    seen: Dict[str, str] = {}
    for pod in table.objects("super_pod_list"):
        pod_id = pod.text("super_pod_id") or ""
        if pod.value.get("super_pod_id") == "":
            pod.refuse("empty pod", "super_pod_id", "is empty; HCCL refuses that.")
        elif pod_id in seen:
            message = f"is {describe(pod_id)}, as is {seen[pod_id]}; a superpod is listed once."
            pod.refuse("pod twice", "super_pod_id", message)
        elif len(pod_id.encode()) > _LONGEST_POD_ID:
            message = f"is {describe(pod_id)}, longer than {_LONGEST_POD_ID} bytes."
            pod.refuse("long pod", "super_pod_id", message)
        seen.setdefault(pod_id, pod.path("super_pod_id"))
        for server in pod.objects("server_list"):
            server_id = server.text("server_id")
            if server_id is None:
                continue
            if pod_of.setdefault(server_id, pod_id) != pod_id:
                message = f"is {describe(server_id)} again; HCCL takes the last superpod, "
                message += f"{describe(pod_id)}."
                server.warn("server in two pods", "server_id", message, "List a server once.")
            pod_of[server_id] = pod_id
            if server_id not in server_ids:
                message = f"is {describe(server_id)}, which is not in the table's server_list."
                server.refuse("pod server", "server_id", message)
    return pod_of
