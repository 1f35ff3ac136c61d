"""This launcher's node among those of its job: what is asked, a scheduler or the table says it.

A scheduler starts one launcher on each node: its number among them is the node's. A rank table of
several servers says also which devices the ranks of this one get; one that somebody else still
fills in is waited for before anything goes by it.
"""

import re
from typing import TYPE_CHECKING, Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.backends import backend_class, choose
from ascend_session.cluster.coordinator import (
    derive_port,
    find_coordinator,
    is_own_address,
    split_address,
)
from ascend_session.cluster.kubernetes import find_mounted_table, is_in_pod
from ascend_session.cluster.schedulers import (
    CHOICE,
    Claim,
    Identity,
    SourcedNumber,
    count_allocated_nodes,
    read_schedulers,
)
from ascend_session.cluster.variables import COORDINATOR, RANK_FOLDER
from ascend_session.errors import AscendError, ConfigError, JobError, PreflightError
from ascend_session.findings import ERROR, Finding
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import (
    RankDevice,
    choose_npu_devices,
    choose_stub_devices,
)

if TYPE_CHECKING:
    from ascend_session.cluster.rank_table.nodes import TableNode, TableNodes

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
        """Give the first rank of this node, which has so many; without a table all have as many."""
        return self.number * here if self.part is None else self.part.first

    def size(self, here: int) -> int:
        """Give the number of ranks on all nodes."""
        return self.of * here if self.table is None else self.table.size

    def described(self, here: int) -> str:
        """Describe this node to the user, in a sentence."""
        first = self.first_rank(here)
        ranks = f"rank {first}" if here == 1 else f"ranks {first} to {first + here - 1}"
        where = f", which meet at {self.coordinator}" if self.coordinator else ""
        return f"Node {self.number} of {self.of}, {self.why}: {ranks} of {self.size(here)}{where}."


def nodes_of(config: LaunchConfig, backend: str, environ: Mapping[str, str]) -> Nodes:
    """Find out which node of the job this is.

    Args:
        config: What the launch is asked.
        backend: ``npu`` or ``stub``.
        environ: The launcher's environment with what the user adds.

    Raises:
        ConfigError: If what is asked cannot be done on several nodes.
        JobError: If two say different things: a scheduler, the rank table and what is asked; if
            several launchers were started on one node; or if the table is none.
    """
    detected = read_schedulers(environ)
    claim = detected.scheduler
    sources = [_Says("what is asked", _number("nnodes", config.nnodes), _own(config))]
    if claim is not None:
        _check_one_each(detected, claim)
        sources.append(_Says(claim.name, detected.size, detected.rank))
    several = any(source.of is not None and source.of.value > 1 for source in sources)
    table = table_of(config, backend, environ, several)
    if table is not None:
        sources.append(_by_table(table, config, environ))
    of, number = (
        _agreed([source.of for source in sources], sources),
        _agreed([source.own for source in sources], sources),
    )
    if of is None or of.value == 1:
        return Nodes(notes=_lone_notes(config, claim, environ), table=table)
    _check_possible(config, of, number, next(source.name for source in sources if source.of is of))
    assert number is not None
    coordinator = None
    if backend_class(backend).needs_rendezvous:  # by HCCL they meet through the rank table
        coordinator = _coordinator(config, claim, environ) or _first_of(table, number.value)
    seed = _seed(claim, table, coordinator)
    job_id = None if seed is None else re.sub("[^A-Za-z0-9-]+", "_", seed)[-100:]
    who = next(source for source in sources[::-1] if source.own is not None)
    why = (
        f"as {who.name} says ({_listed(who.of, who.own)})" if who is not sources[0] else "as asked"
    )
    return Nodes(of.value, number.value, coordinator, job_id, why, (), table)


class _Says(NamedTuple):
    """What one source says: how many nodes there are, and which this is."""

    name: str
    of: Optional[SourcedNumber]
    own: Optional[SourcedNumber]


def _number(name: str, value: Optional[int]) -> Optional[SourcedNumber]:
    return None if value is None else SourcedNumber(value, name)


def _own(config: LaunchConfig) -> Optional[SourcedNumber]:
    return _number("node_rank", config.node_rank)


def _by_table(table: "TableNodes", config: LaunchConfig, environ: Mapping[str, str]) -> _Says:
    inherited = config.rank_table is None and environ.get("RANK_TABLE_FILE") == table.path
    whose = " that RANK_TABLE_FILE names" if inherited else ""
    own = None if table.own is None else table.nodes[table.own]
    here = None if own is None else _number(f"{own.mine or own.name}, server", table.own)
    return _Says(f"the rank table {table.path}{whose}", _number("servers", len(table.nodes)), here)


def _agreed(
    values: Sequence[Optional[SourcedNumber]], sources: Sequence[_Says]
) -> Optional[SourcedNumber]:
    """Give the value on which all that have one agree.

    Raises:
        JobError: If two differ.
    """
    given = [(value, source.name) for value, source in zip(values, sources) if value is not None]
    for value, name in given[1:]:
        first, its = given[0]
        if value.value != first.value:
            raise JobError(
                f"Two say different things of the nodes of this job: {first} ({its}) and {value} "
                f"({name}). One launcher is one node.",
                hint="Leave out what is wrong of nnodes, node_rank and rank_table; export "
                f"{CHOICE}=none not to go by a scheduler.",
            )
    return given[0][0] if given else None


