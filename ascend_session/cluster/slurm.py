"""What Slurm says of a process: a task of a job step, or only somebody inside an allocation.

Only ``srun`` starts tasks. A batch script and the shell of ``salloc`` are one process, whatever
``SLURM_NTASKS`` and ``SLURM_PROCID`` say there: the former counts what ``srun`` would start, the
latter is 0. ``SLURM_STEP_ID`` is missing there, or is one of the numbers above the last that steps
have (4294967290 for the shell of ``salloc``, 4294967291 for the batch script).

Source: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; slurm.h, SLURM_MAX_NORMAL_STEP_ID; env.c,
env_array_for_step: with ``--preserve-env`` SLURM_NTASKS and SLURM_NNODES remain those of the job,
so that the variables of the step count first.
"""

import re
from typing import Mapping, Optional

from ascend_session.cluster.claim import Claim, Said, said
from ascend_session.cluster.variables import number

__all__ = ["IDENTITY", "allocated_nodes", "claim", "first_host", "tasks_on"]

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
    listed = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST") or ""
    return Claim(
        source="Slurm",
        key="slurm",
        where=f"step {job}.{step}",
        rank=rank,
        size=size,
        local_rank=said(environ, "SLURM_LOCALID"),
        local_size=_local_size(environ, node),
        node="" if node is None else f"node {node}",
        seed=f"slurm_{job}_{step}",
        hosts=None if nodes is None else (nodes.value, first_host(listed)),
        port=_first_port(environ.get("SLURM_STEP_RESV_PORTS", "")),
    )


def allocated_nodes(environ: Mapping[str, str]) -> int:
    """How many nodes the allocation has in which this process runs; 0 outside of one."""
    if not environ.get("SLURM_JOB_ID"):
        return 0
    found = said(environ, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    return 1 if found is None else found.value


def first_host(nodelist: str) -> str:
    """The first name of a list such as ``gpu[07-09,12],login1``; empty if there is none."""
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


def _local_size(environ: Mapping[str, str], node: Optional[int]) -> Optional[Said]:
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        count = None if node is None else tasks_on(node, environ.get(name, ""))
        if count is not None:
            return Said(count, name)
    tasks = environ.get("SLURM_GTIDS", "")
    return Said(len(tasks.split(",")), "SLURM_GTIDS") if tasks else None


def _first_port(ports: str) -> Optional[int]:
    match = re.match("[0-9]+", ports)
    return int(match[0]) if match else None
