"""What Open MPI's ``mpirun`` and PMIx say of a process that they have started.

Source: docs.open-mpi.org, "Environment variables set for MPI applications" (OMPI_COMM_WORLD_*).
PMIx itself gives a process its rank and the name of its job (PMIX_RANK, PMIX_NAMESPACE), and
tells the rest only to those who ask its library.
"""

from typing import Mapping, Optional

from ascend_session.cluster.claim import Claim, plain, said
from ascend_session.cluster.variables import number

__all__ = ["IDENTITY", "claim", "is_below", "pmix_claim"]

IDENTITY = (
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
"""Variables that number a process of a job, and are not those of a process that it starts."""


def claim(environ: Mapping[str, str]) -> Optional[Claim]:
    """What ``mpirun`` says; None if it has not started this process."""
    rank, size = said(environ, "OMPI_COMM_WORLD_RANK"), said(environ, "OMPI_COMM_WORLD_SIZE")
    if rank is None or size is None:
        return None
    job, host = environ.get("PMIX_NAMESPACE", ""), environ.get("PMIX_HOSTNAME", "")
    return Claim(
        source="Open MPI",
        key="open-mpi",
        where=f"job {job}" if job else "",
        rank=rank,
        size=size,
        local_rank=said(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size=said(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        # It may deal its ranks out to the nodes in turn, and does not number these.
        node=f"host {host}" if host else "",
        seed=plain(f"ompi_{job or environ.get('OMPI_MCA_ess_base_jobid', '')}"),
    )


def is_below(environ: Mapping[str, str]) -> bool:
    """Whether the Slurm step of this process is that of ``mpirun``'s daemons, one on each node.

    Below Slurm, ``mpirun`` starts its daemons with ``srun``, none on its own node if that is one of
    the allocation's; the ranks inherit the variables of these. Source: the environments of such
    ranks (Open MPI 4.1.4, Slurm 22.05.8); plm_slurm_module.c, where ``mpirun`` itself is the first
    of ess_base_num_procs.
    """
    rank, nodes = number(environ, "OMPI_COMM_WORLD_RANK"), number(environ, "SLURM_STEP_NUM_NODES")
    if rank is None or rank != number(environ, "OMPI_MCA_ess_base_vpid"):
        return False
    if nodes is None or nodes != number(environ, "SLURM_STEP_NUM_TASKS"):
        return False
    daemons = (number(environ, "OMPI_MCA_ess_base_num_procs") or 0) - 1
    return nodes in (number(environ, "OMPI_MCA_orte_num_nodes"), daemons)


def pmix_claim(environ: Mapping[str, str]) -> Optional[Claim]:
    """What PMIx says; None if it has not started this process."""
    rank = said(environ, "PMIX_RANK")
    if rank is None:
        return None
    job = environ.get("PMIX_NAMESPACE", "")
    return Claim(source="PMIx", key="pmix", where=f"job {job}" if job else "", rank=rank)
