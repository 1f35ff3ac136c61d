"""Parse a table's JSON in any of its four formats.

Versions 1.0 and 1.2 have ``server_list[].device[]``. The two older formats have
``group_list[].instance_list[].devices[]`` and no version; all groups are one job. Template 2 has
pods (``pod_name``), by which a rank finds itself, and no ranks: HCCL numbers the devices by
server_id and device_id. The "lab" variant has ``deploy_mode``, and one device with its rank in each
instance.

Source: HCOMM, topoinfo_ranktableConcise.cc (GetSingleDevice, GetSingleSuperPod,
GetSingleSuperPodSever) and topoinfo_ranktableStandard.cc; for other versions HCCL's manual,
cluster_info_config.
"""

from itertools import groupby
from typing import AbstractSet, Any, Dict, List, Optional

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
from ascend_session.cluster.rank_table.fields import Faults, JsonObject, describe, is_unset
from ascend_session.cluster.rank_table.table_file import parse_json
from ascend_session.errors import JobError
from ascend_session.findings import ERROR, NOT_CHECKED, WARNING, Finding
from ascend_session.ids import PhysicalDeviceId
from ascend_session.vendor import A3, A5, DUO

_OTHER_VERSIONS = {
    "1.1": "jobs of processors and host CPUs together",
    "2.0": "A5 (950), with rank_list and a topology file",
}
_KNOWN_VERSIONS = (
    "Versions 1.0 and 1.2 are read here, and the older formats, which have a group_list and no "
    "version."
)


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
    if kind == LAB:
        servers = _read_lab(table, family)
    elif kind == TEMPLATE_2:
        servers = _read_template_2(table)
    else:
        servers = _read_server_list(table, kind == V1_2, rate_super_pods(family))
    status = table.text("status")
    # A missing status is an error already; the rules need not report it again.
    status = COMPLETED if status is None else status
    is_complete = table.faults.is_complete
    return Contents(kind, status, tuple(servers), name, tuple(findings), is_complete)


