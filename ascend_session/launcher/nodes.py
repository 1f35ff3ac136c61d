"""This launcher's node among those of its job: what is asked, a scheduler or the table says it.

A scheduler starts one launcher on each node: its number among them is the node's.
"""

import re
from typing import TYPE_CHECKING, List, Mapping, NamedTuple, Optional, Sequence

from ascend_session.cluster.claim import Claim, Said
from ascend_session.cluster.coordinator import coordinator_of, derived_port, parts_of
from ascend_session.cluster.ports import is_own
from ascend_session.cluster.schedulers import CHOICE, Detected, scheduled
from ascend_session.cluster.slurm import allocated_nodes
from ascend_session.cluster.variables import COORDINATOR, RANK_FOLDER
from ascend_session.errors import ConfigError, JobError, Problem
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.table_nodes import table_of

if TYPE_CHECKING:  # few launches need a rank table of several servers
    from ascend_session.cluster.table_place import TableNode, TableNodes

__all__ = ["Nodes", "nodes_of"]

_PER_NODE = {
    "Slurm": "srun --ntasks-per-node=1 ascend-session launch ...",
    # Up to two processes it binds to one core each (measured with 4.1): all ranks would share that.
    "Open MPI": "mpirun --bind-to none --map-by ppr:1:node ascend-session launch ...",
}


class Nodes(NamedTuple):
    """Where this launcher stands.

    Attributes:
        of: How many nodes the job has.
        number: This one's, from 0.
        coordinator: Where rank 0 listens on the stub, ``host:port``; None if nobody says it.
        job_id: ``JOB_ID`` that all launchers come to; None on one node alone.
        why: Who says so, as the end of a sentence; empty if nobody has.
        notes: What the user should know, in sentences.
        table: The nodes of the rank table, if that counts.
    """

    of: int = 1
    number: int = 0
    coordinator: Optional[str] = None
    job_id: Optional[str] = None
    why: str = ""
    notes: Sequence[str] = ()
    table: "Optional[TableNodes]" = None

    @property
    def part(self) -> "Optional[TableNode]":
        """This node in the rank table, if that counts."""
        return None if self.table is None else self.table.nodes[self.number]

    def first_rank(self, here: int) -> int:
        """The first rank of this node, which has so many; without a table all have as many."""
        return self.number * here if self.part is None else self.part.first

    def size(self, here: int) -> int:
        """The number of ranks on all nodes."""
        return self.of * here if self.table is None else self.table.size

    def described(self, here: int, coordinator: Optional[str]) -> str:
        """What the user should know of it, in a sentence."""
        first = self.first_rank(here)
        ranks = f"rank {first}" if here == 1 else f"ranks {first} to {first + here - 1}"
        where = f", which meet at {coordinator}" if coordinator else ""
        return f"Node {self.number} of {self.of}, {self.why}: {ranks} of {self.size(here)}{where}."


def nodes_of(config: LaunchConfig, backend: str, environ: Mapping[str, str]) -> Nodes:
    """Decides it.

    Args:
        config: What the launch is asked.
        backend: ``npu`` or ``stub``.
        environ: The launcher's environment with what the user adds.

    Raises:
        ConfigError: If what is asked cannot be done on several nodes.
        JobError: If two say different things: a scheduler, the rank table and what is asked; if
            several launchers were started on one node; or if the table is none.
    """
    found = scheduled(environ)
    claim = found.scheduler
    said = [_Says("what is asked", _number("nnodes", config.nnodes), _own(config))]
    if claim is not None:
        _check_one_each(found, claim)
        said.append(_Says(claim.name, found.size, found.rank))
    several = any(one.of is not None and one.of.value > 1 for one in said)
    table = table_of(config, backend, environ, several)
    if table is not None:
        said.append(_by_table(table, config, environ))
    of, number = _agreed([one.of for one in said], said), _agreed([one.own for one in said], said)
    if of is None or of.value == 1:
        return Nodes(notes=_lone_notes(config, claim, environ), table=table)
    _check_possible(config, of, number, next(one.name for one in said if one.of is of))
    assert number is not None
    coordinator = None
    if backend == "stub":  # on devices the ranks meet by the rank table
        coordinator = _coordinator(config, claim, environ) or _first_of(table, number.value)
    seed = _seed(claim, table, coordinator)
    job_id = None if seed is None else re.sub("[^A-Za-z0-9-]+", "_", seed)[-100:]
    who = next(one for one in said[::-1] if one.own is not None)
    why = f"as {who.name} says ({_listed(who.of, who.own)})" if who is not said[0] else "as asked"
    return Nodes(of.value, number.value, coordinator, job_id, why, (), table)


class _Says(NamedTuple):
    """What one source says: how many nodes there are, and which this is."""

    name: str
    of: Optional[Said]
    own: Optional[Said]


def _number(name: str, value: Optional[int]) -> Optional[Said]:
    return None if value is None else Said(value, name)


def _own(config: LaunchConfig) -> Optional[Said]:
    return _number("node_rank", config.node_rank)


