"""The rank of this process, from the adapter's variables and from schedulers.

Each source is a class that detects whether it started this process, and reads its numbers. Each
number is taken from the first source in `PRECEDENCE` that has it. If two sources disagree, JobError
is raised.
"""

import os
import re
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from ascend_session.cluster.variables import read_number, read_size
from ascend_session.errors import JobError

CHOICE = "ASCEND_SESSION_SCHEDULER"
"""Variable that chooses the scheduler: ``slurm``, ``open-mpi`` ..., or ``none``."""

# The numbers, and for messages the question that each of them answers.
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
    """A program that starts and numbers the processes of a job, as one of them sees it.

    A subclass names the variables; its ``__init__`` computes what they do not give directly. It is
    called in any environment, and raises nothing.

    Attributes:
        key: The value of `CHOICE` that chooses it; empty for `RankVariables`.
        source: Its name in messages.
        variables: The names of its variables for rank, size, local rank and local size; empty
            where it has none.
        process_variables: Variables that ranks started by this process must not inherit; empty for
            the same as ``variables``.
        rank: Number of the process, from 0; like the other numbers, None if unknown.
        size: Number of processes.
        local_rank: Number of the process on its node, from 0.
        local_size: Number of processes on its node.
        where: The job or step, such as ``step 42.0``; may be empty.
        node: A name of the node that no other node has; empty if unknown.
        job_id: A ``JOB_ID`` that no other job has, where the environment has none; may be empty.
        hosts: The number of nodes, and the name of the node with rank 0; None if unknown.
    """

    key = source = ""
    variables: Tuple[str, str, str, str] = ("", "", "", "")
    process_variables: Tuple[str, ...] = ()
    where = node = job_id = ""
    hosts: Optional[Tuple[int, str]] = None

    def __init__(self, environ: Mapping[str, str]) -> None:
        numbers = [_read_first(environ, name) for name in self.variables]
        self.rank, self.size, self.local_rank, self.local_size = numbers

    def detect(self) -> bool:
        """Return whether it started this process or one of its parents."""
        return self.rank is not None and self.size is not None

    @property
    def name(self) -> str:
        """Its name in messages with the job or step, as in ``Slurm, step 42.0``."""
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
        """Return whether rank or size is set: a scheduler or rank table may have the other."""
        return self.rank is not None or self.size is not None


class OpenMpi(Scheduler):
    """``mpirun`` of Open MPI.

    Source: docs.open-mpi.org, "Environment variables set for MPI applications".
    """

    key, source = "open-mpi", "Open MPI"
    variables = _name_numbers("OMPI_COMM_WORLD_")
    process_variables = (*variables, "OMPI_COMM_WORLD_NODE_RANK")

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        job, host = environ.get("PMIX_NAMESPACE", ""), environ.get("PMIX_HOSTNAME", "")
        parts = [f"job {job}"] if job else []
        step = Slurm(environ)
        if step.detect() and _is_below_daemon(environ):
            parts.append(f"below daemons that are Slurm's {step.where}")
        self.where = ", ".join(parts)
        # Nodes have no numbers, and their ranks need not follow each other (--map-by node).
        self.node = f"host {host}" if host else ""
        self.job_id = _make_plain(f"ompi_{job or environ.get('OMPI_MCA_ess_base_jobid', '')}")


