"""This launcher's node among those of its job: by the options, a scheduler or the rank table.

A scheduler starts one launcher on each node: its number among them is the node's rank. A rank table
of several servers says also which devices the ranks of this one get; one that somebody else still
fills in is waited for before anything goes by it.
"""

import os
import re
import socket
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Callable,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
)

from ascend_session.backends.base import Backend
from ascend_session.cluster.kubernetes import find_mounted_table, is_in_pod
from ascend_session.cluster.schedulers import (
    CHOICE,
    Identity,
    Scheduler,
    SourcedNumber,
    count_allocated_nodes,
    read_schedulers,
)
from ascend_session.errors import ConfigError, JobError, PreflightError
from ascend_session.findings import ERROR, Finding, errors_of
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.decided import Decided, Request
from ascend_session.spelling import option
from ascend_session.text import format_ordinal

if TYPE_CHECKING:
    from ascend_session.cluster.rank_table.host import TableNode, TableNodes

_START_ONE_PER_NODE = {
    "Slurm": "srun --ntasks-per-node=1 ascend-session launch ...",
    # Up to two processes it binds to one core each (measured with 4.1): all ranks would share that.
    "Open MPI": "mpirun --bind-to none --map-by ppr:1:node ascend-session launch ...",
}


@dataclass(frozen=True)
class Nodes:
    """Where this launcher stands among those of the job.

    Attributes:
        count: How many nodes the job has.
        rank: This one's number, from 0.
        job_id: ``JOB_ID`` at which all launchers arrive; None on one node alone.
        why: Who says so, as the end of a sentence; empty if nobody does.
        table: The nodes of the rank table, if that counts.
    """

    count: int = 1
    rank: int = 0
    job_id: Optional[str] = None
    why: str = ""
    table: "Optional[TableNodes]" = None

    @property
    def table_node(self) -> "Optional[TableNode]":
        """This node in the rank table, if that counts."""
        return None if self.table is None else self.table.nodes[self.rank]

    @property
    def place(self) -> str:
        """The number of this node, as people count and as launchers do."""
        return f"node rank {self.rank} (the {format_ordinal(self.rank + 1)} of {self.count})"

    def ranks(self, local_size: int) -> range:
        """Number the ranks of this node; without a table all nodes have as many."""
        own = self.table_node
        first = self.rank * local_size if own is None else own.first_rank
        return range(first, first + local_size)

    def size(self, local_size: int) -> int:
        """Count the ranks on all nodes."""
        return self.count * local_size if self.table is None else self.table.size

    def describe(self, local_size: int) -> str:
        """Describe this node to the user, in a sentence."""
        own = self.ranks(local_size)
        ranks = f"ranks {own[0]} to {own[-1]}" if local_size > 1 else f"rank {own[0]}"
        return f"This is {self.place}, {self.why}: {ranks} of {self.size(local_size)}."


class _Source(NamedTuple):
    """The number of nodes by one source, and which of them this is; None if it does not say."""

    name: str
    nodes: Optional[SourcedNumber]
    rank: Optional[SourcedNumber]


