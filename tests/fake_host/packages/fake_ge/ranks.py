"""Which rank this process is: what HCCL makes of the rank table, or of the environment.

Source: guides/facts/launch.md. Not modelled, for nothing of the product is decided by it: the wait
for a table that is "initializing", names that do not end in .json, addresses and ports, versions
1.1 and 2.0 and the form with chip_info.
"""

import json
import os
from typing import Any, Dict, List, NamedTuple, Sequence

from fake_ge.environment import Collectives
from fake_ge.messages import nested
from fake_ge.negotiation import NegotiationError, negotiated
from fake_ge.nodes import physical_of

__all__ = ["Place", "RankTableError", "place"]


class RankTableError(Exception):
    """A table that HCCL refuses; the text is what it says."""


class Place(NamedTuple):
    """This process among all ranks.

    Attributes:
        rank: Its number.
        servers: The ranks of each server.
        addresses: Where each rank's device is reached, by rank; none where nobody said.
    """

    rank: int
    servers: List[List[int]]
    addresses: Sequence[str] = ()

    @property
    def size(self) -> int:
        """The number of ranks."""
        return sum(len(ranks) for ranks in self.servers)

    @property
    def neighbours(self) -> List[int]:
        """The ranks of this process's server."""
        return next(ranks for ranks in self.servers if self.rank in ranks)


def place(collectives: Collectives, device: int) -> Place:
    """The place of the process that has this logical device.

    Raises:
        RankTableError: If the table cannot be used.
    """
    options = collectives.options
    if "rank_table_file" in options:
        return _from_table(options, device)
    size = int(options.get("cm_worker_size") or 1)
    if size > 1:
        return _from_chief(options, device, size)
    # HELP_CLUSTER, which says nothing of ranks, and a job of one
    size = int(os.environ.get("RANK_SIZE") or 1)
    rank = int(os.environ.get("RANK_ID") or 0)
    return Place(rank, [list(range(max(size, rank + 1)))])


def _from_chief(options: Dict[str, str], device: int, size: int) -> Place:
    # guides/facts/launch.md#jobs-without-a-rank-table
    physical = physical_of(device)
    try:
        devices = negotiated(options, device, physical, size)
    except NegotiationError as error:
        raise RankTableError(str(error)) from None
    addresses = [f"{options['cm_chief_ip']}/{number}" for number in devices]
    return Place(devices.index(physical), [list(range(size))], addresses)


def _from_table(options: Dict[str, str], device: int) -> Place:
    table = _read(options["rank_table_file"])
    if "version" not in table:
        return _from_pods(table, options.get("pod_name", ""), device)
    servers = [_devices(server) for server in table["server_list"]]
    rows = {int(row["rank_id"]): row for server in servers for row in server}
    # guides/facts/rank_tables.md#rules-for-a-rank-table: rank_id
    if sorted(rows) != list(range(sum(len(server) for server in servers))):
        raise _wrong("EI0014", "rank_id must be less than the communication size and be unique")
    own = options.get("rank_id", "")
    # guides/facts/launch.md#collectives-that-are-switched-off: a table without RANK_ID
    if not own.isdigit() or int(own) not in rows:
        raise _wrong("EI0004", f"RANK_ID [{own}] is not in the rank table")
    local, listed = physical_of(device), int(rows[int(own)]["device_id"])
    if listed != local:
        # guides/facts/rank_tables.md#physical-ids-in-a-rank-table
        raise _wrong("EI0014", f"ranktable config devId[{listed}],but local devId[{local}]")
    addresses = {
        int(row["rank_id"]): f"{server['server_id']}/{row['device_id']}"
        for server in table["server_list"]
        for row in server["device"]
    }
    return Place(
        int(own),
        [sorted(int(row["rank_id"]) for row in server) for server in servers],
        [addresses[rank] for rank in sorted(addresses)],
    )


def _from_pods(table: Any, own: str, device: int) -> Place:
    # guides/facts/rank_tables.md#former-rank-tables: template 2
    pods = [pod for group in table["group_list"] for pod in group["instance_list"]]
    local = physical_of(device)
    rows = [(pod, row) for pod in pods for row in pod["devices"]]
    mine = [
        rank
        for rank, (pod, row) in enumerate(rows)
        if pod["pod_name"] == own and int(row["device_id"]) == local
    ]
    if not mine:
        raise _wrong("EI0014", f"no devId[{local}] of POD_NAME [{own}] in the rank table")
    servers: Dict[str, List[int]] = {}
    for rank, (pod, _) in enumerate(rows):
        servers.setdefault(pod["server_id"], []).append(rank)
    addresses = [f"{pod['server_id']}/{row['device_id']}" for pod, row in rows]
    return Place(mine[0], list(servers.values()), addresses)


def _read(path: str) -> Any:
    # guides/facts/rank_tables.md#reading-a-rank-table: EI0004
    try:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
    except OSError:
        raise _wrong("EI0004", f"[{path}] is not a valid real path") from None
    except ValueError:
        raise _wrong("EI0004", f"[{path}] is not valid JSON") from None
    # guides/facts/rank_tables.md#versions-of-rank-tables
    if table.get("version", "1.0") not in ("1.0", "1.2"):
        raise _wrong("EI0014", f"version [{table.get('version')}] is not supported")
    return table


def _devices(server: Any) -> List[Any]:
    for row in server["device"]:
        for key in ("device_id", "rank_id"):
            # guides/facts/rank_tables.md#rules-for-a-rank-table: text, no numbers
            if not isinstance(row.get(key), str):
                raise _wrong("EI0004", f"{key} is not string!")
    return list(server["device"])


def _wrong(code: str, reason: str) -> RankTableError:
    return RankTableError(nested(code, reason))