class Slurm(Scheduler):
    """``srun``, the only command of Slurm that starts tasks.

    A batch script and the shell of ``salloc`` are single processes, although SLURM_NTASKS (what
    ``srun`` would start) and SLURM_PROCID (0) are set there. They are told apart by SLURM_STEP_ID:
    it is missing, or above `last_step` (4294967290 for the shell, 4294967291 for the script).

    The variables of the step come first: with ``--preserve-env`` SLURM_NTASKS and SLURM_NNODES are
    those of the job. In a step of two components SLURM_TASKS_PER_NODE follows the names of the
    nodes, which SLURM_NODEID need not do (seen with 22.05.8).

    Source: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; slurm.h, SLURM_MAX_NORMAL_STEP_ID; env.c,
    env_array_for_step.
    """

    key, source = "slurm", "Slurm"
    variables = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "")
    process_variables = (
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
        self.job_id = _make_plain(f"slurm_{job}_{self.step}")
        if nodes is not None and self.rank is not None:
            self.hosts = (nodes.value, _find_host_of_rank_0(environ, self.rank.value, node))

    def detect(self) -> bool:
        """Return whether this process is a task of a step."""
        return self.step is not None and 0 <= self.step <= self.last_step and self.rank is not None


class Pmix(Scheduler):
    """PMIx, whose variables give only the rank; the rest needs its library."""

    key, source = "pmix", "PMIx"
    variables = ("PMIX_RANK", "", "", "")
    process_variables = ("PMIX_RANK", "PMIX_NAMESPACE")

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        job = environ.get("PMIX_NAMESPACE")
        self.where = f"job {job}" if job else ""

    def detect(self) -> bool:
        """Return whether there is a rank; PMIx gives no size."""
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
    """``torchrun`` of PyTorch; RANK and WORLD_SIZE alone may be meant for another program."""

    key = source = "torchrun"
    variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    process_variables = ("TORCHELASTIC_RUN_ID",)

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
"""Sources, those that win first; without any, a pod's rank table counts (`kubernetes`)."""

SCHEDULERS = PRECEDENCE[1:]

IDENTITY_VARIABLES = tuple(
    name for each in SCHEDULERS for name in each.process_variables or each.variables if name
)
"""Variables of schedulers that a launcher removes from the environment of its ranks."""


# Launchers whose variables are not taken, because alone they may be meant for another program:
# those of rank and size. PALS names no size.
_OTHER_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "DeepSpeed, Ray, PyTorchJob or torch.distributed.launch"),
    ("MS_NODE_ID", "MS_WORKER_NUM", "MindSpore"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "Flux"),
    ("PALS_RANKID", "", "PALS"),
)


class Identity(NamedTuple):
    """The numbers of this process; None if unknown.

    Attributes:
        rank: Number of the process, with its source; likewise the others.
        size: Number of processes.
        local_rank: Number of the process on its node.
        local_size: Number of processes on its node.
        claims: The sources that number this process, in the order of `PRECEDENCE`.
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
        """The sources and variables of the numbers, for logs."""
        numbers = [number for number in self[:4] if number is not None]
        if not numbers:
            return "no variable describes a job"
        sources = [claim.name for claim in self.claims if set(claim.numbers) & set(numbers)]
        return f"{' and '.join(sources)}: {', '.join(map(str, numbers))}"


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Read the environment of a process that is, or may be, a rank.

    Raises:
        JobError: If two sources disagree; if `CHOICE` names no scheduler; or if this process was
            started from a shell of ``srun --pty`` in a step of several tasks.
    """
    return _merge(_detect(PRECEDENCE, environ))


def refuse_other_launchers(environ: Mapping[str, str], identity: Identity) -> None:
    """Refuse a process that another launcher numbers, but that would be rank 0 of a job of one.

    Raises:
        JobError: If the variables of such a launcher describe several processes, nothing else gives
            a rank, and neither `CHOICE` nor a size of 1 says that this process is alone.
    """
    is_alone = identity.size is not None and identity.size.value == 1
    if identity.rank is not None or is_alone or environ.get(CHOICE):
        return
    for rank_name, size_name, source in _OTHER_LAUNCHERS:
        rank = _read_first(environ, rank_name)
        size = _read_first(environ, size_name) if size_name else None
        if rank is None or (size_name and (size is None or size.value < 2)):
            continue
        named = f"{rank} and {size} ({source}) say" if size else f"{rank} ({source}) says"
        count = f"${size_name}" if size_name else "NUMBER_OF_PROCESSES"
        raise JobError(
            f"{named} that this process is one of several, but no variable that is read gives "
            "its rank: it would be rank 0 of 1, and each process would train its own model.",
            hint=f"export RANK_ID=${rank_name} RANK_SIZE={count} in each process, or start them "
            f"with ascend-session launch; export {CHOICE}=none if they are independent.",
        )


