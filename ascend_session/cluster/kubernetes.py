"""Kubernetes: the rank table mounted in a pod, and this pod's rank in it.

Mind-cluster's ascend-operator mounts the table. It names servers by the addresses of their hosts,
which pods get as XDL_IP or HOST_IP. In a former layout HCCL finds a pod by POD_NAME (HCOMM,
topoinfo_ranktableStandard.cc). See guides/facts/rank_tables.md#makers-of-rank-tables.
"""

import os
from typing import Dict, Mapping, NamedTuple, Optional

from ascend_session.cluster.schedulers import CHOICE, Identity
from ascend_session.cluster.variables import read_task_type
from ascend_session.errors import JobError
from ascend_session.hardware.nodes import host_root

MOUNTED = "/user/serverid/devindex/config/hccl.json"
_POD_NAMES = ("POD_NAME", "XDL_IP", "POD_IP")
_COMMON_NAMES = ("HOST_IP", "NODE_IP")  # outside of pods other programs use them as well


class MountedRank(NamedTuple):
    """The rank of a pod with one device, from the mounted table.

    Attributes:
        path: The table's file: ``RANK_TABLE_FILE`` if it is set, else the mounted one.
        rank: The rank.
        size: Number of ranks in the table.
        job_id: A ``JOB_ID`` that differs between tables.
        evidence: Why this rank is the pod's, as in ``10.0.0.7 is POD_IP``.
    """

    path: str
    rank: int
    size: int
    job_id: str
    evidence: str

    def find_missing_variables(self, environ: Mapping[str, str]) -> Dict[str, str]:
        """Return the variables of the adapter and the launcher that say this and are not set."""
        variables = {
            "RANK_TABLE_FILE": self.path,
            "RANK_ID": str(self.rank),
            "RANK_SIZE": str(self.size),
            "LOCAL_RANK": "0",
            "LOCAL_SIZE": "1",
            "JOB_ID": self.job_id,
        }
        return {name: value for name, value in variables.items() if not environ.get(name)}

    def __str__(self) -> str:
        return f"the rank table {self.path}: rank {self.rank} of {self.size}, {self.evidence}"


def is_in_pod(environ: Mapping[str, str]) -> bool:
    """Return whether this process runs in a pod: Kubernetes sets KUBERNETES_SERVICE_HOST there."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def find_mounted_table(environ: Mapping[str, str]) -> Optional[str]:
    """Return the path of the table that the job's controller mounted; None if there is none."""
    path = os.path.join(host_root(environ), MOUNTED.lstrip("/"))
    return path if os.path.isfile(path) else None


def find_pod_names(environ: Mapping[str, str]) -> Dict[str, str]:
    """Map each name of this pod and its host to the variable that has it."""
    names = (*_POD_NAMES, *_COMMON_NAMES) if is_in_pod(environ) else _POD_NAMES
    return {environ[name]: name for name in names if environ.get(name)}


def find_mounted_rank(environ: Mapping[str, str], identity: Identity) -> Optional[MountedRank]:
    """Find this process's rank in the mounted table.

    Args:
        environ: The environment of the process.
        identity: Its numbers from variables and schedulers.

    Returns:
        None without a table, for a table of one rank, for an evaluator, and if the rank is known
        from elsewhere: a variable, a scheduler, or POD_NAME with ``RANK_TABLE_FILE``, from which
        HCCL finds it itself.

    Raises:
        JobError: If nothing says which of several ranks this process is, so that it would train
            alone; or if the table is not valid or not completed.
    """
    mounted, given = find_mounted_table(environ), environ.get("RANK_TABLE_FILE")
    if mounted is None or (given and environ.get("POD_NAME")):
        return None
    if read_task_type(environ) == "evaluator" or environ.get(CHOICE) == "none":
        return None
    if identity.rank is not None or identity.size is not None:
        return None
    from ascend_session.cluster.rank_table.contents import COMPLETED
    from ascend_session.cluster.rank_table.host import find_nodes
    from ascend_session.cluster.rank_table.table import RankTable

    path = given or mounted
    table = RankTable.read(path)
    if table.status != COMPLETED:
        raise _refuse_mounted("that is not completed", path)
    if table.size == 1:
        return None
    nodes = find_nodes(table, environ)
    node = None if nodes.own is None else nodes.nodes[nodes.own]
    if node is None or not node.evidence or len(node.devices) != 1:
        raise _refuse_mounted(f"of {table.size} ranks", path)
    return MountedRank(path, node.first_rank, table.size, nodes.job_id, node.evidence)


def _refuse_mounted(what: str, path: str) -> JobError:
    return JobError(
        f"A rank table {what} is mounted at {path}, but nothing says which of its ranks this "
        "process is (RANK_ID and RANK_SIZE do, or a pod's address or name if it has one device "
        "there): it would train alone.",
        hint="Start the ranks of this pod with `ascend-session launch`, which reads the table; or "
        f"export {CHOICE}=none to train alone.",
    )