def _check_possible(
    config: LaunchConfig, of: SourcedNumber, number: Optional[SourcedNumber], who: str
) -> None:
    problems = []
    if number is None:
        message = (
            f"The job has {of.value} nodes ({of}, by {who}), but nothing says which of them this "
        )
        message += "is."
        hint = "Give node_rank, from 0, another on each node."
        if "RANK_TABLE_FILE" in who:
            hint += " For a job on this machine alone, unset RANK_TABLE_FILE or give rank_table."
        problems.append(Finding(ERROR, message, hint, option="node_rank"))
    if config.max_restarts:
        message = f"max_restarts={config.max_restarts} is given, but the job has {of.value} nodes "
        message += f"({of}), whose launchers start nothing again together."
        problems.append(Finding(ERROR, message, "Leave it out.", option="max_restarts"))
    if problems:
        raise ConfigError.of(problems, "the launch")


def _first_of(table: "Optional[TableNodes]", own: int) -> Optional[str]:
    address = "" if table is None else table.nodes[0].address
    if table is None or not address:
        return None
    host = f"[{address}]" if ":" in address else address
    if own == 0 and not is_own_address(address):
        raise JobError(
            f"The ranks of the {len(table.nodes)} nodes were to meet at {address}, the address of "
            f"the first one in the rank table {table.path}. This is the first one, and has no such "
            "address: a pod has one of its own, unless it uses the network of its host.",
            hint="Give coordinator=HOST:PORT on all nodes, with a name or address by which the "
            "others reach this one: in Kubernetes, that of a headless service.",
        )
    return f"{host}:{derive_port(table.seed)}"


def _seed(
    claim: Optional[Claim], table: "Optional[TableNodes]", coordinator: Optional[str]
) -> Optional[str]:
    if claim is not None and claim.seed:
        return claim.seed
    if coordinator is not None:
        return f"job_{coordinator}"
    return None if table is None else table.seed


def _listed(*values: Optional[SourcedNumber]) -> str:
    return ", ".join(str(value) for value in values if value is not None)


def _coordinator(
    config: LaunchConfig, claim: Optional[Claim], environ: Mapping[str, str]
) -> Optional[str]:
    if config.coordinator is not None:
        split_address(config.coordinator)
        return config.coordinator
    # A rank's own variable belongs to the job that it is a rank of.
    inside = RANK_FOLDER in environ
    mine = {name: value for name, value in environ.items() if name != COORDINATOR or not inside}
    return find_coordinator(mine, claim)


