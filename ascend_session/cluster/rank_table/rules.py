"""HCCL's rules for rank tables, each with its source (guides/facts/rank_tables.md).

What HCCL's loader (HCOMM) refuses is an error. What only the manual (HCCL's pages on rank tables)
forbids is a warning. If a rule depends on the product, and the product is not known, what it would
report is "not checked".
"""

import ipaddress
import re
from collections import Counter
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ascend_session.cluster.rank_table.contents import (
    COMPLETED,
    INITIALIZING,
    V1_2,
    Contents,
    Spot,
)
from ascend_session.cluster.rank_table.fields import pack_address
from ascend_session.cluster.rank_table.formats import A3_ONLY, rate_super_pods
from ascend_session.errors import JobError
from ascend_session.findings import (
    ERROR,
    INFO,
    NOT_CHECKED,
    WARNING,
    Finding,
    errors_of,
    limit_repeats,
    sort_by_severity,
)
from ascend_session.hardware.families import (
    SERVER_DEVICES,
    find_count_fault,
    find_four_fault,
    find_half_fault,
    find_ring_fault,
    most_devices,
)
from ascend_session.text import printable
from ascend_session.vendor import A2, A3, A5, DUO, TRAINING, address_family

_MOST_RANKS_NAMED = 8  # in a message
_INVALID_SDID = str(0xFFFFFFFF)  # HCCL treats it as missing

# Rules that report a missing field; a wrong one is not read, so that they would report it as well.
_ON_MISSING = ("address missing", "address wanted", "addresses", "host_ip", "no pod", "no sdid")

_Findings = Iterator[Finding]

_CONCISE = "HCOMM, topoinfo_ranktableConcise.cc"
_CONFIG = "HCOMM, config.cc"
_PARSER = "HCOMM, topoinfo_ranktableParser.cc"
_TOPOLOGY = "HCOMM, topoinfo_parse.cc"
_MANUAL = "HCCL manual, cluster_info_config"
_TRAINING_MANUAL = "TensorFlow adapter manual, distributed_training.md"

_SOURCES = {
    "file name": "HCCL's error EI0004 (is not a valid real path)",
    "status": "HCOMM, HCCL_RANKTABLE_TIMEOUT_S; GE, GetJsonProperty in hcom_base_funs.cc",
    "server twice": f"{_PARSER}, CheckUniqueAndInsertPool; HCCL's error EI0014",
    "server blanks": "HCOMM, SalTrim in TransformRankInfoByServerId",
    "device twice": f"{_TOPOLOGY}, CheckInterServerDeviceId",
    "host_port": f"{_MANUAL}, version 1.2",
    "rank too large": f"{_CONFIG}, CheckRankListInfo",
    "rank twice": f"{_CONFIG}, CheckRankListInfo",
    "rank missing": f"{_CONFIG}, CheckRankListInfo",
    "grouping": _MANUAL,
    # Addresses
    "address twice": f"{_CONCISE}, GetSingleDeviceIp",
    "address alike": f"{_CONCISE}, GetSingleDeviceIp",
    "addresses": f"{_CONCISE}, GetSingleDeviceIp",
    "kind": f"{_CONFIG}, CheckRankIpFamily",
    "backup twice": f"{_PARSER}, CheckUniqueAndInsertPool",
    "backup owner": f"{_CONCISE}, VerifyBackupDeviceIpAndPort",
    "address wanted": _MANUAL,
    "address missing": f"{_CONCISE}, CheckNicDeployConsistence",
    "interfaces": f"{_TOPOLOGY}, CheckAndAssignNicInfo",
    # The product
    "product": _MANUAL,
    "device_id": f"{_CONCISE}, GetSingleDevice",
    "counts": f"{_CONFIG}, CheckDeviceNumValid",
    "number of devices": "HCOMM, hccl_communicator_attrs_host.cc, CheckDevCount",
    "four devices": f"{_TOPOLOGY}, CheckServerInnerRankInfo; HCCL's error EI0014",
    "rings": _TRAINING_MANUAL,
    "halves": "HCOMM, hccl_communicator_host.cc, CheckSingleServerComm; HCCL's error EI0010",
    # Superpods
    "no pods": f"{_CONCISE}, CheckSuperPodInfo",
    "pods elsewhere": "HCOMM, GetSuperPodList",
    "no pod": f"{_CONCISE}, CheckSuperPodInfo",
    "no sdid": f"{_CONCISE}, CheckSuperPodInfo",
    "sdid twice": f"{_CONCISE}, CheckSuperPodInfo",
    "pods mixed": f"{_MANUAL}, version 1.2",
    # The host
    "no rank": "HCCL's error EI0014",
    "opened": "HCCL's error EI0014",
    "no node": "HCCL's error EI0014",
    "hidden": "HCCL's error EI0014",
    "address": "HCCL's error EJ0004",
    "own sdid": "HCOMM, hccl_communicator_attrs.cc, CheckSuperDeviceId; HCCL's error EI0014",
}