def decide_nodes(request: Request, backend: Type[Backend]) -> Decided[Nodes]:
    """Decide which node of the job this is.

    It is refused if the options cannot be met on several nodes (ConfigError); if a scheduler, the
    rank table and the options say different things, if several launchers were started on one node,
    or if the table is none (JobError).
    """
    config, environ = request.config, request.job_environ
    detected = read_schedulers(environ)
    claim = detected.scheduler
    nnodes = None if config.nnodes is None else SourcedNumber(config.nnodes, option("nnodes"))
    node_rank = (
        None if config.node_rank is None else SourcedNumber(config.node_rank, option("node_rank"))
    )
    sources = [_Source("the options of this launch", nnodes, node_rank)]
    if claim is not None:
        _check_one_launcher_per_node(detected, claim)
        sources.append(_Source(claim.name, detected.size, detected.rank))
    several = any(source.nodes is not None and source.nodes.value > 1 for source in sources)
    table = _read_table(config, environ, backend, several or _asks_for_several_nodes(config))
    if table is not None:
        is_inherited = config.rank_table is None and environ.get("RANK_TABLE_FILE") == table.path
        name = f"the rank table {table.path}{' that RANK_TABLE_FILE names' if is_inherited else ''}"
        servers, own = SourcedNumber(len(table.nodes), "servers"), None
        if table.own is not None:
            server = table.nodes[table.own]
            own = SourcedNumber(table.own, f"{server.evidence or server.name}, server")
        sources.append(_Source(name, servers, own))
    count = _agree((source.nodes, source.name) for source in sources)
    problems = [] if node_rank is None else _check_node_rank(node_rank, count)
    rank = node_rank if problems else _agree((source.rank, source.name) for source in sources)
    if not problems and (count is None or count.value == 1):
        return Nodes(table=table), _note_single_node(claim, environ)
    if count is None:
        raise ConfigError.from_problems(problems, "the launch")
    if rank is None:
        who = next(source.name for source in sources if source.nodes is count)
        message = (
            f"The job has {count.value} nodes ({count}, by {who}), but the number of this node is "
            "missing."
        )
        hint = f"Give {option('node_rank')}: 0 on the first node, 1 on the second, and so on."
        if "RANK_TABLE_FILE" in who:
            hint += (
                " For a job on this machine alone, unset RANK_TABLE_FILE or give "
                f"{option('rank_table')}."
            )
        problems.append(Finding(ERROR, message, hint, option="node_rank"))
    if config.max_restarts and count.value > 1:
        message = (
            f"{option('max_restarts', config.max_restarts)} is given, but the job has "
            f"{count.value} nodes "
            f"({count}), and only a job on one node can be restarted."
        )
        hint = (
            "Leave it out, and start the launchers of all nodes again: the script resumes from its "
            "checkpoint. `ascend-session guide clusters#when-one-node-fails` says how Slurm and "
            "Volcano do so by themselves."
        )
        problems.append(Finding(ERROR, message, hint, option="max_restarts"))
    if rank is None or problems:
        raise ConfigError.from_problems(problems, "the launch")
    job_name = (claim.job_id if claim else "") or (table.job_id if table else "")
    notes: Tuple[str, ...] = ()
    if backend.needs_rendezvous:  # by HCCL they meet through the rank table
        _check_one_machine(claim, table, environ)
        program = config.script or config.module or config.program or ""
        job_name = job_name or f"{count.value}_nodes_of_{os.path.basename(program)}"
        notes = (
            f"The {count.value} nodes are rehearsed on this machine, {socket.gethostname()}: on "
            "the stub, launchers of other machines cannot join.",
        )
    job_id = re.sub("[^A-Za-z0-9-]+", "_", job_name)[-100:] if job_name else None
    source = next(source for source in reversed(sources) if source.rank is not None)
    why = "as asked"
    if source is not sources[0]:
        why = f"as {source.name} says ({_join([source.nodes, source.rank])})"
    return Nodes(count.value, rank.value, job_id, why, table), notes


def _agree(values: Iterable[Tuple[Optional[SourcedNumber], str]]) -> Optional[SourcedNumber]:
    """Return the number on which all sources that have one agree.

    Raises:
        JobError: If two differ.
    """
    given = [(value, name) for value, name in values if value is not None]
    for value, name in given[1:]:
        first, its_name = given[0]
        if value.value != first.value:
            raise JobError(
                f"Conflicting facts about the nodes of this job: {first} ({its_name}) and "
                f"{value} ({name}). Start one launcher per node.",
                hint=f"Correct {option('nnodes')}, {option('node_rank')} or "
                f"{option('rank_table')}, or "
                "leave out the wrong one; export "
                f"{CHOICE}=none to ignore the scheduler.",
            )
    return given[0][0] if given else None


def _asks_for_several_nodes(config: LaunchConfig) -> bool:
    """Whether the options speak of several nodes, be it that the table has to count them."""
    if config.nnodes is None:
        return config.node_rank is not None
    return config.nnodes > 1


def _check_node_rank(node_rank: SourcedNumber, count: Optional[SourcedNumber]) -> List[Finding]:
    """Check the number that the options give this node, which needs that of all nodes."""
    given = option("node_rank", node_rank.value)
    if count is None:
        message = f"{given} is given, but the number of nodes is not."
        hint = f"Give {option('nnodes')} too, or {option('rank_table')}, the table of all nodes."
    elif node_rank.value >= count.value:
        nodes = f"the {count.value} nodes are 0 to {count.value - 1}"
        if count.value == 1:
            nodes = f"the job has one node ({count}), which is 0"
        message = f"{given} is too large: {nodes}."
        hint = "Nodes count from 0."
    else:
        return []
    return [Finding(ERROR, message, hint, option="node_rank")]


def _check_one_machine(
    claim: Optional[Scheduler], table: "Optional[TableNodes]", environ: Mapping[str, str]
) -> None:
    """Refuse nodes that are known to be other machines, and what once connected them.

    Raises:
        JobError: Naming both machines, or the variable.
    """
    from ascend_session.cluster.machine import check_first_host, check_removed

    check_removed(environ)
    if claim is not None and claim.hosts is not None:
        check_first_host(claim.hosts[1], claim.name, environ)
    elif table is not None and table.nodes[0].address:
        check_first_host(table.nodes[0].address, f"the rank table {table.path}", environ)