def _check_one_each(detected: Identity, claim: Claim) -> None:
    if detected.size is None:
        raise JobError(
            f"{claim.rank} ({claim.name}) numbers this launcher, but nothing says how many there "
            "are.",
            hint=f"export {CHOICE}=none, and give nnodes and node_rank.",
        )
    here, count = detected.local_size, detected.size.value
    nodes = count if claim.hosts is None else claim.hosts[0]
    if nodes == count and (here is None or here.value == 1):
        return
    how = _PER_NODE.get(claim.source, "one launcher on each node.")
    raise JobError(
        f"{claim.source} has started {count} launchers, several of them on one node "
        f"({_listed(detected.size, here)}); each launcher starts all ranks of its node.",
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
    allocated = count_allocated_nodes(environ)
    if allocated < 2 or claim is not None or environ.get(CHOICE) == "none":
        return notes
    return [
        *notes,
        f"Slurm's job has {allocated} nodes, and this launch uses one of them: it is no task of a "
        f"step. To use all: {_PER_NODE['Slurm']}",
    ]


def table_of(
    config: LaunchConfig, backend: str, environ: Mapping[str, str], nodes_are_said: bool
) -> "Optional[TableNodes]":
    """Read the nodes of the job's rank table: several, or one if it is this job's on the stub.

    Args:
        config: What the launch is asked.
        backend: ``npu`` or ``stub``, where an inherited table of other machines does not count.
        environ: The launcher's environment with what the user adds.
        nodes_are_said: Whether something else says that there are several nodes.

    Returns:
        None without a table, for one of one server that was inherited or is for devices, and for
        one that cannot be read as long as nothing in it, nor anything else, says that there are
        several nodes: HCCL says it then.

    Raises:
        JobError: If a table of several nodes is none that HCCL takes.
    """
    path = table_path(config, backend, environ, nodes_are_said)
    if path is None:
        return None
    from ascend_session.cluster.rank_table.nodes import may_have_several_nodes, read_nodes

    try:
        nodes = read_nodes(path, environ)
    except JobError:
        if nodes_are_said or path == find_mounted_table(environ) or may_have_several_nodes(path):
            raise  # or half a job would be planned as a whole one
        return None
    # Where HCCL reads it, the preflight compares the table of one server with what is asked.
    is_jobs = not backend_class(backend).needs_rank_table and path in (
        config.rank_table,
        find_mounted_table(environ),
    )
    return nodes if nodes_are_said or len(nodes.nodes) > 1 or is_jobs else None


def table_path(
    config: LaunchConfig, backend: str, environ: Mapping[str, str], nodes_are_said: bool
) -> Optional[str]:
    """Give the file of the table that counts, which may not be there; None without one.

    The arguments are those of `table_of`.
    """
    if config.no_rank_table:
        return None
    counts = backend_class(backend).needs_rank_table or nodes_are_said or is_in_pod(environ)
    inherited = environ.get("RANK_TABLE_FILE") if counts else None
    return config.rank_table or inherited or find_mounted_table(environ)


def choose_devices(
    config: LaunchConfig,
    backend: str,
    nodes: Nodes,
    environ: Mapping[str, str],
    notes: List[str],
) -> Tuple[RankDevice, ...]:
    """Choose the devices of this node's ranks: those of the rank table, if that counts.

    Args:
        config: What the launch is asked.
        backend: ``npu`` or ``stub``.
        nodes: This node among those of the job.
        environ: The launcher's environment.
        notes: Gets what the user should know, in sentences.

    Raises:
        DeviceError: If there are no such devices.
        JobError: If the table says something else than what is asked.
    """
    holds_devices = backend_class(backend).holds_devices
    choose_among = choose_npu_devices if holds_devices else choose_stub_devices
    if nodes.part is None:
        return choose_among(config.devices, config.processes, environ, notes)
    devices, count = config.devices, config.processes
    if devices is None and holds_devices:
        devices = _devices_of(nodes.part, environ)
    elif devices is None and count is None:
        count = len(nodes.part.devices)
    chosen = choose_among(devices, count, environ, notes)
    _check_devices_of(nodes.part, chosen)
    return chosen


def _devices_of(node: "TableNode", environ: Mapping[str, str]) -> List[int]:
    """Give the logical ids of a node's devices, by rank.

    Args:
        node: The node.
        environ: The launcher's environment.

    Raises:
        JobError: If one is not here.
    """
    from ascend_session.backends.npu_devices import Devices

    physical = [int(device) for device in Devices.of(environ).physical]
    ids = [int(device.device_id) for device in node.devices]
    missing = [str(device) for device in ids if device not in physical]
    if missing:
        raise JobError(
            f"The rank table gives {node.name} the devices {', '.join(missing)}, which this "
            "process does not get.",
            hint="`ascend-session devices` shows what it gets; compare server_id in the table.",
        )
    return [physical.index(device) for device in ids]


def _check_devices_of(node: "TableNode", devices: Sequence[RankDevice]) -> None:
    """Compare the devices that were chosen with those of the table.

    Raises:
        JobError: If they differ.
    """
    table = [int(device.device_id) for device in node.devices]
    chosen = [device.physical for device in devices]
    if len(chosen) != len(table):
        raise JobError(
            f"{len(chosen)} ranks are to run on this node, but the rank table gives {node.name} "
            f"{len(table)}.",
            hint="Leave processes and devices out to go by the table.",
        )
    here = [int(device) for device in chosen if device is not None]
    if here and here != table:
        raise JobError(
            f"The ranks of this node are to run on the physical devices {here}, but the rank table "
            f"gives {node.name} {table}; HCCL would end them.",
            hint="Leave devices out to go by the table.",
        )


_EACH = 60.0  # seconds between two sentences about the same


def await_table(
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Return when the job's table is completed, is none that is waited for, or is missing.

    What else is wrong with it is not looked at here.

    Args:
        config: What the launch is asked.
        environ: The launcher's environment.
        say: Is told what is waited for, and again each minute.

    Raises:
        PreflightError: If it is not completed in ``wait_for_table`` seconds.
    """
    path = _path(config, {**environ, **config.env}) if config.wait_for_table else None
    if path is None:
        return
    from ascend_session.checks.tables import TABLE
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.contents import INITIALIZING
    from ascend_session.cluster.rank_table.source import WaitProgress

    try:
        if RankTable.read(path).status != INITIALIZING:
            return
    except JobError:
        return
    last = WaitProgress(2 * _EACH + config.wait_for_table, "")

    def tell(now: WaitProgress) -> None:
        nonlocal last
        if now.why != last.why or last.left - now.left >= _EACH:
            last = now
            say(f"Waiting for at most {now.left:.0f} s: {path}: {now.why}.")

    try:
        RankTable.wait_for(path, config.wait_for_table, tell)
    except JobError as late:
        finding = Finding(ERROR, late.message, late.hint, rule=TABLE)
        raise PreflightError(late.message, hint=late.hint, findings=[finding]) from None


def _path(config: LaunchConfig, environ: Mapping[str, str]) -> Optional[str]:
    try:
        backend = choose(config.backend, environ).name
    except AscendError:  # which the plan says
        return None
    return table_path(config, backend, environ, nodes_are_said=False)
