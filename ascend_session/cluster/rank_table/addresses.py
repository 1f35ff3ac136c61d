"""Rules on the addresses of devices and servers.

Source: launch_facts.md, A2 rules 8 to 11 (HCOMM: GetSingleDeviceIp, DetectNicDepoly and
CheckNicDeployConsistence in topoinfo_ranktableConcise.cc, CheckRankIpFamily in config.cc).
"""

from typing import Dict, Mapping, Optional

from ascend_session.cluster.rank_table.contents import TEMPLATE_2, Contents, Spot
from ascend_session.cluster.rank_table.findings import ERROR, UNCHECKED, WARNING, Findings
from ascend_session.cluster.rank_table.parts import TableDevice
from ascend_session.cluster.rank_table.values import address_family, packed
from ascend_session.hardware.families import family as family_of

__all__ = ["check_addresses"]

_TRAINING, _A2, _A3 = family_of("910A"), family_of("910B"), family_of("910C")
_310P = family_of("310P3")
_FACTS = "launch_facts A2"
_KEY = "device_ip"


def check_addresses(
    table: Contents, family: Optional[str], environ: Mapping[str, str], found: Findings
) -> None:
    """Looks at the rules; see `ascend_session.cluster.rank_table.rules.check_rules`."""
    if _unread(table):
        return
    _unique(table, found)
    _as_many(table, found)
    if len(table.servers) > 1:
        _one_family(table, found)
    _needed(table, family, environ.get("HCCL_INTRA_ROCE_ENABLE") == "1", found)
    _host_network(table, found)


def _unread(table: Contents) -> bool:
    """Template 2 with one instance: HCCL does not look at its addresses."""
    pods = {device.pod_name for device in table.devices}
    return table.format == TEMPLATE_2 and len(pods) == 1


def _unique(table: Contents, found: Findings) -> None:
    """No address twice; HCCL compares how they are written."""
    seen: Dict[str, Spot] = {}
    alike: Dict[bytes, str] = {}
    source = f"{_FACTS} rule 8"
    for spot, device in table.placed():
        for address in device.device_ip:
            if address in seen:
                first = table.place(seen[address], _KEY)
                said = f"is {address}, as is {first}; HCCL takes an address once."
                found.add(ERROR, "address twice", table.place(spot, _KEY), said, None, source)
                continue
            seen[address] = spot
            same = alike.setdefault(packed(address), address)
            if same != address:
                said = f"is {address}, which is the address {same}, written otherwise."
                found.add(WARNING, "address alike", table.place(spot, _KEY), said, None, source)


def _as_many(table: Contents, found: Findings) -> None:
    """Each device has as many addresses as the first; none counts as one."""
    counts = [(spot, max(1, len(device.device_ip))) for spot, device in table.placed()]
    for spot, count in counts:
        if count != counts[0][1]:
            said = f"has {count} addresses, the first device {counts[0][1]}; all have as many."
            source = f"{_FACTS} rule 8"
            found.add(ERROR, "addresses", table.place(spot, _KEY), said, None, source)


def _one_family(table: Contents, found: Findings) -> None:
    """All addresses of devices are IPv4, or all IPv6; the same holds for those of servers."""
    first = next((one for device in table.devices for one in device.device_ip), "")
    kind = address_family(first)
    for spot, device in table.placed():
        for address in device.device_ip:
            if address_family(address) != kind:
                _add_kind(found, table.place(spot, _KEY), address, first)
    first = next((server.host_ip for server in table.servers if server.host_ip), "")
    for index, server in enumerate(table.servers):
        if server.host_ip and address_family(server.host_ip) != address_family(first):
            _add_kind(found, f"server_list[{index}].host_ip", server.host_ip, first)


def _add_kind(found: Findings, place: str, address: str, first: str) -> None:
    said = f"is {address}, but {first} is of the other kind (IPv4, IPv6); with several servers "
    found.add(ERROR, "kind", place, f"{said}HCCL takes one kind.", None, f"{_FACTS} rule 9")


def _needed(table: Contents, family: Optional[str], roce: bool, found: Findings) -> None:
    several = len(table.servers) > 1
    for spot, device in table.placed():
        if device.device_ip:
            continue
        path = table.place(spot, _KEY)
        if several or roce:
            _missing(path, device, family, roce, found)
        elif family in (_TRAINING, _310P):
            said = f"is missing; the manual wants it on {family} also within one server."
            found.add(WARNING, "address wanted", path, said, None, f"{_FACTS} rule 10")


def _missing(
    path: str, device: TableDevice, family: Optional[str], roce: bool, found: Findings
) -> None:
    why = "HCCL_INTRA_ROCE_ENABLE=1" if roce else "a job of several servers"
    said, source = f"is missing or empty; {why} cannot work without it.", f"{_FACTS} rule 10"
    if family == _A3 and not roce:
        said = "is missing; the manual wants it, unless all is one superpod that uses HCCS."
        found.add(WARNING, "address missing", path, said, None, source)
    elif family is None and (device.host_ip is not None or not roce):
        if device.host_ip is None:
            said += " Only on A3, within one superpod, it may be left out."
        else:
            said += " Beside a host_ip it may be left out, but not on A2."
        found.add(UNCHECKED, "address missing", path, said, None, source)
    elif device.host_ip is None or family == _A2:
        hint = "`hccn_tool -i <device_id> -ip -g` and /etc/hccn.conf say it."
        found.add(ERROR, "address missing", path, said, hint, source)


def _host_network(table: Contents, found: Findings) -> None:
    """Where the servers' own network is used, each server has a host_ip."""
    if not table.devices:
        return
    first = table.devices[0]
    on_host = first.host_ip is not None and not first.device_ip
    if not on_host and all(device.net_position != "host" for device in table.devices):
        return
    for index, server in enumerate(table.servers):
        if server.host_ip is None:
            said = "is missing; ranks use the servers' own network, which needs it on all servers."
            found.add(ERROR, "host_ip", f"server_list[{index}].host_ip", said)