def _find_format(name: str, table: JsonObject, family: Optional[str]) -> str:
    keys = table.value
    if "version" not in keys:
        if "group_list" not in keys and "server_list" in keys:
            raise JobError(
                f"{name}: has a server_list but no version, so that HCCL reads it as template 2, "
                "and refuses it.",
                hint='Write "version": "1.0".',
            )
        return LAB if "deploy_mode" in keys else TEMPLATE_2
    version = table.text("version")
    if version in _OTHER_VERSIONS:
        message = f"has version {version}, which is for {_OTHER_VERSIONS[version]}. "
        message += _KNOWN_VERSIONS
        severity = ERROR if version == "2.0" and family not in (None, A5) else NOT_CHECKED
        finding = Finding(severity, message, rule="version")
        raise JobError(f"{name}: {message}", findings=[finding])
    if version not in (V1_0, V1_2):
        value = describe(keys["version"])
        raise JobError(
            f"{name}: version is {value}, which HCCL does not accept. {_KNOWN_VERSIONS}",
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
    known = tuple(device for device in devices if device is not None)
    return TableServer(server_id, known, host_ip)


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
        known = (*_RARE, "super_device_id") if with_pods else _RARE
        device.report_unread((*_DEVICE, *known), _OTHER_TOOLS_OF_DEVICE)
        rare = {key: _read_rare(device, key) for key in known if key in device.value}
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
    if is_backup or (key == "device_vnic_port" and "device_port" not in device.value):
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
                message = f"is {describe(server_id)}, which the table's own server_list has not."
                server.refuse("pod server", "server_id", message)
    return pod_of


# The older formats

_LARGEST_DEVICE, _WHOLE = 7, 8
_LONGEST_NAME = 127  # bytes
_PER_SERVER = (1, 2, 4, 8, 16)

_GROUPS_TOP = ("status", "group_count", "group_list")
_LAB_TOP = (*_GROUPS_TOP, "deploy_mode", "para_plane_nic_location")
_GROUP = ("group_name", "instance_count", "instance_list")
_INSTANCE = ("server_id", "devices")
_OTHER_TOOLS_OF_GROUPS = (
    "board_id",
    "chip_info",
    "para_plane_nic_name",
    "para_plane_nic_num",
    "pod_name",
    "server_list",
)


def _read_template_2(table: JsonObject) -> List[TableServer]:
    """Read the servers in the order of their ids; devices get the ranks that HCCL gives them."""
    table.report_unread(_GROUPS_TOP, _OTHER_TOOLS_OF_GROUPS)
    devices: List[TableDevice] = []
    pods: Dict[str, str] = {}
    lone: List[JsonObject] = []  # groups of one instance, in which HCCL reads no address
    for group in _read_groups(table):
        group.report_unread((*_GROUP, "device_count"), _OTHER_TOOLS_OF_GROUPS)
        instances = _read_instances(group)
        lone += [group] if len(instances) == 1 else []
        device_count = 0
        for instance in instances:
            instance.report_unread((*_INSTANCE, "pod_name"), _OTHER_TOOLS_OF_GROUPS)
            pod_name = _read_name(instance, "pod_name", pods)
            listed = instance.objects("devices")
            device_count += len(listed)
            server_id = _read_server_id(instance)
            for each in listed:
                device = _read_grouped_device(each, server_id, len(instances) > 1)
                if device is None:
                    continue
                if int(device.device_id) > _LARGEST_DEVICE:
                    message = f"is {device.device_id}; in this format HCCL takes 0 to "
                    message += f"{_LARGEST_DEVICE}."
                    each.refuse("large device_id", "device_id", message)
                devices.append(device._replace(pod_name=pod_name))
        _read_count(group, "device_count", device_count, "devices")
    # Ranks as HCCL gives them: servers by the bytes of their ids, devices by number.
    devices.sort(key=lambda each: (each.server_id.encode(), int(each.device_id)))
    devices = [device._replace(rank_id=rank) for rank, device in enumerate(devices)]
    servers = [
        TableServer(server_id, tuple(of_server))
        for server_id, of_server in groupby(devices, key=lambda each: each.server_id)
    ]
    if len(servers) > 1:
        _check_lone_groups(lone, all(len(server.devices) == _WHOLE for server in servers))
    return servers


def _check_lone_groups(lone: List[JsonObject], are_whole: bool) -> None:
    """Report groups of one instance in a job of several servers.

    Source: HCOMM, GetCloudDevList, and CheckAndAssignNicInfo, which looks at servers of 8 devices.
    """
    message = "is one instance, of which HCCL reads no address, so that other servers cannot meet "
    message += f"it{f'; with servers of {_WHOLE} devices it refuses that' if are_whole else ''}."
    for group in lone:
        report = group.refuse if are_whole else group.warn
        report("lone group", "instance_list", message, "List all instances in one group.")


def _read_lab(table: JsonObject, family: Optional[str]) -> List[TableServer]:
    """Read the servers in the order in which their first device stands in the table."""
    table.report_unread(_LAB_TOP, _OTHER_TOOLS_OF_GROUPS)
    location = table.text("para_plane_nic_location")
    if location not in ("device", None):
        message = f"is {describe(location)}; HCCL takes 'device' only."
        table.refuse("location", "para_plane_nic_location", message)
    devices_of: Dict[str, List[TableDevice]] = {}
    server_counts: List[Optional[int]] = []
    for group in _read_groups(table):
        group.report_unread((*_GROUP, "device_num", "server_num"), _OTHER_TOOLS_OF_GROUPS)
        instances = _read_instances(group)
        device_count = _read_count(group, "device_num", len(instances), "instances")
        count = None if family == DUO else device_count  # HCCL does not compare it on 310P
        server_counts.append(_read_server_count(group, count))
        for instance in instances:
            instance.report_unread((*_INSTANCE, "rank_id"), _OTHER_TOOLS_OF_GROUPS)
            device = _read_lab_device(instance)
            if device is None:
                table.faults.is_complete = False
            else:
                devices_of.setdefault(device.server_id, []).append(device)
    server_count = sum(count or 0 for count in server_counts)
    is_known = table.faults.is_complete and None not in server_counts
    if is_known and server_count != len(devices_of):
        message = f"is {server_count} in all groups, but the instances name {len(devices_of)} by "
        table.refuse("servers", "server_num", f"{message}server_id.")
    return [TableServer(server_id, tuple(devices)) for server_id, devices in devices_of.items()]


def _read_server_count(group: JsonObject, device_count: Optional[int]) -> Optional[int]:
    """Read server_num, the number of servers in a group."""
    count = group.number("server_num")
    if count == 0:
        group.refuse("no server", "server_num", "is 0; HCCL refuses that.")
    elif device_count is not None and count and device_count / count not in _PER_SERVER:
        message = f"is {device_count} on {count} servers; HCCL takes 1, 2, 4, 8 or 16 for each."
        group.refuse("average", "device_num", message)
    return count


def _read_lab_device(instance: JsonObject) -> Optional[TableDevice]:
    """Read the only device of an instance; None without a valid rank_id and device_id."""
    objects = instance.objects("devices")
    if len(objects) > 1:
        message = f"has {len(objects)} devices; an instance has one rank_id and so one device."
        instance.refuse("one device", "devices", message)
        instance.faults.is_complete = False
    server_id = _read_server_id(instance)
    rank_id = instance.number("rank_id")
    device = _read_grouped_device(objects[0], server_id, True) if objects else None
    return None if device is None or rank_id is None else device._replace(rank_id=rank_id)


def _read_groups(table: JsonObject) -> List[JsonObject]:
    groups = table.objects("group_list")
    _read_count(table, "group_count", len(groups), "groups")
    names: Dict[str, str] = {}
    for group in groups:
        _read_name(group, "group_name", names)
    return groups


def _read_instances(group: JsonObject) -> List[JsonObject]:
    instances = group.objects("instance_list")
    _read_count(group, "instance_count", len(instances), "instances")
    return instances


def _read_grouped_device(
    device: JsonObject, server_id: str, needs_address: bool
) -> Optional[TableDevice]:
    """Read a device without its rank; ``needs_address`` if HCCL reads its address."""
    device.report_unread(("device_id", "device_ip"), (*_OTHER_TOOLS_OF_GROUPS, "rank_id"))
    device_id = device.number("device_id")
    if needs_address and "device_ip" not in device.value:
        device.refuse("no device_ip", "device_ip", "is missing; HCCL needs it.")
    holder = device if needs_address else device.lenient()
    addresses = holder.addresses("device_ip", several=False)
    if device_id is None:
        device.faults.is_complete = False
        return None
    return TableDevice(0, PhysicalDeviceId(device_id), server_id, addresses)


def _read_count(holder: JsonObject, key: str, actual: int, kind: str) -> Optional[int]:
    """Read a count, and report it if it is not the ``actual`` one."""
    count = holder.number(key)
    if count is not None and count != actual:
        holder.refuse(f"count {key}", key, f"is {count}, but there are {actual} {kind}.")
    return count


def _read_name(holder: JsonObject, key: str, seen: Dict[str, str]) -> Optional[str]:
    """Read a name that must be unique; ``seen`` maps earlier names to their places."""
    name = holder.text(key)
    if name is None:
        return None
    if name == "" and key == "pod_name":
        holder.refuse("empty pod_name", key, "is empty; no rank can find itself by that.")
    if name in seen:
        message = f"is {describe(name)}, as is {seen[name]}; HCCL takes a {key} once."
        holder.refuse(f"{key} twice", key, message)
    elif len(name.encode()) > _LONGEST_NAME:
        message = f"is {describe(name)}, longer than {_LONGEST_NAME} bytes."
        holder.refuse(f"long {key}", key, message)
    seen.setdefault(name, holder.path(key))
    return name