def make_finding(
    severity: str, rule: str, place: str, message: str, hint: Optional[str] = None
) -> Finding:
    """Return a finding with the source of its rule."""
    return Finding(severity, message, hint, rule, None, place, _SOURCES.get(rule))


def tidy_findings(findings: Iterable[Finding]) -> List[Finding]:
    """Merge repeated findings, put errors first, and escape text from the table."""
    return [
        finding._replace(
            message=printable(finding.message), place=printable(str(finding.place or ""))
        )
        for finding in sort_by_severity(limit_repeats(findings))
    ]


def refuse_table(name: str, findings: Sequence[Finding]) -> JobError:
    """Return an exception that names all errors among the findings, and has all findings."""
    errors = errors_of(findings)
    if len(errors) == 1:
        message = f"{name}: {errors[0]._replace(hint=None)}"
        return JobError(message, hint=errors[0].hint, findings=findings)
    lines = [f"{name}: {len(errors)} problems:"]
    lines += [f"  {number}. {error}" for number, error in enumerate(errors, 1)]
    return JobError("\n".join(lines), findings=findings)


def check_rules(
    table: Contents, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
) -> List[Finding]:
    """Check a table by all rules; those about all devices only if every device could be read.

    Args:
        table: The table.
        family: The product, as in `ascend_session.hardware.families`; None if not known.
        environ: The environment of the ranks; None for an empty one.

    Returns:
        The findings, errors first; for a table at "initializing" only an error that says so.
    """
    findings = [*_check_status(table)]
    with_roce = uses_roce(environ or {})
    if table.status != INITIALIZING:
        findings += [*_check_servers(table), *_check_devices(table)]
        findings += [*_check_repeated_addresses(table), *_check_address_counts(table)]
        if len(table.servers) > 1:
            findings += [*_check_address_kinds(table), *_check_subnets(table)]
        findings += _check_missing_addresses(table, family, with_roce)
        findings += [*_check_host_network(table), *_check_interfaces(table, family)]
        findings += _check_backups(table, _rate_backup(family, environ or {}))
        if table.is_complete:
            findings += [*_check_emptiness(table), *_check_ranks(table), *_check_grouping(table)]
            findings += _check_order(table)
            findings += [*_check_product(table, family), *_check_super_pods(table, family)]
            if not with_roce:
                findings += _check_halves(table, family)
    return tidy_findings(findings)


_BACKUP_RULES = {
    f"{fault} backup_device_{key}"
    for fault in ("type", "address", "number", "port")
    for key in ("ip", "port")
}


def rate_backups(
    remarks: Iterable[Finding], family: Optional[str], environ: Mapping[str, str]
) -> List[Finding]:
    """Turn faults of backup addresses into errors if HCCL reads them.

    If the product is not known, they are not checked.
    """
    severity = _rate_backup(family, environ)
    return [
        remark._replace(severity=severity)
        if severity and remark.rule in _BACKUP_RULES and remark.severity == WARNING
        else remark
        for remark in remarks
    ]


def _rate_backup(family: Optional[str], environ: Mapping[str, str]) -> Optional[str]:
    """Return the severity of a fault of backup addresses that HCCL refuses; None if it reads none.

    It reads them on A3, to retry operators between superpods, but for HOST as the mode of
    HCCL_OP_EXPANSION_MODE. Source: HCOMM, topoinfo_ranktableConcise.cc, GetSingleBackupDeviceIp;
    externalinput.cc, ParseOpExpansion.
    """
    levels = environ.get("HCCL_OP_RETRY_ENABLE", "").replace(" ", "").split(",")
    if "L2:1" not in levels or environ.get("HCCL_OP_EXPANSION_MODE") == "HOST":
        return None
    return {A3: ERROR, None: NOT_CHECKED}.get(family)


