"""What schedulers say of a process that they have started: Slurm, Open MPI's ``mpirun``, PMIx.

Slurm: only ``srun`` starts tasks. A batch script and the shell of ``salloc`` are one process,
whatever ``SLURM_NTASKS`` and ``SLURM_PROCID`` say there: the former counts what ``srun`` would
start, the latter is 0. ``SLURM_STEP_ID`` is missing there, or is one of the numbers above the last
that steps have (4294967290 for the shell of ``salloc``, 4294967291 for the batch script). Source:
srun(1), "OUTPUT ENVIRONMENT VARIABLES"; slurm.h, SLURM_MAX_NORMAL_STEP_ID; env.c,
env_array_for_step: with ``--preserve-env`` SLURM_NTASKS and SLURM_NNODES remain those of the job,
so that the variables of the step count first. That the tasks of each node are counted in the order
of the names of the nodes, also where SLURM_NODEID goes by another, was seen with 22.05.8 in a step
of two components.

Open MPI: docs.open-mpi.org, "Environment variables set for MPI applications" (OMPI_COMM_WORLD_*).
PMIx itself gives a process its rank and the name of its job (PMIX_RANK, PMIX_NAMESPACE), and
tells the rest only to those who ask its library.
"""

import os
import re
from typing import Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.variables import read_number
from ascend_session.errors import JobError

FIELDS = ("rank", "size", "local_rank", "local_size")
"""What two sources may not say differently."""

IDENTITY_VARIABLES = (
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
)
"""Variables by which a scheduler numbers one process, and not those that this one starts."""

_LAST_SLURM_STEP = 0xFFFFFFF0


class SourcedNumber(NamedTuple):
    """A number and the variable that says it."""

    value: int
    variable: str

    def __str__(self) -> str:
        return f"{self.variable}={self.value}"


class Claim(NamedTuple):
    """What one source, such as a scheduler, says of a process; None for what it does not say.

    Attributes:
        source: ``Slurm``, ``Open MPI``, ``PMIx``; ``this environment`` for the adapter's variables.
        key: Under which it is chosen, see `schedulers.CHOICE`; empty for this environment.
        where: What it says it of, such as ``step 42.0``; may be empty.
        rank: Number of the process, from 0.
        size: Number of processes.
        local_rank: Number of the process on its node, from 0.
        local_size: Number of processes on its node.
        node: The node, in words that differ between nodes; empty if nothing says it.
        seed: Text that is the same for all processes of the job, and for no other job; fit for
            ``JOB_ID``.
        hosts: How many nodes there are, and the name of the first; None if nothing says it.
        port: A port that is kept for the job on its nodes; None if there is none.
    """

    source: str
    key: str = ""
    where: str = ""
    rank: Optional[SourcedNumber] = None
    size: Optional[SourcedNumber] = None
    local_rank: Optional[SourcedNumber] = None
    local_size: Optional[SourcedNumber] = None
    node: str = ""
    seed: str = ""
    hosts: Optional[Tuple[int, str]] = None
    port: Optional[int] = None

    @property
    def name(self) -> str:
        """Source and place, as in ``Slurm, step 42.0``."""
        return f"{self.source}, {self.where}" if self.where else self.source

    @property
    def numbers(self) -> Tuple[Optional[SourcedNumber], ...]:
        """Its `FIELDS`."""
        return self.rank, self.size, self.local_rank, self.local_size

    @property
    def is_on_one_node(self) -> bool:
        """Whether it says that all processes are on one node."""
        if self.hosts is not None:
            return self.hosts[0] == 1
        if self.size is None or self.local_size is None:
            return False
        return self.size.value == self.local_size.value


def read_sourced(environ: Mapping[str, str], *names: str) -> Optional[SourcedNumber]:
    """Read the first of these variables that is a number of 0 or more."""
    for name in names:
        value = read_number(environ, name)
        if value is not None and value >= 0:
            return SourcedNumber(value, name)
    return None


def _make_plain(text: str) -> str:
    """Replace what names of files and jobs had better not have, such as PMIx's ``@``."""
    return re.sub("[^A-Za-z0-9_-]", "_", text)[-100:]


