"""The rank of this process, from the adapter's variables and from schedulers.

Each source is a class that detects whether it started this process, and reads its numbers. Several
sources must agree; a number is taken from the first in `PRECEDENCE` that has it. If two differ,
JobError is raised.
"""

import os
import re
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from ascend_session.cluster.variables import read_number, read_size
from ascend_session.errors import JobError

CHOICE = "ASCEND_SESSION_SCHEDULER"
"""Variable that chooses the scheduler: ``slurm``, ``open-mpi`` ..., or ``none``."""

# What all sources have to agree on, and the question that it answers.
_QUESTIONS = {
    "rank": "which rank this process is",
    "size": "how many ranks the job has",
    "local_rank": "which number this process has on its node",
    "local_size": "how many ranks are on this node",
}


class SourcedNumber(NamedTuple):
    """A number and the variable that it was read from."""

    value: int
    variable: str

    def __str__(self) -> str:
        return f"{self.variable}={self.value}"


class Scheduler:
    """A program that starts and numbers the processes of a job, as seen by one of them.

    A subclass names the variables; ``__init__`` reads what they do not give directly.

    Attributes:
        key: The value of `CHOICE` that chooses it; empty for this environment.
        source: Its name in messages.
        variables: Those with rank, size, local rank and local size; empty for one that is missing.
        own_variables: Variables that ranks started by this process must not inherit; empty means
            ``variables``.
        rank: Number of the process, from 0; like the other numbers, None if unknown.
        size: Number of processes.
        local_rank: Number of the process on its node, from 0.
        local_size: Number of processes on its node.
        where: The job or step, such as ``step 42.0``; may be empty.
        node: A name that differs between nodes; empty if unknown.
        seed: Text that identifies the job; fit for ``JOB_ID``.
        hosts: The number of nodes, and the name of the first; None if unknown.
    """

    key = source = ""
    variables: Tuple[str, str, str, str] = ("", "", "", "")
    own_variables: Tuple[str, ...] = ()
    where = node = seed = ""
    hosts: Optional[Tuple[int, str]] = None

    def __init__(self, environ: Mapping[str, str]) -> None:
        numbers = [_read_first(environ, name) for name in self.variables]
        self.rank, self.size, self.local_rank, self.local_size = numbers

    def detect(self) -> bool:
        """Return whether it started this process or one of its parents."""
        return self.rank is not None and self.size is not None

    @property
    def name(self) -> str:
        """Source and place, as in ``Slurm, step 42.0``."""
        return f"{self.source}, {self.where}" if self.where else self.source

    @property
    def numbers(self) -> List[SourcedNumber]:
        """Rank, size, local rank and local size, as far as known."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size)
        return [number for number in numbers if number is not None]


def _name_numbers(prefix: str) -> Tuple[str, str, str, str]:
    return (f"{prefix}RANK", f"{prefix}SIZE", f"{prefix}LOCAL_RANK", f"{prefix}LOCAL_SIZE")


class RankVariables(Scheduler):
    """The adapter's variables (ge_plugin.cc), and the launcher's LOCAL_RANK and LOCAL_SIZE."""

    source = "this environment"
    variables = ("RANK_ID", "RANK_SIZE", "LOCAL_RANK", "LOCAL_SIZE")

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        rank, size = read_number(environ, "RANK_ID"), read_size(environ)
        name = "RANK_SIZE" if read_number(environ, "RANK_SIZE") else "CM_WORKER_SIZE"
        self.rank = None if rank is None else SourcedNumber(rank, "RANK_ID")
        self.size = None if size is None else SourcedNumber(size, name)

    def detect(self) -> bool:
        """Accept one number alone: a scheduler or the rank table may have the other."""
        return self.rank is not None or self.size is not None


class OpenMpi(Scheduler):
    """``mpirun`` of Open MPI.

    Source: docs.open-mpi.org, "Environment variables set for MPI applications".
    """

    key, source = "open-mpi", "Open MPI"
    variables = _name_numbers("OMPI_COMM_WORLD_")
    own_variables = (*variables, "OMPI_COMM_WORLD_NODE_RANK")

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        job, host = environ.get("PMIX_NAMESPACE", ""), environ.get("PMIX_HOSTNAME", "")
        places, step = [f"job {job}"] if job else [], Slurm(environ)
        if step.detect() and _is_below_daemon(environ):
            places.append(f"below daemons that are Slurm's {step.where}")
        self.where = ", ".join(places)
        # It may deal its ranks out to the nodes in turn, and does not number these.
        self.node = f"host {host}" if host else ""
        self.seed = _make_plain(f"ompi_{job or environ.get('OMPI_MCA_ess_base_jobid', '')}")


class Slurm(Scheduler):
    """``srun``, which alone starts tasks.

    A batch script and the shell of ``salloc`` are one process, whatever SLURM_NTASKS and
    SLURM_PROCID say there: the former counts what ``srun`` would start, the latter is 0.
    SLURM_STEP_ID is missing there, or is one of the numbers above the last that steps have
    (4294967290 for the shell of ``salloc``, 4294967291 for the batch script).

    Source: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; slurm.h, SLURM_MAX_NORMAL_STEP_ID; env.c,
    env_array_for_step: with ``--preserve-env`` SLURM_NTASKS and SLURM_NNODES remain those of the
    job, so that the variables of the step count first. That the tasks of each node are counted in
    the order of the names of the nodes, also where SLURM_NODEID goes by another, was seen with
    22.05.8 in a step of two components.
    """

    key, source = "slurm", "Slurm"
    variables = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "")
    own_variables = (
        *variables[:3],
        "SLURM_GTIDS",
        "SLURM_TASK_PID",
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_STEP_ID",
        "SLURM_STEPID",
    )
    last_step = 0xFFFFFFF0

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        node = read_number(environ, "SLURM_NODEID")
        self.step = read_number(environ, "SLURM_STEP_ID")
        job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or "?"
        nodes = _read_first(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
        self.size = self.size or _read_first(environ, "SLURM_NTASKS")
        self.local_size = _count_local_tasks(environ, node)
        self.where = f"step {job}.{self.step}"
        self.node = "" if node is None else f"node {node}"
        self.seed = _make_plain(f"slurm_{job}_{self.step}")
        if nodes is not None and self.rank is not None:
            self.hosts = (nodes.value, _find_host_of_rank_0(environ, self.rank.value, node))

    def detect(self) -> bool:
        """Accept only tasks of steps."""
        return self.step is not None and 0 <= self.step <= self.last_step and self.rank is not None


class Pmix(Scheduler):
    """PMIx, whose variables give only the rank; the rest needs its library."""

    key, source = "pmix", "PMIx"
    variables = ("PMIX_RANK", "", "", "")
    own_variables = ("PMIX_RANK", "PMIX_NAMESPACE")

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        job = environ.get("PMIX_NAMESPACE")
        self.where = f"job {job}" if job else ""

    def detect(self) -> bool:
        """Accept a rank without a size."""
        return self.rank is not None


class Mpich(Scheduler):
    """Hydra, the ``mpiexec`` of MPICH and of Intel MPI."""

    key, source = "mpich", "MPICH"
    variables = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")


class Mvapich2(Scheduler):
    """``mpirun_rsh`` of MVAPICH2."""

    key, source = "mvapich2", "MVAPICH2"
    variables = _name_numbers("MV2_COMM_WORLD_")


class Horovodrun(Scheduler):
    """``horovodrun`` of Horovod."""

    key = source = "horovodrun"
    variables = _name_numbers("HOROVOD_")


class Jsrun(Scheduler):
    """``jsrun`` of IBM's Job Step Manager."""

    key = source = "jsrun"
    variables = _name_numbers("JSM_NAMESPACE_")