def _check_backups(table: Contents, severity: Optional[str]) -> _Findings:
    """Check that each backup address occurs once, and is that of the NPU's other device.

    Addresses that the table does not have are not compared (HCCL only warns of them).
    """
    note = " Only A3 reads it." if severity == NOT_CHECKED else ""
    seen: Dict[str, Spot] = {}
    for number, server in enumerate(table.servers) if severity else ():
        owners = {
            pack_address(address): device
            for device in reversed(server.devices)
            for address in device.device_ip
        }
        for index, device in enumerate(server.devices):
            for address in dict.fromkeys(device.backup_device_ip):
                place = table.locate((number, index), "backup_device_ip")
                first = seen.setdefault(address, (number, index))
                owner, device_id = owners.get(pack_address(address)), int(device.device_id)
                port, rule = device.backup_device_port, "backup owner"
                if first != (number, index) or device.backup_device_ip.count(address) > 1:
                    other = table.locate(first, "backup_device_ip")
                    message = f"is {address}, as is {other}; HCCL takes a backup address once."
                    rule = "backup twice"
                elif owner is None:
                    continue
                elif int(owner.device_id) == device_id:
                    message = f"is {address}, an address of this very device; HCCL refuses that."
                elif int(owner.device_id) != device_id ^ 1:
                    message = f"is {address} of device {owner.device_id}; HCCL takes that of the "
                    message += f"other device of this NPU, {device_id ^ 1}."
                elif port is not None and port == owner.device_port:
                    place = table.locate((number, index), "backup_device_port")
                    message = f"is {port}, the device_port of device {owner.device_id}, whose "
                    message += "address is the backup; HCCL refuses that."
                else:
                    continue
                yield make_finding(str(severity), rule, place, message + note)


def drop_consequences(
    findings: Iterable[Finding], field_findings: Iterable[Finding]
) -> List[Finding]:
    """Remove notes, and findings about missing fields that are not missing but wrong."""
    wrong = {str(finding.place) for finding in errors_of(field_findings)}
    servers = {place.split(".")[0] for place in wrong if place.endswith(".device_ip")}
    return [
        each
        for each in findings
        if each.severity != INFO
        and not (each.rule in _ON_MISSING and each.place in wrong)
        and not (each.rule == "interfaces" and each.place in servers)
    ]


def uses_roce(environ: Mapping[str, str]) -> bool:
    """Return whether devices of one server connect by IP address (HCCL also reads 01 as 1)."""
    return re.fullmatch("0*1", environ.get("HCCL_INTRA_ROCE_ENABLE", "")) is not None


def _check_status(table: Contents) -> _Findings:
    if table.status == COMPLETED:
        return
    message = (
        f"is {table.status!r}: the table is not ready. HCCL reads it again each second for up to "
        "1800 seconds, in silence."
    )
    if not table.status:
        message = "is empty: the table is not ready. GE, by which TensorFlow reads it, refuses it."
    hint = f'A table that is ready has "status": "{COMPLETED}".'
    if table.status == INITIALIZING:
        hint = "Wait for it with `ascend-session ranktable check --wait 10m`."
    yield make_finding(ERROR, "status", "status", message, hint)


def _check_servers(table: Contents) -> _Findings:
    """Check that no server is listed twice."""
    seen: Dict[str, int] = {}
    trimmed: Dict[str, str] = {}
    for index, server in enumerate(table.servers):
        name, place = server.server_id, f"server_list[{index}].server_id"
        bare = trim(name)
        if name in seen:
            message = f"is {name!r}, as is server_list[{seen[name]}]; a server is listed once."
            yield make_finding(ERROR, "server twice", place, message)
        seen.setdefault(name, index)
        alike = trimmed.setdefault(bare, name)
        if alike != name:
            message = f"is {name!r} and differs from {alike!r} in blanks only."
            hint = "HCCL counts them as one server."
            yield make_finding(WARNING, "server blanks", place, message, hint)
        elif bare != name:
            message = f"is {name!r}; HCCL cuts the blanks off in one place, and not in another."
            yield make_finding(WARNING, "server blanks", place, message, f'Write "{bare}".')


