"""Reading the two older formats: ``group_list[].instance_list[].devices[]``.

Template 2 has containers (``pod_name``), by which a rank finds itself, and no ranks: HCCL numbers
them by server_id and device_id. The "lab" variant has ``deploy_mode`` and one device in each
instance, with its rank. All groups are one job.

Source: HCOMM, topoinfo_ranktableStandard.cc.
"""

from itertools import groupby
from typing import Any, Dict, List, Mapping, Optional

from ascend_session.cluster.rank_table.contents import TableDevice, TableServer
from ascend_session.cluster.rank_table.fields import Fields, Objects, describe, join_path
from ascend_session.ids import PhysicalDeviceId

_LARGEST_DEVICE = 7
_LONGEST_NAME = 127  # bytes
_PER_SERVER = (1, 2, 4, 8, 16)

_TOP = ("status", "group_count", "group_list")
_LAB_TOP = (*_TOP, "deploy_mode", "para_plane_nic_location")
_GROUP = ("group_name", "instance_count", "instance_list")
_INSTANCE = ("server_id", "devices")
_DEVICE = ("device_id", "device_ip")
_OTHER_TOOLS = (
    "board_id",
    "chip_info",
    "para_plane_nic_name",
    "para_plane_nic_num",
    "pod_name",
    "server_list",
)


def read_template_2(fields: Fields, table: Mapping[str, Any]) -> List[TableServer]:
    """Read the servers in the order of their ids, with the ranks that HCCL gives the devices."""
    fields.report_unread(table, _TOP, _OTHER_TOOLS, "")
    devices: List[TableDevice] = []
    pods: Dict[str, str] = {}
    for place, group in _read_groups(fields, table):
        fields.report_unread(group, (*_GROUP, "device_count"), _OTHER_TOOLS, place)
        instances = _read_instances(fields, group, place)
        device_count = 0
        for path, instance in instances:
            fields.report_unread(instance, (*_INSTANCE, "pod_name"), _OTHER_TOOLS, path)
            pod_name = fields.text(instance, "pod_name", path)
            _check_name(fields, pods, pod_name, "pod_name", path)
            objects = fields.objects(instance, "devices", path)
            device_count += len(objects)
            server_id = fields.text(instance, "server_id", path) or ""
            for where, holder in objects:
                device = _read_device(fields, holder, where, server_id, len(instances) > 1)
                if device is None:
                    continue
                if int(device.device_id) > _LARGEST_DEVICE:
                    message = f"is {device.device_id}; in this format HCCL takes 0 to "
                    message += f"{_LARGEST_DEVICE}."
                    fields.refuse("large device_id", f"{where}.device_id", message)
                devices.append(device._replace(pod_name=pod_name))
        _check_count(fields, group, "device_count", place, device_count, "devices")
    return _number_as_hccl(devices)


def _number_as_hccl(devices: List[TableDevice]) -> List[TableServer]:
    """Give ranks as HCCL does: servers by the bytes of their ids, devices by number."""
    devices = sorted(devices, key=lambda each: (each.server_id.encode(), int(each.device_id)))
    devices = [device._replace(rank_id=rank) for rank, device in enumerate(devices)]
    return [
        TableServer(server_id, tuple(of_server))
        for server_id, of_server in groupby(devices, key=lambda each: each.server_id)
    ]


def read_lab(fields: Fields, table: Mapping[str, Any]) -> List[TableServer]:
    """Read the servers in the order in which their first device stands in the table."""
    fields.report_unread(table, _LAB_TOP, _OTHER_TOOLS, "")
    location = fields.text(table, "para_plane_nic_location", "")
    if location not in ("device", None):
        message = f"is {describe(location)}; HCCL takes 'device' only."
        fields.refuse("location", "para_plane_nic_location", message)
    devices_of: Dict[str, List[TableDevice]] = {}
    server_counts: List[Optional[int]] = []
    for place, group in _read_groups(fields, table):
        fields.report_unread(group, (*_GROUP, "device_num", "server_num"), _OTHER_TOOLS, place)
        instances = _read_instances(fields, group, place)
        count = _check_count(fields, group, "device_num", place, len(instances), "instances")
        server_counts.append(_read_server_count(fields, group, place, count))
        for path, instance in instances:
            fields.report_unread(instance, (*_INSTANCE, "rank_id"), _OTHER_TOOLS, path)
            device = _read_lab_device(fields, instance, path)
            if device is None:
                fields.is_complete = False
            else:
                devices_of.setdefault(device.server_id, []).append(device)
    server_count = sum(count or 0 for count in server_counts)
    if fields.is_complete and None not in server_counts and server_count != len(devices_of):
        message = f"is {server_count} in all groups, but the instances name {len(devices_of)} by "
        fields.refuse("servers", "server_num", f"{message}server_id.")
    return [TableServer(server_id, tuple(devices)) for server_id, devices in devices_of.items()]


