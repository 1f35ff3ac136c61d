"""This launcher's node among the nodes of its job: from what is asked, or from a scheduler.

A scheduler starts one launcher on each node: its number among them is the node's.
"""

import re
from typing import Any, List, Mapping, NamedTuple, Optional

from ascend_session.cluster.claim import Claim, Said
from ascend_session.cluster.coordinator import coordinator_of, parts_of
from ascend_session.cluster.schedulers import CHOICE, Detected, scheduled
from ascend_session.cluster.slurm import allocated_nodes
from ascend_session.cluster.variables import COORDINATOR, RANK_FOLDER
from ascend_session.errors import ConfigError, JobError, Problem
from ascend_session.launcher.config import LaunchConfig

__all__ = ["Nodes", "nodes_of"]

_PER_NODE = {
    "Slurm": "srun --ntasks-per-node=1 ascend-session launch ...",
    "Open MPI": "mpirun --map-by ppr:1:node ascend-session launch ...",
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
    """

    of: int = 1
    number: int = 0
    coordinator: Optional[str] = None
    job_id: Optional[str] = None
    why: str = ""
    notes: List[str] = []  # noqa: RUF012  (never changed)

    def first_rank(self, on_each: int) -> int:
        """The first rank of this node, if each has as many."""
        return self.number * on_each


def nodes_of(config: LaunchConfig, environ: Mapping[str, str]) -> Nodes:
    """Decides it.

    Args:
        config: What the launch is asked.
        environ: The launcher's environment with what the user adds.

    Raises:
        ConfigError: If what is asked cannot be done on several nodes.
        JobError: If a scheduler says something else than what is asked, or started several
            launchers on one node, or two schedulers differ.
    """
    found = scheduled(environ)
    claim = found.scheduler
    if claim is not None:
        _check_one_each(found, claim)
        _check_agreed(config, found, claim)
    said = found.rank, found.size
    count = config.nnodes or (said[1].value if said[1] is not None else 1)
    number = config.node_rank if config.node_rank is not None else said[0] and said[0].value
    if count == 1:
        return Nodes(notes=_lone_notes(claim, environ))
    if number is None:
        raise ConfigError.of(
            [Problem("node_rank", f"nnodes={count}, but nothing says which of them this is.",
                     "Give node_rank, from 0, another one on each node.")],
            "the launch",
        )  # fmt: skip
    if config.max_restarts:
        said_so = f"max_restarts={config.max_restarts} is given, and the job has {count} nodes"
        hint = "Leave it out; start the job again on all nodes."
        raise ConfigError.of(
            [Problem("max_restarts", f"{said_so}, whose launchers start nothing together.", hint)],
            "the launch",
        )
    coordinator = _coordinator(config, claim, environ)
    job_id = claim.seed if claim is not None and claim.seed else _job_id(coordinator)
    why = (
        "as asked for"
        if claim is None
        else f"as {claim.name} says ({_listed(found.rank, found.size)})"
    )
    return Nodes(count, number, coordinator, job_id and _legal(job_id), why)


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
            hint=f"Give nnodes and node_rank, with {CHOICE}=none.",
        )
    here = found.local_size
    nodes = found.size.value if claim.hosts is None else claim.hosts[0]
    if (here is not None and here.value > 1) or nodes != found.size.value:
        how = _PER_NODE.get(claim.source, "one launcher on each node")
        where = f"{here.value} of them here" if here is not None else f"on {nodes} node(s)"
        raise JobError(
            f"{claim.source} has started {found.size.value} launchers, {where} ({_listed(found.size, here)}); "
            "each starts all ranks of its node.",
            hint=f"Start one on each node: {how} Or let {claim.source} start the ranks "
            f"themselves, without a launcher; or export {CHOICE}=none for jobs that have nothing "
            "to do with each other.",
        )


def _check_agreed(config: LaunchConfig, found: Detected, claim: Claim) -> None:
    asked: List[Any] = [("nnodes", config.nnodes, found.size)]
    asked += [("node_rank", config.node_rank, found.rank)]
    for name, given, said in asked:
        if given is not None and said is not None and given != said.value:
            raise JobError(
                f"{name}={given} is given, but {claim.name} says {said}: one launcher is one node.",
                hint=f"Leave {name} out to go by {claim.source}, or export {CHOICE}=none to go by "
                f"{name}.",
            )


def _lone_notes(claim: Optional[Claim], environ: Mapping[str, str]) -> List[str]:
    allocated = allocated_nodes(environ)
    if allocated < 2 or claim is not None or environ.get(CHOICE) == "none":
        return []
    return [
        f"Slurm's job has {allocated} nodes, and this launch uses one of them: it is no task of a "
        f"step. To use all: {_PER_NODE['Slurm']}"
    ]


def _job_id(coordinator: Optional[str]) -> Optional[str]:
    return None if coordinator is None else f"job_{coordinator}"


def _legal(job_id: str) -> str:
    """Without what no ``JOB_ID`` may have."""
    return re.sub("[^A-Za-z0-9_-]", "_", job_id)[-100:]