def trim(server_id: str) -> str:
    """Strip blanks as HCCL does (HCOMM, SalTrim), which keeps a text of blanks only."""
    return server_id.strip(" ") or server_id


def _check_devices(table: Contents) -> _Findings:
    """Check that no device or port occurs twice in a server."""
    for number, server in enumerate(table.servers):
        ranks: Dict[int, int] = {}
        ports: Dict[int, int] = {}
        for index, device in enumerate(server.devices):
            rank, physical, port = device.rank_id, int(device.device_id), device.host_port
            if physical in ranks:
                message = (
                    f"is {physical}, as is that of rank {ranks[physical]} in "
                    f"{server.server_id!r}; each rank has a device of its own."
                )
                place = table.locate((number, index), "device_id")
                yield make_finding(ERROR, "device twice", place, message)
            ranks.setdefault(physical, rank)
            if port is not None and ports.setdefault(port, rank) != rank:
                message = (
                    f"is {port}, as is that of rank {ports[port]}; the manual wants another for "
                    "each device of a server."
                )
                place = table.locate((number, index), "host_port")
                yield make_finding(WARNING, "host_port", place, message)


def _check_emptiness(table: Contents) -> _Findings:
    message = "is an empty list; HCCL refuses that."
    if not table.servers:
        yield make_finding(ERROR, "no server", "server_list", message)
    for number, server in enumerate(table.servers):
        if not server.devices:
            yield make_finding(ERROR, "no device", f"server_list[{number}].device", message)


def _check_ranks(table: Contents) -> _Findings:
    """Check that the ranks are 0 to size - 1, each once."""
    size, counts = table.size, Counter(device.rank_id for device in table.devices)
    if len(counts) == size and max(counts, default=-1) == size - 1:
        return
    for spot, device in table.iterate():
        rank = device.rank_id
        if rank >= size:
            message = f"is {rank}, but the ranks of {size} devices are 0 to {size - 1}."
            yield make_finding(ERROR, "rank too large", table.locate(spot, "rank_id"), message)
        elif counts[rank] > 1:
            message = f"is {rank}, which {counts[rank]} devices have; each has a rank of its own."
            yield make_finding(ERROR, "rank twice", table.locate(spot, "rank_id"), message)
    missing = [rank for rank in range(size) if rank not in counts]
    if missing:
        named = ", ".join(map(str, missing[:_MOST_RANKS_NAMED]))
        more_count = len(missing) - _MOST_RANKS_NAMED
        more = f" and {more_count:,} more" if more_count > 0 else ""
        word = "rank" if len(missing) == 1 else "ranks"
        message = f"No device has {word} {named}{more}, and HCCL takes no gaps."
        yield make_finding(ERROR, "rank missing", "", message)


def _check_grouping(table: Contents) -> _Findings:
    """Check that the ranks of a server are consecutive, as only the manual demands."""
    for number, server in enumerate(table.servers):
        ranks = [device.rank_id for device in server.devices]
        if ranks and max(ranks) - min(ranks) >= len(ranks):
            message = (
                f"has ranks from {min(ranks)} to {max(ranks)}, mixed with those of other servers; "
                "the manual wants a server's ranks to follow each other."
            )
            yield make_finding(WARNING, "grouping", table.locate_server(number), message)


def _check_order(table: Contents) -> _Findings:
    """Note servers whose ranks are not in the order of the devices, as some scripts assume."""
    if {device.rank_id for device in table.devices} != set(range(table.size)):
        return  # other rules report that
    for number, server in enumerate(table.servers):
        by_rank = sorted(server.devices, key=lambda device: device.rank_id)
        physical = [int(device.device_id) for device in by_rank]
        if physical != sorted(physical):
            message = (
                f"has its ranks on the devices {', '.join(map(str, physical))}, in this order; "
                "HCCL takes any order."
            )
            hint = "To change it, number the ranks in the order of the devices."
            yield make_finding(INFO, "order", table.locate_server(number), message, hint)


# Addresses of devices and servers


