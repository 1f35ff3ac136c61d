"""Reading the two older formats: ``group_list[].instance_list[].devices[]``.

Template 2 has containers (``pod_name``), by which a rank finds itself, and no ranks: HCCL numbers
them by server_id and device_id. The "lab" variant has ``deploy_mode`` and one device in each
instance, with its rank. All groups are one job.

Source: launch_facts.md, A4 (HCOMM: topoinfo_ranktableStandard.cc).
"""

from itertools import groupby
from operator import attrgetter
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ascend_session.cluster.rank_table.fields import Fields, shown
from ascend_session.cluster.rank_table.parts import TableDevice, TableServer
from ascend_session.ids import PhysicalDeviceId

__all__ = ["read_lab", "read_template_2"]

_LARGEST_DEVICE = 7
_PER_SERVER = (1, 2, 4, 8, 16)

_TOP = ("status", "group_count", "group_list")
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

_Parts = List[Tuple[str, Dict[str, Any]]]


def read_template_2(fields: Fields, table: Mapping[str, Any]) -> List[TableServer]:
    """The servers in the order of their ids, with the ranks that HCCL gives the devices."""
    fields.unread(table, _TOP, _OTHER_TOOLS, "")
    found: List[TableDevice] = []
    pods: Dict[str, str] = {}
    for place, group in _groups(fields, table):
        fields.unread(group, (*_GROUP, "device_count"), _OTHER_TOOLS, place)
        instances = _instances(fields, group, place)
        counted = 0
        for path, instance in instances:
            fields.unread(instance, (*_INSTANCE, "pod_name"), _OTHER_TOOLS, path)
            pod_name = fields.text(instance, "pod_name", path)
            _once(fields, pods, pod_name, "pod_name", f"{path}.pod_name")
            devices = fields.objects(instance, "devices", path)
            counted += len(devices)
            server_id = fields.text(instance, "server_id", path) or ""
            for where, device in devices:
                made = _device(fields, device, where, server_id, len(instances) > 1)
                if made is not None:
                    _check_device_id(fields, made, where)
                    found.append(made._replace(pod_name=pod_name))
        _check_count(fields, group, "device_count", place, counted, "devices")
    return _by_server(found)


def read_lab(fields: Fields, table: Mapping[str, Any]) -> List[TableServer]:
    """The servers in the order in which their first device stands in the table."""
    known = (*_TOP, "deploy_mode", "para_plane_nic_location")
    fields.unread(table, known, _OTHER_TOOLS, "")
    location = fields.text(table, "para_plane_nic_location", "")
    if location not in ("device", None):
        said = f"is {shown(location)}; HCCL takes 'device' only."
        fields.refuse("location", "para_plane_nic_location", said)
    found: Dict[str, List[TableDevice]] = {}
    counted: List[Optional[int]] = []
    for place, group in _groups(fields, table):
        fields.unread(group, (*_GROUP, "device_num", "server_num"), _OTHER_TOOLS, place)
        instances = _instances(fields, group, place)
        _check_count(fields, group, "device_num", place, len(instances), "instances")
        counted.append(_server_count(fields, group, place))
        for path, instance in instances:
            fields.unread(instance, (*_INSTANCE, "rank_id"), _OTHER_TOOLS, path)
            made = _lab_device(fields, instance, path)
            if made is not None:
                found.setdefault(made.server_id, []).append(made)
    _check_servers(fields, counted, len(found))
    return [TableServer(server_id, tuple(devices)) for server_id, devices in found.items()]


def _groups(fields: Fields, table: Mapping[str, Any]) -> _Parts:
    groups = fields.objects(table, "group_list", "")
    _check_count(fields, table, "group_count", "", len(groups), "groups")
    names: Dict[str, str] = {}
    for place, group in groups:
        name = fields.text(group, "group_name", place)
        _once(fields, names, name, "group_name", f"{place}.group_name")
    return groups


def _instances(fields: Fields, group: Dict[str, Any], place: str) -> _Parts:
    instances = fields.objects(group, "instance_list", place)
    _check_count(fields, group, "instance_count", place, len(instances), "instances")
    return instances