def _read_server_count(
    fields: Fields, group: Dict[str, Any], place: str, device_count: Optional[int]
) -> Optional[int]:
    """Read how many servers a group is said to have."""
    count = fields.number(group, "server_num", place)
    if count == 0:
        fields.refuse("no server", f"{place}.server_num", "is 0; HCCL refuses that.")
    elif device_count is not None and count and device_count / count not in _PER_SERVER:
        message = f"is {device_count} on {count} servers; HCCL takes 1, 2, 4, 8 or 16 for each."
        fields.refuse("average", f"{place}.device_num", message)
    return count


def _read_lab_device(fields: Fields, instance: Dict[str, Any], path: str) -> Optional[TableDevice]:
    """Read the one device of an instance; None if nobody can say which it is."""
    objects = fields.objects(instance, "devices", path)
    if len(objects) > 1:
        message = f"has {len(objects)} devices; an instance has one rank_id and so one device."
        fields.refuse("one device", f"{path}.devices", message)
        fields.is_complete = False
    server_id = fields.text(instance, "server_id", path) or ""
    rank_id = fields.number(instance, "rank_id", path)
    if not objects:
        return None
    where, holder = objects[0]
    device = _read_device(fields, holder, where, server_id, True)
    return None if device is None or rank_id is None else device._replace(rank_id=rank_id)


def _read_groups(fields: Fields, table: Mapping[str, Any]) -> Objects:
    groups = fields.objects(table, "group_list", "")
    _check_count(fields, table, "group_count", "", len(groups), "groups")
    names: Dict[str, str] = {}
    for place, group in groups:
        name = fields.text(group, "group_name", place)
        _check_name(fields, names, name, "group_name", place)
    return groups


def _read_instances(fields: Fields, group: Dict[str, Any], place: str) -> Objects:
    instances = fields.objects(group, "instance_list", place)
    _check_count(fields, group, "instance_count", place, len(instances), "instances")
    return instances


def _read_device(
    fields: Fields, device: Dict[str, Any], place: str, server_id: str, needs_address: bool
) -> Optional[TableDevice]:
    """Read a device, without its rank; HCCL needs its address key unless it is alone."""
    fields.report_unread(device, _DEVICE, (*_OTHER_TOOLS, "rank_id"), place)
    device_id = fields.number(device, "device_id", place)
    if needs_address and "device_ip" not in device:
        fields.refuse("no device_ip", f"{place}.device_ip", "is missing; HCCL needs it.")
    address_fields = fields if needs_address else fields.lenient()
    addresses = address_fields.addresses(device, "device_ip", place, several=False)
    if device_id is None:
        fields.is_complete = False
        return None
    return TableDevice(0, PhysicalDeviceId(device_id), server_id, addresses)


def _check_count(
    fields: Fields, holder: Mapping[str, Any], key: str, place: str, actual: int, kind: str
) -> Optional[int]:
    """Read a count, which has to be the actual one."""
    count = fields.number(holder, key, place)
    if count is not None and count != actual:
        message = f"is {count}, but there are {actual} {kind}."
        fields.refuse(f"count {key}", join_path(place, key), message)
    return count


def _check_name(
    fields: Fields, seen: Dict[str, str], name: Optional[str], key: str, holder: str
) -> None:
    """Check that HCCL takes a name, once."""
    if name is None:
        return
    place = f"{holder}.{key}"
    if name in seen:
        message = f"is {describe(name)}, as is {seen[name]}; HCCL takes a {key} once."
        fields.refuse(f"{key} twice", place, message)
    elif len(name.encode()) > _LONGEST_NAME:
        message = f"is {describe(name)}, longer than {_LONGEST_NAME} bytes."
        fields.refuse(f"long {key}", place, message)
    seen.setdefault(name, place)
