"""What Slurm says of a process: a task of a job step, or only somebody inside an allocation.

Only ``srun`` starts tasks. A batch script and the shell of ``salloc`` are one process, whatever
``SLURM_NTASKS`` and ``SLURM_PROCID`` say there: the former counts what ``srun`` would start, the
latter is 0. ``SLURM_STEP_ID`` is missing there, or is one of the numbers above the last that steps
have (4294967290 for the shell of ``salloc``, 4294967291 for the batch script).

Source: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; slurm.h, SLURM_MAX_NORMAL_STEP_ID; env.c,
env_array_for_step: with ``--preserve-env`` SLURM_NTASKS and SLURM_NNODES remain those of the job,
so that the variables of the step count first. That the tasks of each node are counted in the order
of the names of the nodes, also where SLURM_NODEID goes by another, was seen with 22.05.8 in a step
of two components.
"""

import os
import re
from typing import Mapping, Optional

from ascend_session.cluster.claim import Claim, Said, plain, said
from ascend_session.cluster.variables import number
from ascend_session.errors import JobError

__all__ = [
    "IDENTITY",
    "allocated_nodes",
    "claim",
    "first_host",
    "has_terminal",
    "refuse_shell",
    "tasks_on",
]

IDENTITY = (
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
)
"""Variables that number a task, and are not those of a process that the task starts."""

_LAST_STEP = 0xFFFFFFF0


def claim(environ: Mapping[str, str]) -> Optional[Claim]:
    """What Slurm says; None if this process is no task of a step."""
    step, rank = number(environ, "SLURM_STEP_ID"), said(environ, "SLURM_PROCID")
    if step is None or not 0 <= step <= _LAST_STEP or rank is None:
        return None
    node = number(environ, "SLURM_NODEID")
    size = said(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or "?"
    nodes = said(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    return Claim(
        source="Slurm",
        key="slurm",
        where=f"step {job}.{step}",
        rank=rank,
        size=size,
        local_rank=said(environ, "SLURM_LOCALID"),
        local_size=_local_size(environ, node),
        node="" if node is None else f"node {node}",
        seed=plain(f"slurm_{job}_{step}"),
        hosts=None if nodes is None else (nodes.value, _host_of_first(environ, rank.value, node)),
        port=_first_port(environ.get("SLURM_STEP_RESV_PORTS", "")),
    )


def allocated_nodes(environ: Mapping[str, str]) -> int:
    """How many nodes the allocation has in which this process runs; 0 outside of one."""
    if not environ.get("SLURM_JOB_ID"):
        return 0
    found = said(environ, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    return 1 if found is None else found.value


def refuse_shell(environ: Mapping[str, str], step: Claim) -> None:
    """Refuses what was started from the shell of ``srun --pty``, where that stands for several.

    Such a shell is a task and so is a program that ``srun --pty`` runs at once, but a program that
    somebody starts in the shell is alone. SLURM_PTY_PORT says less than it seems: a step that is
    started from such a shell inherits it, but its tasks have no terminal.

    Args:
        environ: The environment of this process.
        step: What it says of the step.

    Raises:
        JobError: If it cannot be told whether this process is the step's task.
    """
    task = number(environ, "SLURM_TASK_PID")
    if not environ.get("SLURM_PTY_PORT") or step.size is None or step.size.value == 1:
        return
    if task is None or task == os.getpid() or not has_terminal(task):
        return
    raise JobError(
        f"This process was started from a shell of srun --pty ({step.name}), which stands for "
        f"{step.rank} of the {step.size.value} tasks ({step.size}); it may be that task, or have "
        "nothing to do with the others.",
        hint="export ASCEND_SESSION_SCHEDULER=none for one process, =slurm for a task; srun "
        "without --pty starts all tasks alike.",
    )


def has_terminal(pid: int) -> bool:
    """Whether a process has a controlling terminal; not if there is no such process here."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[4] != b"0"  # tty_nr, proc(5)
    except (OSError, IndexError):
        return False


def first_host(nodelist: str) -> str:
    """The first name of a list such as ``gpu[07-09,12],login1``; empty if there is none."""
    if nodelist == "(null)":  # as Slurm writes what it does not have
        return ""
    match = re.match(r"([^\[,]*)(?:\[([0-9]+)[^\]]*\]([^\[,]*))?", nodelist)
    return "" if match is None else f"{match[1]}{match[2] or ''}{match[3] or ''}"


def tasks_on(node: int, counts: str) -> Optional[int]:
    """How many tasks a node has of a step with ``counts``, such as ``2(x3),1``; None if none."""
    for part in counts.split(","):
        match = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", part.strip())
        if match is None:
            return None
        node -= int(match[2] or 1)
        if node < 0:
            return int(match[1])
    return None


def _host_of_first(environ: Mapping[str, str], rank: int, node: Optional[int]) -> str:
    """Where rank 0 is; empty if the list of the step's nodes, which is sorted, does not say so."""
    is_mixed = (number(environ, "SLURM_HET_SIZE") or 1) > 1
    if is_mixed or environ.get("SLURM_DISTRIBUTION") == "arbitrary" or (rank == 0 and node):
        return ""
    return first_host(environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST") or "")


def _local_size(environ: Mapping[str, str], node: Optional[int]) -> Optional[Said]:
    tasks = environ.get("SLURM_GTIDS", "")
    if tasks:
        return Said(len(tasks.split(",")), "number of SLURM_GTIDS")
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        count = None if node is None else tasks_on(node, environ.get(name, ""))
        if count is not None:
            return Said(count, name)
    return None


def _first_port(ports: str) -> Optional[int]:
    match = re.match("[0-9]+", ports)
    return int(match[0]) if match else None