def _check_repeated_addresses(table: Contents) -> _Findings:
    """Check that no address occurs twice; HCCL compares the texts, so ``::1`` is not ``0::1``."""
    seen: Dict[str, Spot] = {}
    alike: Dict[bytes, str] = {}
    for spot, device in table.iterate():
        for address in device.device_ip:
            if address in seen:
                first = table.locate(seen[address], "device_ip")
                message = f"is {address}, as is {first}; HCCL takes an address once."
                place = table.locate(spot, "device_ip")
                yield make_finding(ERROR, "address twice", place, message)
                continue
            seen[address] = spot
            same = alike.setdefault(pack_address(address), address)
            if same != address:
                message = f"is {address}, which is the same address as {same}."
                place = table.locate(spot, "device_ip")
                yield make_finding(WARNING, "address alike", place, message)


def _check_address_counts(table: Contents) -> _Findings:
    """Check that all devices have equally many addresses; none counts as one."""
    counts = [(spot, max(1, len(device.device_ip))) for spot, device in table.iterate()]
    for spot, count in counts:
        if count != counts[0][1]:
            message = (
                f"has {count} addresses, but the first device has {counts[0][1]}; all need the "
                "same number."
            )
            yield make_finding(ERROR, "addresses", table.locate(spot, "device_ip"), message)


def _check_address_kinds(table: Contents) -> _Findings:
    """Check that addresses are all IPv4 or all IPv6, those of devices and those of servers."""
    first = next((address for device in table.devices for address in device.device_ip), "")
    kind = address_family(first)
    for spot, device in table.iterate():
        for address in device.device_ip:
            if address_family(address) != kind:
                yield _other_kind(table.locate(spot, "device_ip"), address, first)
    hosts = [(index, each.host_ip) for index, each in enumerate(table.servers) if each.host_ip]
    for index, address in hosts:
        if address_family(address) != address_family(hosts[0][1]):
            yield _other_kind(f"server_list[{index}].host_ip", address, hosts[0][1])


def _other_kind(place: str, address: str, first: str) -> Finding:
    message = (
        f"is {address}, but {first} is of the other kind (IPv4, IPv6); with several servers HCCL "
        "takes one kind."
    )
    return make_finding(ERROR, "kind", place, message)


# Bytes of a subnet, by bytes of an address: /24 and /64, because a table has no netmask.
_SUBNET_BYTES = {4: 3, 16: 8}


def _check_subnets(table: Contents) -> _Findings:
    """Note addresses alone in their subnet where most others share one: they may be mistyped."""
    listed = Counter(device.device_ip for device in table.devices)
    if () in listed or len(listed) < table.size:
        return  # other rules report that
    subnets: Dict[bytes, List[Tuple[Spot, str]]] = {}
    for spot, device in table.iterate():
        for address in device.device_ip:
            packed = pack_address(address)
            if len(packed) in _SUBNET_BYTES:
                subnet = packed[: _SUBNET_BYTES[len(packed)]]
                subnets.setdefault(subnet, []).append((spot, address))
    alone = [others[0] for others in subnets.values() if len(others) == 1]
    if 2 * len(alone) >= sum(map(len, subnets.values())):
        return
    for spot, address in alone:
        packed = pack_address(address)
        bits = 8 * _SUBNET_BYTES[len(packed)]
        subnet_text = ipaddress.ip_network((packed, bits), strict=False)
        message = f"is {address}; no other device of the table has an address in {subnet_text}."
        hint = "Make sure that the other devices reach it."
        yield make_finding(INFO, "subnet", table.locate(spot, "device_ip"), message, hint)


def _check_missing_addresses(table: Contents, family: Optional[str], with_roce: bool) -> _Findings:
    """Check that devices have addresses where HCCL uses their network interfaces."""
    has_several = len(table.servers) > 1
    for spot, device in table.iterate():
        if device.device_ip:
            continue
        place = table.locate(spot, "device_ip")
        if not has_several and not with_roce:
            if family in (TRAINING, DUO):
                message = f"is missing; the manual wants it on {family} also within one server."
                yield make_finding(WARNING, "address wanted", place, message)
            continue
        reason = "HCCL_INTRA_ROCE_ENABLE=1" if with_roce else "a job of several servers"
        message = f"is missing or empty; {reason} cannot work without it."
        if family != A2 and not with_roce:
            message += " HCCL's loader takes an empty one, but ranks cannot connect to it."
        has_host = device.host_ip is not None
        if family == A3 and not with_roce:
            message = "is missing; the manual wants it, unless all is one superpod that uses HCCS."
            yield make_finding(WARNING, "address missing", place, message)
        elif family is None and has_host:
            message += " Beside a host_ip it may be left out, but not on A2."
            yield make_finding(NOT_CHECKED, "address missing", place, message)
        elif family is None and not with_roce:
            message += " Only on A3, within one superpod, it may be left out."
            yield make_finding(NOT_CHECKED, "address missing", place, message)
        elif not has_host or family == A2:
            hint = "`hccn_tool -i <device_id> -ip -g` and /etc/hccn.conf show it."
            yield make_finding(ERROR, "address missing", place, message, hint)