def _by_table(table: "TableNodes", config: LaunchConfig, environ: Mapping[str, str]) -> _Says:
    inherited = config.rank_table is None and environ.get("RANK_TABLE_FILE") == table.path
    whose = " that RANK_TABLE_FILE names" if inherited else ""
    own = None if table.own is None else table.nodes[table.own]
    here = None if own is None else _number(f"{own.mine or own.name}, server", table.own)
    return _Says(f"the rank table {table.path}{whose}", _number("servers", len(table.nodes)), here)


def _agreed(values: Sequence[Optional[Said]], said: Sequence[_Says]) -> Optional[Said]:
    """The value of all that say one.

    Raises:
        JobError: If two differ.
    """
    found = [(value, one.name) for value, one in zip(values, said) if value is not None]
    for value, name in found[1:]:
        first, its = found[0]
        if value.value != first.value:
            raise JobError(
                f"Two say different things of the nodes of this job: {first} ({its}) and {value} "
                f"({name}). One launcher is one node.",
                hint="Leave out what is wrong of nnodes, node_rank and rank_table; export "
                f"{CHOICE}=none not to go by a scheduler.",
            )
    return found[0][0] if found else None


def _check_possible(config: LaunchConfig, of: Said, number: Optional[Said], who: str) -> None:
    problems = []
    if number is None:
        said = (
            f"The job has {of.value} nodes ({of}, by {who}), but nothing says which of them this "
        )
        said += "is."
        hint = "Give node_rank, from 0, another on each node."
        if "RANK_TABLE_FILE" in who:
            hint += " For a job on this machine alone, unset RANK_TABLE_FILE or give rank_table."
        problems.append(Problem("node_rank", said, hint))
    if config.max_restarts:
        said = f"max_restarts={config.max_restarts} is given, but the job has {of.value} nodes "
        said += f"({of}), whose launchers start nothing again together."
        problems.append(Problem("max_restarts", said, "Leave it out."))
    if problems:
        raise ConfigError.of(problems, "the launch")


def _first_of(table: "Optional[TableNodes]", own: int) -> Optional[str]:
    address = "" if table is None else table.nodes[0].address
    if table is None or not address:
        return None
    host = f"[{address}]" if ":" in address else address
    if own == 0 and not is_own(address):
        raise JobError(
            f"The ranks of the {len(table.nodes)} nodes were to meet at {address}, the address of "
            f"the first one in the rank table {table.path}. This is the first one, and has no such "
            "address: a pod has one of its own, unless it uses the network of its host.",
            hint="Give coordinator=HOST:PORT on all nodes, with a name or address by which the "
            "others reach this one: in Kubernetes, that of a headless service.",
        )
    return f"{host}:{derived_port(table.seed)}"


def _seed(
    claim: Optional[Claim], table: "Optional[TableNodes]", coordinator: Optional[str]
) -> Optional[str]:
    if claim is not None and claim.seed:
        return claim.seed
    if coordinator is not None:
        return f"job_{coordinator}"
    return None if table is None else table.seed


def _listed(*said: Optional[Said]) -> str:
    return ", ".join(str(one) for one in said if one is not None)


def _coordinator(
    config: LaunchConfig, claim: Optional[Claim], environ: Mapping[str, str]
) -> Optional[str]:
    if config.coordinator is not None:
        parts_of(config.coordinator)
        return config.coordinator
    # A rank's own variable belongs to the job that it is a rank of.
    inside = RANK_FOLDER in environ
    mine = {name: value for name, value in environ.items() if name != COORDINATOR or not inside}
    return coordinator_of(mine, claim)


def _check_one_each(found: Detected, claim: Claim) -> None:
    if found.size is None:
        raise JobError(
            f"{claim.rank} ({claim.name}) numbers this launcher, but nothing says how many there "
            "are.",
            hint=f"export {CHOICE}=none, and give nnodes and node_rank.",
        )
    here, count = found.local_size, found.size.value
    nodes = count if claim.hosts is None else claim.hosts[0]
    if nodes == count and (here is None or here.value == 1):
        return
    how = _PER_NODE.get(claim.source, "one launcher on each node.")
    raise JobError(
        f"{claim.source} has started {count} launchers, several of them on one node "
        f"({_listed(found.size, here)}); each launcher starts all ranks of its node.",
        hint=f"Start one on each node: {how} Or let {claim.source} start the ranks themselves, "
        f"without a launcher; or export {CHOICE}=none for jobs that have nothing to do with each "
        "other.",
    )


def _lone_notes(
    config: LaunchConfig, claim: Optional[Claim], environ: Mapping[str, str]
) -> List[str]:
    notes = []
    if config.coordinator is not None:
        notes.append(
            f"coordinator={config.coordinator!r} has no effect: the job has one node, for nnodes "
            "says nothing else."
        )
    allocated = allocated_nodes(environ)
    if allocated < 2 or claim is not None or environ.get(CHOICE) == "none":
        return notes
    return [
        *notes,
        f"Slurm's job has {allocated} nodes, and this launch uses one of them: it is no task of a "
        f"step. To use all: {_PER_NODE['Slurm']}",
    ]