def read_slurm(environ: Mapping[str, str]) -> Optional[Claim]:
    """Read what Slurm says; None if this process is no task of a step."""
    step, rank = read_number(environ, "SLURM_STEP_ID"), read_sourced(environ, "SLURM_PROCID")
    if step is None or not 0 <= step <= _LAST_SLURM_STEP or rank is None:
        return None
    node = read_number(environ, "SLURM_NODEID")
    size = read_sourced(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or "?"
    nodes = read_sourced(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    host = _find_host_of_rank_0(environ, rank.value, node)
    ports = re.match("[0-9]+", environ.get("SLURM_STEP_RESV_PORTS", ""))
    return Claim(
        source="Slurm",
        key="slurm",
        where=f"step {job}.{step}",
        rank=rank,
        size=size,
        local_rank=read_sourced(environ, "SLURM_LOCALID"),
        local_size=_count_local_tasks(environ, node),
        node="" if node is None else f"node {node}",
        seed=_make_plain(f"slurm_{job}_{step}"),
        hosts=None if nodes is None else (nodes.value, host),
        port=None if ports is None else int(ports[0]),
    )


def count_allocated_nodes(environ: Mapping[str, str]) -> int:
    """Count the nodes of the allocation in which this process runs; 0 outside of one."""
    if not environ.get("SLURM_JOB_ID"):
        return 0
    nodes = read_sourced(environ, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    return 1 if nodes is None else nodes.value


def refuse_slurm_shell(environ: Mapping[str, str], step: Claim) -> None:
    """Refuse what was started from the shell of ``srun --pty``, where that stands for several.

    Such a shell is a task and so is a program that ``srun --pty`` runs at once, but a program that
    somebody starts in the shell is alone. SLURM_PTY_PORT says less than it seems: a step that is
    started from such a shell inherits it, but its tasks have no terminal.

    Args:
        environ: The environment of this process.
        step: What it says of the step.

    Raises:
        JobError: If it cannot be told whether this process is the step's task.
    """
    task = read_number(environ, "SLURM_TASK_PID")
    if not environ.get("SLURM_PTY_PORT") or step.size is None or step.size.value == 1:
        return
    if task is None or task == os.getpid() or not _has_terminal(task):
        return
    raise JobError(
        f"This process was started from a shell of srun --pty ({step.name}), which stands for "
        f"{step.rank} of the {step.size.value} tasks ({step.size}); it may be that task, or have "
        "nothing to do with the others.",
        hint="export ASCEND_SESSION_SCHEDULER=none for one process, =slurm for a task; srun "
        "without --pty starts all tasks alike.",
    )


def _has_terminal(pid: int) -> bool:
    """Whether a process has a controlling terminal; not if there is no such process here."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[4] != b"0"  # tty_nr, proc(5)
    except (OSError, IndexError):
        return False


def find_first_host(nodelist: str) -> str:
    """Find the first name in a list such as ``gpu[07-09,12],login1``; empty if there is none."""
    if nodelist == "(null)":  # as Slurm writes what it does not have
        return ""
    match = re.match(r"([^\[,]*)(?:\[([0-9]+)[^\]]*\]([^\[,]*))?", nodelist)
    return "" if match is None else f"{match[1]}{match[2] or ''}{match[3] or ''}"


def count_tasks(node: int, counts: str) -> Optional[int]:
    """Count the tasks of a node in a step with ``counts``, such as ``2(x3),1``; None if none."""
    for part in counts.split(","):
        match = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", part.strip())
        if match is None:
            return None
        node -= int(match[2] or 1)
        if node < 0:
            return int(match[1])
    return None


def _find_host_of_rank_0(environ: Mapping[str, str], rank: int, node: Optional[int]) -> str:
    """Find the node of rank 0; empty if the sorted list of the step's nodes does not say it."""
    is_mixed = (read_number(environ, "SLURM_HET_SIZE") or 1) > 1
    if is_mixed or environ.get("SLURM_DISTRIBUTION") == "arbitrary" or (rank == 0 and node):
        return ""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST")
    return find_first_host(nodes or "")


def _count_local_tasks(environ: Mapping[str, str], node: Optional[int]) -> Optional[SourcedNumber]:
    tasks = environ.get("SLURM_GTIDS", "")
    if tasks:
        return SourcedNumber(len(tasks.split(",")), "number of SLURM_GTIDS")
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        count = None if node is None else count_tasks(node, environ.get(name, ""))
        if count is not None:
            return SourcedNumber(count, name)
    return None


def read_open_mpi(environ: Mapping[str, str]) -> Optional[Claim]:
    """Read what ``mpirun`` says; None if it has not started this process."""
    rank = read_sourced(environ, "OMPI_COMM_WORLD_RANK")
    size = read_sourced(environ, "OMPI_COMM_WORLD_SIZE")
    if rank is None or size is None:
        return None
    job, host = environ.get("PMIX_NAMESPACE", ""), environ.get("PMIX_HOSTNAME", "")
    return Claim(
        source="Open MPI",
        key="open-mpi",
        where=f"job {job}" if job else "",
        rank=rank,
        size=size,
        local_rank=read_sourced(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size=read_sourced(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        # It may deal its ranks out to the nodes in turn, and does not number these.
        node=f"host {host}" if host else "",
        seed=_make_plain(f"ompi_{job or environ.get('OMPI_MCA_ess_base_jobid', '')}"),
    )


def is_below_mpirun_daemon(environ: Mapping[str, str]) -> bool:
    """Whether the Slurm step of this process is that of ``mpirun``'s daemons, one on each node.

    Below Slurm, ``mpirun`` starts its daemons with ``srun``, none on its own node if that is one of
    the allocation's; the ranks inherit the variables of these. Source: the environments of such
    ranks (Open MPI 4.1.4, Slurm 22.05.8); plm_slurm_module.c, where ``mpirun`` itself is the first
    of ess_base_num_procs.
    """
    rank = read_number(environ, "OMPI_COMM_WORLD_RANK")
    nodes = read_number(environ, "SLURM_STEP_NUM_NODES")
    if rank is None or rank != read_number(environ, "OMPI_MCA_ess_base_vpid"):
        return False
    if nodes is None or nodes != read_number(environ, "SLURM_STEP_NUM_TASKS"):
        return False
    daemons = (read_number(environ, "OMPI_MCA_ess_base_num_procs") or 0) - 1
    return nodes in (read_number(environ, "OMPI_MCA_orte_num_nodes"), daemons)


def read_pmix(environ: Mapping[str, str]) -> Optional[Claim]:
    """Read what PMIx says; None if it has not started this process."""
    rank = read_sourced(environ, "PMIX_RANK")
    if rank is None:
        return None
    job = environ.get("PMIX_NAMESPACE", "")
    return Claim(source="PMIx", key="pmix", where=f"job {job}" if job else "", rank=rank)