def _check_host_network(table: Contents) -> _Findings:
    """Check that each server has a host_ip if HCCL uses the servers' own network."""
    if not _uses_host_network(table):
        return
    message = "is missing; ranks use the servers' own network, which needs it on all servers."
    for index, server in enumerate(table.servers):
        if server.host_ip is None:
            yield make_finding(ERROR, "host_ip", f"server_list[{index}].host_ip", message)


def _uses_host_network(table: Contents) -> bool:
    first = table.devices[:1]
    on_host = any(device.host_ip is not None and not device.device_ip for device in first)
    return on_host or any(device.net_position == "host" for device in table.devices)


def _check_interfaces(table: Contents, family: Optional[str]) -> _Findings:
    """Check that servers of 8 devices have addresses for the same devices, unless in one superpod.

    HCCL finds no addresses for a server_id with a blank at an end (see `_check_servers`).
    """
    servers = table.servers
    pods = {server.super_pod_id for server in servers if family in (None, A3)}
    is_one_pod = len(pods) == 1 and None not in pods
    is_whole = table.size == SERVER_DEVICES * len(servers)
    if len(servers) < 2 or is_one_pod or not is_whole or _uses_host_network(table):
        return
    addressed = [
        sorted(int(device.device_id) for device in server.devices if device.device_ip)
        for server in servers
    ]
    for index, (server, ids) in enumerate(zip(servers, addressed)):
        name = server.server_id
        if len(server.devices) != SERVER_DEVICES:
            continue
        if trim(name) != name:
            message = f"is {name!r}; on a server with 8 devices HCCL refuses blanks at its ends."
            place, hint = f"server_list[{index}].server_id", f'Write "{trim(name)}".'
            yield make_finding(ERROR, "interfaces", place, message, hint)
        elif family not in (None, A3) or len(ids) == SERVER_DEVICES:
            continue  # on other products each missing address is an error
        elif server.host_ip is not None:
            continue  # it stands for the addresses of all devices
        elif not ids or table.size % len(ids) or any(each and each != ids for each in addressed):
            named = ", ".join(map(str, ids)) or "none"
            message = (
                f"has addresses for {named} of its 8 devices; outside a superpod HCCL takes those "
                "of all, or of the same 1, 2 or 4 in each server."
            )
            yield make_finding(ERROR, "interfaces", table.locate_server(index), message)


# Rules that depend on the product


def _check_product(table: Contents, family: Optional[str]) -> _Findings:
    """Check that the product has this format, these devices, and so many of them in a server."""
    if family == A5:
        message = f"is version {table.format}, but {family} takes version 2.0 only."
        yield make_finding(ERROR, "product", "version", message)
        return
    yield from _check_device_ids(table, family)
    yield from _check_device_counts(table, family)
    if family in (TRAINING, None):
        yield from _check_rings(table, family)


def _check_device_ids(table: Contents, family: Optional[str]) -> _Findings:
    limit = most_devices(family)
    for spot, device in table.iterate():
        physical = int(device.device_id)
        if physical >= limit:
            message = (
                f"is {physical}, but on {family or 'any product'} HCCL takes 0 to {limit - 1}."
            )
            yield make_finding(ERROR, "device_id", table.locate(spot, "device_id"), message)
        elif family is None and physical >= SERVER_DEVICES:
            is_large = physical >= most_devices(A2)
            products = "only 310P takes" if is_large else "only A2, A3 and 310P take"
            message = f"is {physical}, which {products}."
            yield make_finding(NOT_CHECKED, "device_id", table.locate(spot, "device_id"), message)


