"""What HCCL's loader takes, step by step in its own order, so that our rules can be held to it.

Source: guides/facts/rank_tables.md#rules-for-a-rank-table (HCOMM:
topoinfo_ranktableParser.cc, topoinfo_ranktableConcise.cc, config.cc, topoinfo_parse.cc,
hccl_communicator_attrs.cc and hccl_communicator_host.cc). It stops at the first fault, as the
loader does, and knows nothing of the product's own code.
"""

import re
import socket
from typing import Any, Dict, List, Optional, Set

from ascend_session.hardware.families import family

TRAINING, A2, A3, DUO = family("910A"), family("910B"), family("910C"), family("310P3")

FOURS = ("0123", "4567", "0145", "0246", "0347", "1256", "1357", "2367")


class RefusedError(Exception):
    """The loader returns an error, or waits."""


class MissingError(Exception):
    """A key is not there, which some callers bear with."""


def load(table: Any, product: Optional[str]) -> None:
    """Loads a table as a rank on this product would; raises RefusedError."""
    try:
        _load(table, product)
    except MissingError as error:
        raise RefusedError(f"{error} is missing") from None


def _load(table: Any, product: Optional[str]) -> None:
    if _text(table, "status") != "completed":
        raise RefusedError("it is waited for")
    version = _text(table, "version")
    if version not in ("1.0", "1.2"):
        raise RefusedError("version")
    ranks = _concise(table, version, product)
    count = len(table["server_list"])
    ranks.sort(key=lambda one: one["rank"])
    if [one["rank"] for one in ranks] != list(range(len(ranks))):
        raise RefusedError("rank ids")
    on_host = _network(ranks)
    if count > 1:
        _families(ranks)
    _topology(ranks, product, on_host)
    if product not in (A2, A3):
        of_server: Dict[str, int] = {}
        for one in ranks:
            of_server[one["server"]] = of_server.get(one["server"], 0) + 1
        if any(number != len(ranks) // count for number in of_server.values()):
            raise RefusedError("unequal servers")
        if product == TRAINING and any(n > 2 and n & (n - 1) for n in of_server.values()):
            raise RefusedError("no power of two")


def _concise(table: Dict[str, Any], version: str, product: Optional[str]) -> List[Dict[str, Any]]:
    servers = _json(table, "server_list")
    try:
        if _number(_text(table, "server_count")) != _size(servers):
            raise RefusedError("server_count")
    except MissingError:
        pass
    ids: Set[str] = set()
    addresses: Set[str] = set()
    ranks: List[Dict[str, Any]] = []
    for index in range(_size(servers)):
        server = _member(servers, index)
        server_id = _text(server, "server_id")
        if not 0 < len(server_id.encode()) <= 64 or server_id in ids:
            raise RefusedError("server_id")
        ids.add(server_id)
        try:
            text = _text(server, "host_ip")
            host = None if _is_unset(text) else _address(text)
        except MissingError:
            host = None
        devices = _json(server, "device")
        for place in range(_size(devices)):
            device = _member(devices, place)
            made = _device(device, host, _size(servers), addresses, product)
            made["server"] = server_id
            if version == "1.2" and "super_device_id" in device:
                made["sdid"] = _number(_text(device, "super_device_id"))
            ranks.append(made)
        if len({len(one["ips"]) for one in ranks}) != 1:
            raise RefusedError("as many addresses")
    if version == "1.2" and product == A3 and "super_pod_list" in table:
        _pods(_json(table, "super_pod_list"), ids, ranks)
    return ranks


def _device(
    device: Any, host: Optional[int], servers: int, addresses: Set[str], product: Optional[str]
) -> Dict[str, Any]:
    rank = _text(device, "rank_id")
    physical = _number(_text(device, "device_id"))
    if physical > {A2: 15, A3: 15, DUO: 31}.get(product, 7):
        raise RefusedError("device_id")
    _port(device, "host_port")
    ips = _device_ips(device, host, servers, addresses, product)
    if "device_port" in device:
        _port(device, "device_port")
        _port(device, "device_vnic_port")
    for key in ("net_position", "net_protocol"):
        if key in device:
            _text(device, key)
    return {
        "rank": _number(rank),
        "physical": physical,
        "ips": ips,
        "host": host,
        "on_host": device.get("net_position") == "host",
        "sdid": None,
        "pod": "",
    }


def _device_ips(
    device: Any, host: Optional[int], servers: int, addresses: Set[str], product: Optional[str]
) -> List[Optional[int]]:
    text, is_read, is_there = "", True, "device_ip" in device
    try:
        text = _text(device, "device_ip")
    except (MissingError, RefusedError):
        is_read = False
    if servers > 1:
        is_wrong = (not is_read and host is None) or (product == A2 and text == "")
        if is_wrong and product != A3:
            raise RefusedError("device_ip")
    elif not is_there:
        return [None]
    elif not is_read and host is None:
        raise RefusedError("device_ip")
    if text == "":
        return [None]
    parts = text.split(",")
    parts = parts if parts[-1] else parts[:-1]
    for part in parts:
        if part in addresses:
            raise RefusedError("address twice")
        addresses.add(part)
    return [_device_address(part) for part in parts]


def _pods(pods: Any, ids: Set[str], ranks: List[Dict[str, Any]]) -> None:
    seen: Set[str] = set()
    for index in range(_size(pods)):
        pod = _member(pods, index)
        pod_id = _text(pod, "super_pod_id")
        if pod_id in seen or not 0 < len(pod_id.encode()) <= 127:
            raise RefusedError("super_pod_id")
        seen.add(pod_id)
        servers = _json(pod, "server_list")
        for place in range(_size(servers)):
            server_id = _text(_member(servers, place), "server_id")
            if server_id not in ids:
                raise RefusedError("server of a pod")
            for one in ranks:
                if one["server"] == server_id:
                    one["pod"] = pod_id
    if any(not one["pod"] or one["sdid"] in (None, 0xFFFFFFFF) for one in ranks):
        raise RefusedError("no pod or sdid")
    if len({(one["pod"], one["sdid"]) for one in ranks}) != len(ranks):
        raise RefusedError("sdid twice")


def _network(ranks: List[Dict[str, Any]]) -> bool:
    first = ranks[0]
    on_host = first["host"] is not None and not any(first["ips"])
    if (on_host or any(one["on_host"] for one in ranks)) and any(
        one["host"] is None for one in ranks
    ):
        raise RefusedError("host_ip")
    return on_host or any(one["on_host"] for one in ranks)


def _topology(ranks: List[Dict[str, Any]], product: Optional[str], on_host: bool) -> None:
    servers: Dict[str, List[Dict[str, Any]]] = {}
    for one in ranks:
        servers.setdefault(one["server"], []).append(one)
    devices = {name: sorted(one["physical"] for one in own) for name, own in servers.items()}
    if any(len(set(own)) < len(own) for own in devices.values()):
        raise RefusedError("device twice")
    pods = {one.get("pod") for one in ranks}
    if not on_host and len(servers) > 1 and (len(pods) > 1 or not all(pods)):
        _interfaces(servers, len(ranks))
    if product == TRAINING and any(
        len(own) == 4 and "".join(map(str, own)) not in FOURS for own in devices.values()
    ):
        raise RefusedError("four devices")
    if product == A2 and len(devices) == 1:
        [own] = devices.values()
        halves = [[n % 8 for n in own if n // 8 == half] for half in (0, 1)]
        if all(halves) and len(own) > 2 and halves[0] != halves[1]:
            raise RefusedError("not on the same plane")


def _interfaces(servers: Dict[str, List[Dict[str, Any]]], size: int) -> None:
    listed = {
        name: sorted(one["physical"] for one in own if any(one["ips"]))
        for name, own in servers.items()
    }
    for name, own in servers.items():
        if len(own) != 8 or size != 8 * len(servers):
            continue
        has_host = any(one["host"] is not None for one in own)
        used = sorted(one["physical"] for one in own) if has_host else listed[name]
        if name != (name.strip(" ") or name) or not used or size % len(used):
            raise RefusedError("nic idx size")
        if len(used) != 8 and any(each and each != used for each in listed.values()):
            raise RefusedError("nic list")


def _families(ranks: List[Dict[str, Any]]) -> None:
    for kinds in ([one["host"] for one in ranks], [ip for one in ranks for ip in one["ips"]]):
        if len({kind for kind in kinds if kind is not None}) > 1:
            raise RefusedError("two kinds of addresses")


def _text(holder: Any, key: str) -> str:
    if not isinstance(holder, dict) or key not in holder:
        raise MissingError(key)
    if not isinstance(holder[key], str):
        raise RefusedError(f"{key} is no text")
    return str(holder[key])


def _json(holder: Any, key: str) -> Any:
    if not isinstance(holder, dict) or key not in holder:
        raise MissingError(key)
    if _size(holder[key]) == 0:
        raise RefusedError(f"{key} is empty")
    return holder[key]


def _member(holder: Any, index: int) -> Any:
    if not isinstance(holder, list):
        raise RefusedError("no list")
    return holder[index]


def _size(value: Any) -> int:
    if value is None:
        return 0
    return len(value) if isinstance(value, (list, dict)) else 1


def _number(text: str) -> int:
    match = re.match(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)", text)
    if match is None or int(match[2]) >= 1 << 64:
        raise RefusedError("no number")
    value = -int(match[2]) % (1 << 64) if match[1] == "-" else int(match[2])
    if value > 0xFFFFFFFF:
        raise RefusedError("too large")
    return value


def _port(device: Any, key: str) -> None:
    if key in device and not 1 <= _number(_text(device, key)) <= 65535:
        raise RefusedError(key)


def _is_unset(text: str) -> bool:
    return text.split("%")[0] == "0.0.0.0" and _address(text) > 0


def _device_address(text: str) -> int:
    if _is_unset(text):
        raise RefusedError("no address")
    return _address(text)


def _address(text: str) -> int:
    place = text.find("%")
    plain = text if place < 0 else text[:place]
    family_of = socket.AF_INET6 if plain.count(":") >= 2 else socket.AF_INET
    if not text or place in (0, len(text) - 1):
        raise RefusedError("address")
    try:
        socket.inet_pton(family_of, plain)
    except (OSError, ValueError):
        raise RefusedError("address") from None
    return int(family_of)
