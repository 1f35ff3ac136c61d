"""Which part of a rank table is this node's: the ranks and devices that are started here."""

import hashlib
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.coordinator import is_address
from ascend_session.cluster.kubernetes import find_pod_names
from ascend_session.cluster.rank_table.contents import COMPLETED, Contents, TableDevice
from ascend_session.cluster.rank_table.formats import parse_table
from ascend_session.cluster.rank_table.host import find_host_names
from ascend_session.cluster.rank_table.source import read_text
from ascend_session.cluster.rank_table.table import RankTable
from ascend_session.errors import JobError


class TableNode(NamedTuple):
    """A server of a table, or in template 2 a pod.

    Attributes:
        name: What the table calls it.
        address: Where it can be reached; empty if the table does not say.
        devices: Its devices, by rank.
        mine: By what this node is known to be it; empty for another, or if nothing says so.
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
        own: The index of this node; None if it is not known.
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


def read_nodes(path: str, environ: Mapping[str, str]) -> TableNodes:
    """Read the nodes of a table, and find this one among them.

    Raises:
        JobError: If it is no table that HCCL takes, not completed, or a node's ranks do not follow
            each other.
    """
    table = RankTable.read(path)
    if table.status != COMPLETED:
        raise JobError(
            f"{path} is not completed: its status is {table.status!r}. HCCL would wait for 1800 s "
            "in silence.",
            hint=f"`ascend-session ranktable check --wait 10m {path}` waits until it is completed.",
            findings=table.problems(),
        )
    table.check()
    names = dict.fromkeys(find_host_names(), "a name or address of this host")
    names.update(find_pod_names(environ))
    nodes = [_make_node(name, devices, names) for name, devices in _group_devices(table).items()]
    nodes.sort(key=lambda node: node.first)
    for node in nodes:
        ranks = [device.rank_id for device in node.devices]
        if ranks != list(range(node.first, node.first + len(ranks))):
            raise JobError(
                f"{path}: {node.name} has the ranks {', '.join(map(str, ranks))}, which do not "
                "follow each other; one launcher starts ranks that do.",
                hint="`ascend-session ranktable make` numbers them server by server.",
            )
    own = [number for number, node in enumerate(nodes) if node.mine]
    own = own or ([0] if len(nodes) == 1 else [])
    text = repr([tuple(node[:3]) for node in nodes])
    seed = "table_" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return TableNodes(tuple(nodes), own[0] if len(own) == 1 else None, seed, path)


def may_have_several_nodes(path: str) -> bool:
    """Whether a file that `read_nodes` refuses has several nodes, as far as it can be read."""
    try:
        contents = parse_table(path, read_text(path)).contents
    except JobError:
        return False
    return len(contents.servers) > 1 or len(_group_devices(contents)) > 1


def _group_devices(table: Contents) -> Dict[str, List[TableDevice]]:
    groups: Dict[str, List[TableDevice]] = {}
    for device in table.devices:
        groups.setdefault(device.pod_name or device.server_id, []).append(device)
    return groups


def _make_node(name: str, devices: Sequence[TableDevice], names: Mapping[str, str]) -> TableNode:
    first = devices[0]
    known = [name] if first.pod_name else [first.server_id, first.host_ip or ""]
    reason = next((f"{each} is {names[each]}" for each in known if each in names), "")
    address = first.host_ip or (first.server_id if is_address(first.server_id) else "")
    return TableNode(name, address, tuple(devices), reason)
