"""The rank of this process, by the adapter's own variables and by the schedulers that started it.

Several sources may say it, as long as they agree. Where two of them differ, nothing is guessed.

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

The other launchers number their processes in four plain variables each (`_PLAIN_LAUNCHERS`): MPICH
and Intel MPI (Hydra), MVAPICH2, torchrun, horovodrun and jsrun.
"""

import os
import re
from functools import partial
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.variables import read_number, read_size
from ascend_session.errors import JobError

CHOICE = "ASCEND_SESSION_SCHEDULER"
"""The scheduler that counts, such as ``slurm`` or ``open-mpi``, or ``none`` of them."""


class _PlainLauncher(NamedTuple):
    """A launcher that numbers its processes in four variables, and the mark of its processes."""

    source: str
    mark: str
    rank: str
    size: str
    local_rank: str
    local_size: str

    @property
    def own_variables(self) -> Tuple[str, ...]:
        """What no user sets: its four numbers or, where people set such themselves, its mark."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size)
        return numbers if self.mark in numbers else (self.mark,)

    def read(self, environ: Mapping[str, str], key: str) -> "Optional[Claim]":
        """Read what it says; None if it has not started this process."""
        rank, size = _read_first(environ, self.rank), _read_first(environ, self.size)
        if not environ.get(self.mark) or rank is None or size is None:
            return None
        return Claim(
            source=self.source,
            key=key,
            rank=rank,
            size=size,
            local_rank=_read_first(environ, self.local_rank),
            local_size=_read_first(environ, self.local_size),
        )


def _of_family(source: str, prefix: str) -> _PlainLauncher:
    names = (f"{prefix}{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
    return _PlainLauncher(source, f"{prefix}RANK", *names)


_PLAIN_LAUNCHERS = {
    "mpich": _PlainLauncher(
        "MPICH", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"
    ),
    "mvapich2": _of_family("MVAPICH2", "MV2_COMM_WORLD_"),
    "horovodrun": _of_family("horovodrun", "HOROVOD_"),
    "jsrun": _of_family("jsrun", "JSM_NAMESPACE_"),
    "torchrun": _PlainLauncher(
        "torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"
    ),
}

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
    *(name for launcher in _PLAIN_LAUNCHERS.values() for name in launcher.own_variables),
)
"""Variables by which a scheduler numbers one process, and not those that this one starts."""

# What all sources have to agree on, and the question that it answers.
_QUESTIONS = {
    "rank": "which rank this process is",
    "size": "how many ranks the job has",
    "local_rank": "which number this process has on its node",
    "local_size": "how many ranks are on this node",
}
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
        key: The value of `CHOICE` that chooses it; empty for this environment.
        where: The job or step that it speaks of, such as ``step 42.0``; may be empty.
        rank: Number of the process, from 0.
        size: Number of processes.
        local_rank: Number of the process on its node, from 0.
        local_size: Number of processes on its node.
        node: The node, in words that differ between nodes; empty if nothing says it.
        seed: Text that all processes of this job share with no other job; fit for ``JOB_ID``.
        hosts: How many nodes there are, and the name of the first; None if nothing says it.
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

    @property
    def name(self) -> str:
        """Source and place, as in ``Slurm, step 42.0``."""
        return f"{self.source}, {self.where}" if self.where else self.source

    @property
    def numbers(self) -> List[SourcedNumber]:
        """Rank, size, local rank and local size, as far as it says them."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size)
        return [number for number in numbers if number is not None]


class Identity(NamedTuple):
    """What is known of this process's place; None for what nobody says.

    Attributes:
        rank: Number of the process, and who says so; likewise the others.
        size: Number of processes.
        local_rank: Number of the process on its node.
        local_size: Number of processes on its node.
        claims: What each source says, the one that counts first at the front.
    """

    rank: Optional[SourcedNumber] = None
    size: Optional[SourcedNumber] = None
    local_rank: Optional[SourcedNumber] = None
    local_size: Optional[SourcedNumber] = None
    claims: Tuple[Claim, ...] = ()

    @property
    def scheduler(self) -> Optional[Claim]:
        """The first scheduler among them."""
        return next((claim for claim in self.claims if claim.key), None)

    @property
    def reason(self) -> str:
        """Who says it, with the variables; for logs."""
        numbers = [number for number in self[:4] if number is not None]
        if not numbers:
            return "no variable says anything of a job"
        sources = [claim.name for claim in self.claims if set(claim.numbers) & set(numbers)]
        return f"{' and '.join(sources)}: {', '.join(map(str, numbers))}"


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Read the environment of a process that is, or may be, a rank.

    Raises:
        JobError: If two sources say different things; if `CHOICE` names no scheduler; or if this
            process was started from a shell that stands for several tasks of Slurm.
    """
    own = _read_own(environ)
    return _merge([*([] if own is None else [own]), *_read_claims(environ)])


def read_schedulers(environ: Mapping[str, str]) -> Identity:
    """Read what schedulers alone say, for a process that starts ranks and is none itself.

    Raises:
        JobError: As from `read_identity`.
    """
    return _merge(_read_claims(environ))


def has_scheduler(environ: Mapping[str, str]) -> bool:
    """Whether a scheduler started this process or one of its parents, whatever `CHOICE` says."""
    return any(read(environ) is not None for read in _SCHEDULERS.values())


def count_allocated_nodes(environ: Mapping[str, str]) -> int:
    """Count the nodes of the Slurm allocation in which this process runs; 0 outside of one."""
    if not environ.get("SLURM_JOB_ID"):
        return 0
    nodes = _read_first(environ, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    return 1 if nodes is None else nodes.value


def _read_own(environ: Mapping[str, str]) -> Optional[Claim]:
    """Read what the adapter reads (ge_plugin.cc), and the launcher's LOCAL_RANK and LOCAL_SIZE."""
    size, rank = read_size(environ), read_number(environ, "RANK_ID")
    if rank is None and size is None:
        return None
    size_name = "RANK_SIZE" if read_number(environ, "RANK_SIZE") else "CM_WORKER_SIZE"
    return Claim(
        source="this environment",
        rank=None if rank is None else SourcedNumber(rank, "RANK_ID"),
        size=None if size is None else SourcedNumber(size, size_name),
        local_rank=_read_first(environ, "LOCAL_RANK"),
        local_size=_read_first(environ, "LOCAL_SIZE"),
    )