def read_schedulers(environ: Mapping[str, str]) -> Identity:
    """Read only the schedulers' numbers, for a process that starts ranks.

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
        names = ", ".join(choices)
        raise JobError(f"{CHOICE}={choice!r} names no scheduler.", hint=f"Use one of {names}.")
    candidates = [each(environ) for each in sources if not choice or each.key in ("", choice)]
    detected = {type(each): each for each in candidates if each.detect()}
    if choice:
        return list(detected.values())
    if OpenMpi in detected and _is_below_daemon(environ):
        detected.pop(Slurm, None)
    # Slurm alone numbers it: srun --mpi=pmi2 sets MPICH's PMI_RANK, too.
    if Slurm in detected and not detected.keys() - {RankVariables, Slurm, Mpich}:
        _refuse_slurm_shell(environ, detected[Slurm])
    return list(detected.values())


def _merge(claims: Sequence[Scheduler]) -> Identity:
    """Take each number from the first source that has it; all must agree."""
    numbers = {}
    for field in _QUESTIONS:
        having = [claim for claim in claims if getattr(claim, field) is not None]
        for claim in having[1:]:
            if getattr(claim, field).value != getattr(having[0], field).value:
                raise _disagreement(having[0], claim, field)
        numbers[field] = getattr(having[0], field) if having else None
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
    """Replace characters that names of files and jobs must not have, such as PMIx's ``@``."""
    return re.sub("[^A-Za-z0-9_-]", "_", text)[-100:]


# Slurm


def _find_first_host(nodelist: str) -> str:
    """Return the first name of a list such as ``gpu[07-09,12],login1``; empty if it has none."""
    if nodelist == "(null)":  # Slurm's text for no list
        return ""
    match = re.match(r"([^\[,]*)(?:\[([0-9]+)[^\]]*\]([^\[,]*))?", nodelist)
    return "" if match is None else f"{match[1]}{match[2] or ''}{match[3] or ''}"


def _count_tasks(node: int, counts: str) -> Optional[int]:
    """Read the tasks of a node from ``counts``, as in ``2(x3),1``; None if it is not there."""
    for part in counts.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part.strip())
        if match is None:
            return None
        node -= int(match[2] or 1)
        if node < 0:
            return int(match[1])
    return None


def _find_host_of_rank_0(environ: Mapping[str, str], rank: int, node: Optional[int]) -> str:
    """Return the node of rank 0; empty if it need not be the first of the step's sorted nodes."""
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

    The shell itself is a task, and so is a program that ``srun --pty`` runs instead of a shell; a
    program that a user starts in the shell is an independent process. SLURM_PTY_PORT does not
    decide it: a step that is started from such a shell inherits it, but its tasks have no terminal.

    Raises:
        JobError: If this process may be either.
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

    Below Slurm, ``mpirun`` starts its daemons with ``srun``, and the ranks inherit their variables.
    ``mpirun``'s own node has no daemon if the allocation has this node. Source: the environments of
    such ranks (Open MPI 4.1.4, Slurm 22.05.8); plm_slurm_module.c, where ess_base_num_procs counts
    ``mpirun`` as well.
    """
    rank = read_number(environ, "OMPI_COMM_WORLD_RANK")
    nodes = read_number(environ, "SLURM_STEP_NUM_NODES")
    if rank is None or rank != read_number(environ, "OMPI_MCA_ess_base_vpid"):
        return False
    if nodes is None or nodes != read_number(environ, "SLURM_STEP_NUM_TASKS"):
        return False
    daemons = (read_number(environ, "OMPI_MCA_ess_base_num_procs") or 0) - 1
    return nodes in (read_number(environ, "OMPI_MCA_orte_num_nodes"), daemons)