def _check_one_launcher_per_node(detected: Identity, claim: Scheduler) -> None:
    if detected.size is None:
        raise JobError(
            f"{claim.rank} ({claim.name}) gives the number of this launcher, but the number of "
            "launchers is unknown.",
            hint=f"export {CHOICE}=none, and give {option('nnodes')} and {option('node_rank')}.",
        )
    local_size, count = detected.local_size, detected.size.value
    nodes = count if claim.hosts is None else claim.hosts[0]
    if nodes == count and (local_size is None or local_size.value == 1):
        return
    how = _START_ONE_PER_NODE.get(claim.source, "one launcher on each node.")
    raise JobError(
        f"{claim.source} has started {count} launchers, several of them on one node "
        f"({_join([detected.size, local_size])}); each launcher starts all ranks of its node.",
        hint=f"Start one on each node: {how} Or let {claim.source} start the ranks themselves, "
        f"without a launcher; or export {CHOICE}=none for jobs that have nothing to do with each "
        "other.",
    )


def _join(numbers: Sequence[Optional[SourcedNumber]]) -> str:
    return ", ".join(str(number) for number in numbers if number is not None)


def _note_single_node(claim: Optional[Scheduler], environ: Mapping[str, str]) -> Tuple[str, ...]:
    """Note that Slurm's job has more nodes than this launch uses."""
    allocated = 0 if claim is not None else count_allocated_nodes(environ)
    if allocated <= 1 or environ.get(CHOICE) == "none":
        return ()
    return (
        f"Slurm's job has {allocated} nodes, and this launch uses one of them: it is not a task of "
        f"a step. To use all: {_START_ONE_PER_NODE['Slurm']}",
    )


def _read_table(
    config: LaunchConfig,
    environ: Mapping[str, str],
    backend: Type[Backend],
    has_several_nodes: bool,
) -> "Optional[TableNodes]":
    """Read the nodes of the job's rank table: several, or one if it is this job's on the stub.

    Returns:
        None without a table, for one of one server that was inherited or is for devices, and for
        one that cannot be read as long as nothing in it, nor anything else, says that there are
        several nodes: HCCL says it then.

    Raises:
        JobError: If a table of several nodes is none that HCCL takes.
    """
    path = _find_table(config, environ, backend, has_several_nodes)
    if path is None:
        return None
    from ascend_session.cluster.rank_table.host import may_have_several_nodes, read_nodes

    is_mounted = path == find_mounted_table(environ)
    try:
        nodes = read_nodes(path, environ)
    except JobError as error:
        is_for_hccl_only = bool(error.findings) and not errors_of(error.findings)
        if is_for_hccl_only and (has_several_nodes or not is_mounted):
            return None
        if has_several_nodes or is_mounted or may_have_several_nodes(path):
            raise  # or half a job would be planned as a whole one
        return None
    # On devices the preflight compares the table of one server with the options.
    is_of_job = not backend.needs_rank_table and (is_mounted or path == config.rank_table)
    return nodes if has_several_nodes or len(nodes.nodes) > 1 or is_of_job else None


def _find_table(
    config: LaunchConfig,
    environ: Mapping[str, str],
    backend: Type[Backend],
    has_several_nodes: bool,
) -> Optional[str]:
    """Find the file of the table that counts, which may not be there; None without one.

    On the stub an inherited table of other machines does not count.
    """
    if config.no_rank_table:
        return None
    is_of_job = backend.needs_rank_table or has_several_nodes or is_in_pod(environ)
    inherited = environ.get("RANK_TABLE_FILE") if is_of_job else None
    return config.rank_table or inherited or find_mounted_table(environ)


_TELL_EVERY_S = 60.0


def await_table(request: Request, backend: Type[Backend], say: Callable[[str], None]) -> None:
    """Wait until the job's rank table is completed, if it is one at "initializing".

    What else may be wrong with it, or that it is missing, is not looked at here.

    Args:
        request: What is asked for.
        backend: The class of the backend.
        say: Takes a sentence about what is waited for, again each minute.

    Raises:
        PreflightError: If it is not completed in ``wait_for_table`` seconds.
    """
    config = request.config
    timeout_s = config.wait_for_table
    if not timeout_s:
        return
    path = _find_table(config, request.job_environ, backend, _asks_for_several_nodes(config))
    if path is None:
        return
    from ascend_session.checks.tables import TABLE
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.contents import INITIALIZING
    from ascend_session.cluster.rank_table.table_file import WaitProgress

    try:
        if RankTable.read(path).status != INITIALIZING:
            return
    except JobError:
        return
    last: Optional[WaitProgress] = None

    def tell(now: WaitProgress) -> None:
        nonlocal last
        if last is None or now.why != last.why or last.left - now.left >= _TELL_EVERY_S:
            last = now
            say(f"Waiting for at most {now.left:.0f} s: {path}: {now.why}.")

    try:
        RankTable.wait_for(path, timeout_s, tell)
    except JobError as late:
        finding = Finding(ERROR, late.message, late.hint, rule=TABLE)
        raise PreflightError(late.message, hint=late.hint, findings=[finding]) from None
