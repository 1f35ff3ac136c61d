"""Which part of a rank table is this node's: the ranks and devices that are started here."""

import hashlib
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.coordinator import is_address
from ascend_session.cluster.kubernetes import pod_names
from ascend_session.cluster.rank_table import RankTable, TableDevice
from ascend_session.cluster.rank_table.contents import COMPLETED, Contents
from ascend_session.cluster.rank_table.host import host_names
from ascend_session.cluster.rank_table.reading import read
from ascend_session.cluster.rank_table.source import read_text
from ascend_session.errors import JobError

__all__ = ["TableNode", "TableNodes", "may_have_several", "table_nodes"]


class TableNode(NamedTuple):
    """A server of a table, or in template 2 a pod.

    Attributes:
        name: What the table calls it.
        address: Where it can be reached; empty if the table does not say.
        devices: Its devices, by rank.
        mine: Why it is this node; empty if it is another, or nothing says so.
    """

    name: str
    address: str
    devices: Tuple[TableDevice, ...]
    mine: str

    @property
    def first(self) -> int:
        """Its first rank."""
        return self.devices[0].rank_id


class TableNodes(NamedTuple):
    """The nodes of a table.

    Attributes:
        nodes: In the order of their ranks.
        own: Which one is this; None if that cannot be told.
        seed: Text that only this table has.
        path: Its file.
    """

    nodes: Tuple[TableNode, ...]
    own: Optional[int]
    seed: str
    path: str

    @property
    def size(self) -> int:
        """The number of ranks."""
        return sum(len(node.devices) for node in self.nodes)


def table_nodes(path: str, environ: Mapping[str, str]) -> TableNodes:
    """Reads a table, and finds this node in it.

    Raises:
        JobError: If it is no table that HCCL takes, not completed, or a node's ranks do not follow
            each other.
    """
    table = RankTable.read(path)
    if table.status != COMPLETED:
        raise JobError(
            f"{path} is not completed: its status is {table.status!r}. HCCL would wait for 1800 s "
            "in silence.",
            hint=f"`ascend-session ranktable check --wait 10m {path}` waits for it in sight.",
            findings=table.problems(),
        )
    table.check()
    names = dict.fromkeys(host_names(), "a name or address of this host")
    names.update(pod_names(environ))
    nodes = [_node(name, devices, names) for name, devices in _parts(table).items()]
    nodes.sort(key=lambda node: node.first)
    for node in nodes:
        _check_order(node, path)
    mine = [number for number, node in enumerate(nodes) if node.mine]
    own = mine[0] if len(mine) == 1 else 0 if len(nodes) == 1 else None
    text = repr([tuple(node[:3]) for node in nodes])
    seed = "table_" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return TableNodes(tuple(nodes), own, seed, path)


def may_have_several(path: str) -> bool:
    """Whether a file that `table_nodes` refuses has several nodes, as far as it can be read."""
    try:
        says = read(path, read_text(path)).contents
    except JobError:
        return False
    return len(says.servers) > 1 or len(_parts(says)) > 1


def _parts(table: Contents) -> Dict[str, List[TableDevice]]:
    found: Dict[str, List[TableDevice]] = {}
    for device in table.devices:
        found.setdefault(device.pod_name or device.server_id, []).append(device)
    return found


def _node(name: str, devices: Sequence[TableDevice], names: Mapping[str, str]) -> TableNode:
    first = devices[0]
    known = [name] if first.pod_name else [first.server_id, first.host_ip or ""]
    why = next((f"{one} is {names[one]}" for one in known if one in names), "")
    address = first.host_ip or (first.server_id if is_address(first.server_id) else "")
    return TableNode(name, address, tuple(devices), why)


def _check_order(node: TableNode, path: str) -> None:
    ranks = [device.rank_id for device in node.devices]
    if ranks != list(range(node.first, node.first + len(ranks))):
        raise JobError(
            f"{path}: {node.name} has the ranks {', '.join(map(str, ranks))}, which do not follow "
            "each other; one launcher starts ranks that do.",
            hint="`ascend-session ranktable make` numbers them server by server.",
        )