class Torchrun(Scheduler):
    """``torchrun`` of PyTorch; people set RANK and WORLD_SIZE for other things, too."""

    key = source = "torchrun"
    variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    own_variables = ("TORCHELASTIC_RUN_ID",)

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ if environ.get("TORCHELASTIC_RUN_ID") else {})


PRECEDENCE: Tuple[Type[Scheduler], ...] = (
    RankVariables,
    OpenMpi,
    Slurm,
    Pmix,
    Mpich,
    Mvapich2,
    Horovodrun,
    Jsrun,
    Torchrun,
)
"""Sources, the first that counts in front; without any, a pod's rank table counts
(`kubernetes`)."""

SCHEDULERS = PRECEDENCE[1:]

IDENTITY_VARIABLES = tuple(
    name for each in SCHEDULERS for name in each.own_variables or each.variables if name
)
"""Variables of schedulers that a launcher removes from its ranks."""


class Identity(NamedTuple):
    """The numbers of this process; None if unknown.

    Attributes:
        rank: Number of the process, with its source; likewise the others.
        size: Number of processes.
        local_rank: Number of the process on its node.
        local_size: Number of processes on its node.
        claims: The sources, the one that counts first in front.
    """

    rank: Optional[SourcedNumber] = None
    size: Optional[SourcedNumber] = None
    local_rank: Optional[SourcedNumber] = None
    local_size: Optional[SourcedNumber] = None
    claims: Tuple[Scheduler, ...] = ()

    @property
    def scheduler(self) -> Optional[Scheduler]:
        """The first scheduler among them."""
        return next((claim for claim in self.claims if claim.key), None)

    @property
    def reason(self) -> str:
        """The sources and their variables, for logs."""
        numbers = [number for number in self[:4] if number is not None]
        if not numbers:
            return "no variable says anything of a job"
        sources = [claim.name for claim in self.claims if set(claim.numbers) & set(numbers)]
        return f"{' and '.join(sources)}: {', '.join(map(str, numbers))}"


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Read the environment of a process that is, or may be, a rank.

    Raises:
        JobError: If two sources differ; if `CHOICE` names no scheduler; or if this process was
            started from a shell that stands for several tasks of Slurm.
    """
    return _merge(_detect(PRECEDENCE, environ))


def read_schedulers(environ: Mapping[str, str]) -> Identity:
    """Read the schedulers' numbers only, for a process that starts ranks.

    Raises:
        JobError: As from `read_identity`.
    """
    return _merge(_detect(SCHEDULERS, environ))


def has_scheduler(environ: Mapping[str, str]) -> bool:
    """Return whether a scheduler started this process or a parent; ignores `CHOICE`."""
    return any(scheduler(environ).detect() for scheduler in SCHEDULERS)


def count_allocated_nodes(environ: Mapping[str, str]) -> int:
    """Count the nodes of the Slurm allocation in which this process runs; 0 outside of one."""
    if not environ.get("SLURM_JOB_ID"):
        return 0
    nodes = _read_first(environ, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    return 1 if nodes is None else nodes.value


def _detect(sources: Sequence[Type[Scheduler]], environ: Mapping[str, str]) -> List[Scheduler]:
    """List the sources that number this process; `CHOICE` may select one scheduler."""
    choice, choices = environ.get(CHOICE, ""), [*(each.key for each in SCHEDULERS), "none"]
    if choice not in ("", *choices):
        known = ", ".join(choices)
        raise JobError(f"{CHOICE}={choice!r} names no scheduler.", hint=f"Use one of {known}.")
    asked = [each(environ) for each in sources if not choice or each.key in ("", choice)]
    found = {type(each): each for each in asked if each.detect()}
    if choice:
        return list(found.values())
    if OpenMpi in found and _is_below_daemon(environ):
        found.pop(Slurm, None)
    # srun --mpi=pmi2 sets PMI_RANK, too.
    if Slurm in found and not found.keys() - {RankVariables, Slurm, Mpich}:
        _refuse_slurm_shell(environ, found[Slurm])
    return list(found.values())


def _merge(claims: Sequence[Scheduler]) -> Identity:
    """Take each number from the first source that has it; all must agree."""
    numbers = {}
    for field in _QUESTIONS:
        voices = [claim for claim in claims if getattr(claim, field) is not None]
        for claim in voices[1:]:
            if getattr(claim, field).value != getattr(voices[0], field).value:
                raise _disagreement(voices[0], claim, field)
        numbers[field] = getattr(voices[0], field) if voices else None
    return Identity(**numbers, claims=tuple(claims))


def _disagreement(first: Scheduler, other: Scheduler, field: str) -> JobError:
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
    """Read the first of these variables that is a number >= 0."""
    for name in names:
        value = read_number(environ, name)
        if value is not None and value >= 0:
            return SourcedNumber(value, name)
    return None


def _make_plain(text: str) -> str:
    """Replace characters that do not fit into names of files and jobs, such as PMIx's ``@``."""
    return re.sub("[^A-Za-z0-9_-]", "_", text)[-100:]


# Slurm


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
    """Find the node of rank 0; empty if the sorted list of the step's nodes does not show it."""
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


def _refuse_slurm_shell(environ: Mapping[str, str], step: Scheduler) -> None:
    """Refuse a process from the shell of ``srun --pty`` if the step has several tasks.

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
        f"This process was started from a shell of srun --pty ({step.name}), which has the "
        f"variables of {step.rank} of the {step.size.value} tasks ({step.size}). Nothing shows "
        "whether it is that task or an independent process.",
        hint=f"export {CHOICE}=none if it is independent, {CHOICE}=slurm if it is that task; srun "
        "without --pty starts all tasks alike.",
    )


def _has_terminal(pid: int) -> bool:
    """Return whether a process exists here and has a controlling terminal."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[4] != b"0"  # tty_nr, proc(5)
    except (OSError, IndexError):
        return False


# Open MPI


def _is_below_daemon(environ: Mapping[str, str]) -> bool:
    """Return whether the Slurm step of this process is that of ``mpirun``'s daemons.

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
