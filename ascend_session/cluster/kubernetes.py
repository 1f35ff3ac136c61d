"""Kubernetes: the rank table mounted in a pod, and this pod's rank in it.

Source: mind-cluster's ascend-operator, which mounts the table and names servers by the addresses of
their hosts, which the pods get as XDL_IP or HOST_IP; HCOMM, topoinfo_ranktableStandard.cc, where
template 2 goes by POD_NAME.
"""

import os
from typing import Dict, Mapping, NamedTuple, Optional

from ascend_session.cluster.schedulers import CHOICE, Identity
from ascend_session.cluster.variables import read_task_type
from ascend_session.errors import JobError
from ascend_session.hardware.nodes import host_root

MOUNTED = "/user/serverid/devindex/config/hccl.json"
_OWN_NAMES = ("POD_NAME", "XDL_IP", "POD_IP")
_COMMON_NAMES = ("HOST_IP", "NODE_IP")  # which others use too


class MountedPlace(NamedTuple):
    """The one rank of this pod in the mounted table.

    Attributes:
        path: The table; that of ``RANK_TABLE_FILE`` where it is set.
        rank: The rank.
        size: Number of ranks in the table.
        seed: Text that only this table has.
        mine: The evidence that the rank is this pod's.
    """

    path: str
    rank: int
    size: int
    seed: str
    mine: str

    def missing_variables(self, environ: Mapping[str, str]) -> Dict[str, str]:
        """Return it as variables of the adapter and the launcher that are not set yet."""
        variables = {
            "RANK_TABLE_FILE": self.path,
            "RANK_ID": str(self.rank),
            "RANK_SIZE": str(self.size),
            "LOCAL_RANK": "0",
            "LOCAL_SIZE": "1",
            "JOB_ID": self.seed,
        }
        return {name: value for name, value in variables.items() if not environ.get(name)}

    def __str__(self) -> str:
        return f"the rank table {self.path}: rank {self.rank} of {self.size}, {self.mine}"


def is_in_pod(environ: Mapping[str, str]) -> bool:
    """Return whether this process runs in a pod: Kubernetes sets KUBERNETES_SERVICE_HOST there."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def find_mounted_table(environ: Mapping[str, str]) -> Optional[str]:
    """Return the path of the table that the job's controller mounted; None without one."""
    path = os.path.join(host_root(environ), MOUNTED.lstrip("/"))
    return path if os.path.isfile(path) else None


def find_pod_names(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the names of this pod and its host, and the variable of each."""
    names = (*_OWN_NAMES, *_COMMON_NAMES) if is_in_pod(environ) else _OWN_NAMES
    return {environ[name]: name for name in names if environ.get(name)}


def find_mounted_place(environ: Mapping[str, str], identity: Identity) -> Optional[MountedPlace]:
    """Find this process's rank in the mounted table.

    Args:
        environ: The environment of the process.
        identity: What variables and schedulers say of it.

    Returns:
        None without a table, for a table of one rank, for an evaluator, and if the rank is known
        otherwise: from a variable, a scheduler, or POD_NAME beside ``RANK_TABLE_FILE``, by which
        HCCL finds it.

    Raises:
        JobError: If the table has several ranks and it cannot be told which one this process is,
            so that it would train alone; or if it is no valid rank table, or not completed.
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
    own = None if nodes.own is None else nodes.nodes[nodes.own]
    if own is None or not own.mine or len(own.devices) != 1:
        raise _refuse_mounted(f"of {table.size} ranks", path)
    return MountedPlace(path, own.first, table.size, nodes.seed, own.mine)


def _refuse_mounted(what: str, path: str) -> JobError:
    return JobError(
        f"A rank table {what} is mounted at {path}, but nothing says which of its ranks this "
        "process is (RANK_ID and RANK_SIZE do, or a pod's address or name if it has one device "
        "there): it would train alone.",
        hint="Start the ranks of this pod with `ascend-session launch`, which reads the table; or "
        f"export {CHOICE}=none to train alone.",
    )
