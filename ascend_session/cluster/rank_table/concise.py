"""Reading version 1.0 and 1.2: ``server_list[].device[]``.

Source: launch_facts.md, A2 and A3 (HCOMM: topoinfo_ranktableConcise.cc).
"""

from typing import Any, Dict, List, Mapping

from ascend_session.cluster.rank_table.devices import read_device
from ascend_session.cluster.rank_table.fields import Fields, shown
from ascend_session.cluster.rank_table.findings import WARNING
from ascend_session.cluster.rank_table.parts import TableServer
from ascend_session.cluster.rank_table.super_pod_list import read_super_pods

__all__ = ["read_concise"]

_LONGEST_ID = 64  # bytes of a server_id

_TOP = ("version", "status", "server_count", "server_list")
_PODS = ("super_pod_list",)
_SERVER = ("server_id", "host_ip", "device")
_OTHER_TOOLS = ("container_ip", "hardware_type", "host_nic_ip", "server_ip", "super_pod_list")
"""Keys that generators of tables write, and HCCL does not read (launch_facts.md, A2)."""


def read_concise(
    fields: Fields, table: Mapping[str, Any], version: str, super_pods: bool
) -> List[TableServer]:
    """The servers of a table, in its order; what is wrong is in ``fields``.

    Without ``super_pods`` HCCL does not read those, and what is wrong with them is a warning.
    """
    with_pods = version == "1.2"
    fields.unread(table, _TOP + (_PODS if with_pods else ()), _OTHER_TOOLS, "")
    servers = fields.objects(table, "server_list", "")
    _check_count(fields, table)
    found = [_server(fields, server, place, with_pods) for place, server in servers]
    if with_pods and "super_pod_list" in table:
        known = {server.server_id for server in found}
        pods = read_super_pods(fields if super_pods else fields.lenient(), table, known)
        found = [one._replace(super_pod_id=pods.get(one.server_id)) for one in found]
    return found


def _check_count(fields: Fields, table: Mapping[str, Any]) -> None:
    if "server_count" not in table:
        said = "is missing; HCCL counts server_list and warns, the manual wants it."
        fields.found.add(WARNING, "no count", "server_count", said)
        return
    count, servers = fields.number(table, "server_count", ""), table.get("server_list")
    if count is not None and isinstance(servers, list) and count != len(servers) > 0:
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
        read_device(fields, device, path, server_id or "", host, with_pods)
        for path, device in fields.objects(server, "device", place)
    ]
    return TableServer(server_id or "", tuple(one for one in devices if one), host)
