"""HCCL's rules on what a rank table says, each with its source.

What the loader refuses is an error. What it takes although the manual says otherwise is a warning.
Rules that depend on the product or the environment are in `products` and `addresses`.

Source: launch_facts.md, A2 (HCOMM: config.cc and topoinfo_ranktableConcise.cc) and A3.
"""

from collections import Counter
from typing import Dict, Mapping, Optional, Tuple

from ascend_session.cluster.rank_table.addresses import check_addresses
from ascend_session.cluster.rank_table.contents import COMPLETED, INITIALIZING, Contents
from ascend_session.cluster.rank_table.findings import ERROR, WARNING, Findings, TableFinding
from ascend_session.cluster.rank_table.products import check_product
from ascend_session.cluster.rank_table.superpods import check_super_pods

__all__ = ["check_rules"]

_FACTS = "launch_facts A2"
_FEW = 8


def check_rules(
    table: Contents,
    family: Optional[str] = None,
    environ: Optional[Mapping[str, str]] = None,
    complete: bool = True,
) -> Tuple[TableFinding, ...]:
    """Looks at all rules.

    Args:
        table: What the table says.
        family: The product, as in `ascend_session.hardware.families`; None if not known.
        environ: The environment of the ranks; None for one in which nothing is set.
        complete: Whether all devices are there; rules on the whole are not looked at otherwise.

    Of a table at "initializing" nothing else is said: it is not for anyone to read yet.
    """
    found = Findings()
    _status(table, found)
    if table.status == INITIALIZING:
        return found.as_tuple()
    _servers(table, found)
    _devices(table, found)
    check_addresses(table, family, environ or {}, found)
    if complete:
        _something(table, found)
        _ranks(table, found)
        _grouping(table, found)
        check_product(table, family, found)
        check_super_pods(table, family, found)
    return found.as_tuple()


def _status(table: Contents, found: Findings) -> None:
    if table.status == COMPLETED:
        return
    said = (
        f"is {table.status!r}: the table is not ready. HCCL reads it again each second for up to "
        "1800 seconds, and says nothing."
    )
    hint = f'The word for a table that is ready is "{COMPLETED}".'
    if table.status == INITIALIZING:
        hint = "Wait for it with `ascend-session ranktable check --wait 10m`."
    found.add(ERROR, "status", "status", said, hint, f"{_FACTS} rule 2")


def _servers(table: Contents, found: Findings) -> None:
    seen: Dict[str, int] = {}
    trimmed: Dict[str, str] = {}
    for index, server in enumerate(table.servers):
        place = f"server_list[{index}].server_id"
        if server.server_id in seen:
            said = (
                f"is {server.server_id!r}, as is server_list[{seen[server.server_id]}]; a server "
                "is listed once."
            )
            found.add(ERROR, "server twice", place, said, None, f"{_FACTS} rule 8")
        seen.setdefault(server.server_id, index)
        alike = trimmed.setdefault(server.server_id.strip(), server.server_id)
        if alike != server.server_id:
            said = f"is {server.server_id!r} and differs from {alike!r} in blanks only."
            found.add(WARNING, "server blanks", place, said, "HCCL counts them as one server.")


def _devices(table: Contents, found: Findings) -> None:
    """No device twice in a server (config.cc, CheckDeviceId)."""
    for number, server in enumerate(table.servers):
        ranks: Dict[int, int] = {}
        ports: Dict[int, int] = {}
        for index, device in enumerate(server.devices):
            rank, spot = device.rank_id, (number, index)
            if int(device.device_id) in ranks:
                said = (
                    f"is {device.device_id}, as is that of rank {ranks[int(device.device_id)]} in "
                    f"{server.server_id!r}; each rank has a device of its own."
                )
                place = table.place(spot, "device_id")
                found.add(ERROR, "device twice", place, said, None, f"{_FACTS} rule 5")
            ranks.setdefault(int(device.device_id), rank)
            if device.host_port is not None and ports.setdefault(device.host_port, rank) != rank:
                said = f"is {device.host_port}, as is that of rank {ports[device.host_port]}; the "
                said += "manual wants another for each device of a server."
                place = table.place(spot, "host_port")
                found.add(WARNING, "host_port", place, said, None, "launch_facts A3")


def _something(table: Contents, found: Findings) -> None:
    if not table.servers:
        found.add(ERROR, "no server", "server_list", "is an empty list; HCCL refuses that.")
    for number, server in enumerate(table.servers):
        if not server.devices:
            said = "is an empty list; HCCL refuses that."
            found.add(ERROR, "no device", f"server_list[{number}].device", said)


def _ranks(table: Contents, found: Findings) -> None:
    """Ranks are 0 to size - 1, each once (config.cc, CheckRankListInfo)."""
    size, counts = table.size, Counter(device.rank_id for device in table.devices)
    if len(counts) == size and max(counts, default=-1) == size - 1:
        return
    source = f"{_FACTS} rule 3"
    for spot, device in table.placed():
        rank = device.rank_id
        if rank >= size:
            said = f"is {rank}, but the ranks of {size} devices are 0 to {size - 1}."
            found.add(ERROR, "rank too large", table.place(spot, "rank_id"), said, None, source)
        elif counts[rank] > 1:
            said = f"is {rank}, which {counts[rank]} devices have; each has a rank of its own."
            found.add(ERROR, "rank twice", table.place(spot, "rank_id"), said, None, source)
    missing = [rank for rank in range(size) if rank not in counts]
    if missing:
        named = ", ".join(map(str, missing[:_FEW]))
        more = f" and {len(missing) - _FEW:,} more" if len(missing) > _FEW else ""
        word = "rank" if len(missing) == 1 else "ranks"
        said = f"No device has {word} {named}{more}, and HCCL takes no gaps."
        found.add(ERROR, "rank missing", "", said, None, f"{_FACTS} rule 3")


def _grouping(table: Contents, found: Findings) -> None:
    """The ranks of a server follow each other; the manual wants it, the loader does not look."""
    for number, server in enumerate(table.servers):
        ranks = [device.rank_id for device in server.devices]
        if ranks and max(ranks) - min(ranks) >= len(ranks):
            said = (
                f"has ranks from {min(ranks)} to {max(ranks)}, mixed with those of other servers; "
                "the manual wants a server's ranks to follow each other."
            )
            place, source = table.server_place(number), f"{_FACTS} rule 4"
            found.add(WARNING, "grouping", place, said, None, source)
