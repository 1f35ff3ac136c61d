"""Reading one device of version 1.0 or 1.2.

Source: launch_facts.md, A2 and A3 (HCOMM: GetSingleDevice in topoinfo_ranktableConcise.cc).
"""

from typing import Any, Dict, Optional

from ascend_session.cluster.rank_table.fields import Fields
from ascend_session.cluster.rank_table.parts import TableDevice
from ascend_session.ids import PhysicalDeviceId

__all__ = ["read_device"]

_COMMON = frozenset(("device_id", "device_ip", "rank_id"))
_SELDOM = (
    "device_port",
    "device_vnic_port",
    "backup_device_ip",
    "backup_device_port",
    "host_port",
    "net_position",
    "net_protocol",
)
_WITH_PODS = (*_SELDOM, "super_device_id")
_OTHER_TOOLS = ("device_logical_id", "server_ip", "super_device_id")


def read_device(
    fields: Fields,
    device: Dict[str, Any],
    place: str,
    server_id: str,
    host_ip: Optional[str],
    with_pods: bool,
) -> Optional[TableDevice]:
    """A device of a server; None if nobody can say which it is."""
    rank_id = fields.number(device, "rank_id", place)
    device_id = fields.number(device, "device_id", place)
    # Beside a host_ip, HCCL takes a device_ip that is no text for none.
    is_text = host_ip is None or isinstance(device.get("device_ip"), str)
    addresses = (fields if is_text else fields.lenient()).addresses(device, "device_ip", place)
    more: Dict[str, Any] = {}
    if device.keys() - _COMMON:  # most devices of large tables have nothing else
        known = _WITH_PODS if with_pods else _SELDOM
        fields.unread(device, (*_COMMON, *known), _OTHER_TOOLS, place)
        more = {key: _field(fields, device, key, place) for key in known if key in device}
    if rank_id is None or device_id is None:
        fields.complete = False
        return None
    physical = PhysicalDeviceId(device_id)
    return TableDevice(rank_id, physical, server_id, addresses, host_ip, **more)


def _field(fields: Fields, device: Dict[str, Any], key: str, place: str) -> Any:
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