def _check_count(
    fields: Fields, holder: Mapping[str, Any], key: str, place: str, actual: int, kind: str
) -> None:
    count = fields.number(holder, key, place)
    if count is not None and count != actual:
        path = f"{place}.{key}" if place else key
        fields.refuse(f"count {key}", path, f"is {count}, but there are {actual} {kind}.")


def _server_count(fields: Fields, group: Dict[str, Any], place: str) -> Optional[int]:
    """How many servers a group is said to have."""
    devices = fields.number(group, "device_num", place)
    servers = fields.number(group, "server_num", place)
    if servers == 0:
        fields.refuse("no server", f"{place}.server_num", "is 0; HCCL refuses that.")
    elif devices is not None and servers and devices / servers not in _PER_SERVER:
        said = f"is {devices} on {servers} servers; HCCL takes 1, 2, 4, 8 or 16 for each."
        fields.refuse("average", f"{place}.device_num", said)
    return servers


def _check_servers(fields: Fields, counted: List[Optional[int]], actual: int) -> None:
    said_in_all = sum(one for one in counted if one is not None)
    if fields.complete and None not in counted and said_in_all != actual:
        said = f"is {said_in_all} in all groups, but the instances name {actual} by server_id."
        fields.refuse("servers", "server_num", said)


def _lab_device(fields: Fields, instance: Dict[str, Any], path: str) -> Optional[TableDevice]:
    devices = fields.objects(instance, "devices", path)
    if len(devices) > 1:
        said = f"has {len(devices)} devices; an instance has one rank_id and so one device."
        fields.refuse("one device", f"{path}.devices", said)
    server_id = fields.text(instance, "server_id", path) or ""
    rank_id = fields.number(instance, "rank_id", path)
    made = None
    for where, device in devices[:1]:
        made = _device(fields, device, where, server_id, True)
    if made is None or rank_id is None or len(devices) > 1:
        fields.complete = False
    return None if made is None or rank_id is None else made._replace(rank_id=rank_id)


def _device(
    fields: Fields, device: Dict[str, Any], place: str, server_id: str, address_needed: bool
) -> Optional[TableDevice]:
    """A device, without its rank; HCCL needs its address key unless it is alone."""
    fields.unread(device, _DEVICE, (*_OTHER_TOOLS, "rank_id"), place)
    device_id = fields.number(device, "device_id", place)
    if address_needed and "device_ip" not in device:
        fields.refuse("no device_ip", f"{place}.device_ip", "is missing; HCCL needs it.")
    reader = fields if address_needed else fields.lenient()
    addresses = reader.addresses(device, "device_ip", place, several=False)
    if device_id is None:
        fields.complete = False
        return None
    return TableDevice(0, PhysicalDeviceId(device_id), server_id, addresses)


def _check_device_id(fields: Fields, device: TableDevice, place: str) -> None:
    if int(device.device_id) > _LARGEST_DEVICE:
        said = f"is {device.device_id}; in this format HCCL takes 0 to {_LARGEST_DEVICE}."
        fields.refuse("large device_id", f"{place}.device_id", said)


def _once(fields: Fields, seen: Dict[str, str], value: Optional[str], key: str, place: str) -> None:
    if value is None:
        return
    if value in seen:
        said = f"is {shown(value)}, as is {seen[value]}; HCCL takes a {key} once."
        fields.refuse(f"{key} twice", place, said)
    elif len(value.encode()) > 127:
        fields.refuse(f"long {key}", place, f"is {shown(value)}, longer than 127 bytes.")
    seen.setdefault(value, place)


def _by_server(devices: List[TableDevice]) -> List[TableServer]:
    """Ranks as HCCL gives them: servers by the bytes of their ids, devices by number."""
    ordered = sorted(devices, key=lambda one: (one.server_id.encode(), int(one.device_id)))
    numbered = [one._replace(rank_id=rank) for rank, one in enumerate(ordered)]
    return [
        TableServer(server_id, tuple(of_it))
        for server_id, of_it in groupby(numbered, key=attrgetter("server_id"))
    ]