def _read_claims(environ: Mapping[str, str]) -> List[Claim]:
    """Read what the schedulers say that started this process, or the one that `CHOICE` names."""
    choice = environ.get(CHOICE, "")
    if choice not in ("", "none", *_SCHEDULERS):
        known = ", ".join((*_SCHEDULERS, "none"))
        raise JobError(f"{CHOICE}={choice!r} names no scheduler.", hint=f"Use one of {known}.")
    readers = [read for key, read in _SCHEDULERS.items() if choice in ("", key)]
    claims = [claim for claim in (read(environ) for read in readers) if claim is not None]
    if choice or not claims:
        return claims
    if _is_below_mpirun_daemon(environ):
        claims = _drop_daemons(claims)
    others = [claim for claim in claims if claim.key != "mpich"]  # srun --mpi=pmi2 has PMI_RANK
    if [claim.key for claim in others] == ["slurm"]:
        _refuse_slurm_shell(environ, others[0])
    return claims


def _drop_daemons(claims: Sequence[Claim]) -> List[Claim]:
    """Leave out the Slurm step of Open MPI's daemons, and name it in what Open MPI says."""
    claim_of = {claim.key: claim for claim in claims}
    step, job = claim_of.pop("slurm", None), claim_of.get("open-mpi")
    if step is not None and job is not None:
        where = f"{job.where}, " if job.where else ""
        where += f"below daemons that are Slurm's {step.where}"
        claim_of["open-mpi"] = job._replace(where=where)
    return list(claim_of.values())


def _merge(claims: Sequence[Claim]) -> Identity:
    """Take each number from the first who says it; all who do have to agree."""
    numbers = {}
    for field in _QUESTIONS:
        voices = [claim for claim in claims if getattr(claim, field) is not None]
        for claim in voices[1:]:
            if getattr(claim, field).value != getattr(voices[0], field).value:
                raise _disagreement(voices[0], claim, field)
        numbers[field] = getattr(voices[0], field) if voices else None
    return Identity(**numbers, claims=tuple(claims))


def _disagreement(first: Claim, other: Claim, field: str) -> JobError:
    if first.key:
        hint = (
            f"export {CHOICE}={first.key} to go by {first.source}, {CHOICE}={other.key} to go by "
            f"{other.source}; with mpirun: mpirun -x {CHOICE}={first.key} ..."
        )
    else:
        names = [number.variable for number in first.numbers]
        hint = (
            f"unset {' '.join(names)} to go by {other.source}, or export {CHOICE}=none to go by "
            f"{' and '.join(names)}."
        )
    return JobError(
        f"{getattr(first, field)} ({first.name}) and {getattr(other, field)} ({other.name}) "
        f"disagree about {_QUESTIONS[field]}.",
        hint=hint,
    )


def _read_first(environ: Mapping[str, str], *names: str) -> Optional[SourcedNumber]:
    """Read the first of these variables that is a number of 0 or more."""
    for name in names:
        value = read_number(environ, name)
        if value is not None and value >= 0:
            return SourcedNumber(value, name)
    return None


def _make_plain(text: str) -> str:
    """Replace what names of files and jobs had better not have, such as PMIx's ``@``."""
    return re.sub("[^A-Za-z0-9_-]", "_", text)[-100:]


# Slurm