def _check_device_counts(table: Contents, family: Optional[str]) -> _Findings:
    counts = sorted({len(server.devices) for server in table.servers})
    if len(counts) < 2:
        return
    message = f"Servers have from {counts[0]} to {counts[-1]} devices; "
    if family in (A2, A3):
        severity = WARNING
        message += "the manual advises the same number in each."
    elif family is None:
        severity = NOT_CHECKED
        message += "only A2 and A3 take that, all others the same number in each."
    else:
        severity = ERROR
        message += f"on {family} HCCL takes the same number in each only."
    yield make_finding(severity, "counts", "", message)


def _check_rings(table: Contents, family: Optional[str]) -> _Findings:
    for number, server in enumerate(table.servers):
        physical = [int(device.device_id) for device in server.devices]
        faults = (
            (ERROR, "number of devices", find_count_fault(physical)),
            (ERROR, "four devices", find_four_fault(physical)),
            (WARNING, "rings", find_ring_fault(physical)),
        )
        for severity, rule, fault in faults:
            if fault:
                if family is None:
                    severity, fault = NOT_CHECKED, f"If this is the Atlas training series: {fault}"
                yield make_finding(severity, rule, table.locate_server(number), fault)
                break


def _check_halves(table: Contents, family: Optional[str]) -> _Findings:
    """Check that a job on one A2 server has the same devices of both halves."""
    fault = find_half_fault([int(device.device_id) for device in table.devices])
    if not fault or len(table.servers) > 1 or family not in (None, A2):
        return
    # To HCCL two devices without HCCS between them are standard cards (IsStandardCard).
    severity = WARNING if len(table.devices) == 2 else ERROR
    hint = "With HCCL_INTRA_ROCE_ENABLE=1 HCCL takes them."
    if family is None:
        severity, fault = NOT_CHECKED, f"If this is A2: {fault}"
    yield make_finding(severity, "halves", table.locate_server(0), fault, hint)


# Superpods of version 1.2


def _check_super_pods(table: Contents, family: Optional[str]) -> _Findings:
    if table.format != V1_2:
        return
    pods = [server.super_pod_id for server in table.servers]
    reported = [str(remark.place) for remark in table.remarks]
    if not any(pods):
        if not any(place.startswith("super_pod_list") for place in reported):
            message = "is missing; without it HCCL takes the servers as in version 1.0."
            yield make_finding(WARNING, "no pods", "super_pod_list", message)
        return
    if "super_pod_list" in reported:
        return
    severity = rate_super_pods(family)
    if severity == WARNING:
        message = f"is for A3; on {family} HCCL does not look at superpods."
        yield make_finding(WARNING, "pods elsewhere", "version", message, 'Write "1.0".')
    for index, server in enumerate(table.servers):
        if not server.super_pod_id:
            message = f"is {server.server_id!r}, which no superpod has; HCCL wants each in one."
            message += A3_ONLY if severity == NOT_CHECKED else ""
            place = f"server_list[{index}].server_id"
            yield make_finding(severity, "no pod", place, message, "Add it to super_pod_list.")
    yield from _check_super_device_ids(table, severity)
    earlier = set(pods[:1])
    for index, (before, pod) in enumerate(zip(pods, pods[1:]), 1):
        if pod != before and pod in earlier:
            message = f"is of superpod {pod!r} again; the manual wants its servers side by side."
            yield make_finding(WARNING, "pods mixed", f"server_list[{index}]", message)
        earlier.add(pod)


def _check_super_device_ids(table: Contents, severity: str) -> _Findings:
    """Check that each device has its own number in its superpod."""
    note = A3_ONLY if severity == NOT_CHECKED else ""
    seen: Dict[Tuple[Optional[str], str], Spot] = {}
    for spot, device in table.iterate():
        number = device.super_device_id
        if number is None or number == _INVALID_SDID:
            place = table.locate(spot, "super_device_id")
            message = f"is {number or 'missing'}; with a super_pod_list each device needs its own."
            message += note
            hint = "`npu-smi info -t spod-info -i <id> -c <chip>` shows it (SDID)."
            yield make_finding(severity, "no sdid", place, message, hint)
            continue
        first = seen.setdefault((table.servers[spot[0]].super_pod_id, number), spot)
        if first != spot:
            other = table.locate(first, "super_device_id")
            message = f"is {number}, as is {other} in the same superpod.{note}"
            place = table.locate(spot, "super_device_id")
            yield make_finding(severity, "sdid twice", place, message)