def read_slurm(environ: Mapping[str, str]) -> Optional[Claim]:
    """Read what Slurm says; None if this process is no task of a step."""
    step = read_number(environ, "SLURM_STEP_ID")
    if step is None or not 0 <= step <= _LAST_SLURM_STEP:
        return None
    rank = _read_first(environ, "SLURM_PROCID")
    if rank is None:
        return None
    node = read_number(environ, "SLURM_NODEID")
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or "?"
    nodes = _read_first(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    host = _find_host_of_rank_0(environ, rank.value, node)
    return Claim(
        source="Slurm",
        key="slurm",
        where=f"step {job}.{step}",
        rank=rank,
        size=_read_first(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        local_rank=_read_first(environ, "SLURM_LOCALID"),
        local_size=_count_local_tasks(environ, node),
        node="" if node is None else f"node {node}",
        seed=_make_plain(f"slurm_{job}_{step}"),
        hosts=None if nodes is None else (nodes.value, host),
    )


def _find_first_host(nodelist: str) -> str:
    """Find the first name in a list such as ``gpu[07-09,12],login1``; empty if there is none."""
    if nodelist == "(null)":  # as Slurm writes what it does not have
        return ""
    match = re.match(r"([^\[,]*)(?:\[([0-9]+)[^\]]*\]([^\[,]*))?", nodelist)
    return "" if match is None else f"{match[1]}{match[2] or ''}{match[3] or ''}"


def _count_tasks(node: int, counts: str) -> Optional[int]:
    """Count the tasks of a node in a step with ``counts``, such as ``2(x3),1``; None if none."""
    for part in counts.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part.strip())
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
    return _find_first_host(
        environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST") or ""
    )


def _count_local_tasks(environ: Mapping[str, str], node: Optional[int]) -> Optional[SourcedNumber]:
    tasks = environ.get("SLURM_GTIDS", "")
    if tasks:
        return SourcedNumber(len(tasks.split(",")), "number of SLURM_GTIDS")
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        count = None if node is None else _count_tasks(node, environ.get(name, ""))
        if count is not None:
            return SourcedNumber(count, name)
    return None


def _refuse_slurm_shell(environ: Mapping[str, str], step: Claim) -> None:
    """Refuse what was started from the shell of ``srun --pty``, where that stands for several.

    Such a shell is a task and so is a program that ``srun --pty`` runs at once, but a program that
    somebody starts in the shell is alone. SLURM_PTY_PORT says less than it seems: a step that is
    started from such a shell inherits it, but its tasks have no terminal.

    Raises:
        JobError: If it cannot be told whether this process is the task of the ``step``.
    """
    task = read_number(environ, "SLURM_TASK_PID")
    if not environ.get("SLURM_PTY_PORT") or step.size is None or step.size.value == 1:
        return
    if task is None or task == os.getpid() or not _has_terminal(task):
        return
    raise JobError(
        f"This process was started from a shell of srun --pty ({step.name}), which stands for "
        f"{step.rank} of the {step.size.value} tasks ({step.size}). It cannot be told whether it "
        "is that task, or has nothing to do with the others.",
        hint=f"export {CHOICE}=none if it is on its own, {CHOICE}=slurm if it is the task; srun "
        "without --pty starts all tasks alike.",
    )


def _has_terminal(pid: int) -> bool:
    """Whether a process has a controlling terminal; not if there is no such process here."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[4] != b"0"  # tty_nr, proc(5)
    except (OSError, IndexError):
        return False


# Open MPI and PMIx


def read_open_mpi(environ: Mapping[str, str]) -> Optional[Claim]:
    """Read what ``mpirun`` says; None if it has not started this process."""
    rank = _read_first(environ, "OMPI_COMM_WORLD_RANK")
    size = None if rank is None else _read_first(environ, "OMPI_COMM_WORLD_SIZE")
    if rank is None or size is None:
        return None
    job, host = environ.get("PMIX_NAMESPACE", ""), environ.get("PMIX_HOSTNAME", "")
    return Claim(
        source="Open MPI",
        key="open-mpi",
        where=f"job {job}" if job else "",
        rank=rank,
        size=size,
        local_rank=_read_first(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size=_read_first(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        # It may deal its ranks out to the nodes in turn, and does not number these.
        node=f"host {host}" if host else "",
        seed=_make_plain(f"ompi_{job or environ.get('OMPI_MCA_ess_base_jobid', '')}"),
    )


def _is_below_mpirun_daemon(environ: Mapping[str, str]) -> bool:
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
    rank = _read_first(environ, "PMIX_RANK")
    if rank is None:
        return None
    job = environ.get("PMIX_NAMESPACE", "")
    return Claim(source="PMIx", key="pmix", where=f"job {job}" if job else "", rank=rank)


# In the order in which what only one of them says is taken.
_SCHEDULERS: Dict[str, Callable[[Mapping[str, str]], Optional[Claim]]] = {
    "open-mpi": read_open_mpi,
    "slurm": read_slurm,
    "pmix": read_pmix,
    **{key: partial(each.read, key=key) for key, each in _PLAIN_LAUNCHERS.items()},
}
