"""A process in a pod whose controller has mounted a rank table, and which nothing else numbers.

Source: launch_facts.md, A7 (mind-cluster's operator mounts the table in each pod of a job).
"""

from typing import Dict, Mapping, NamedTuple, Optional

from ascend_session.cluster.kubernetes import mounted_table
from ascend_session.cluster.schedulers import CHOICE, detected
from ascend_session.cluster.variables import task_type
from ascend_session.errors import JobError

__all__ = ["MountedPlace", "mounted_place"]


class MountedPlace(NamedTuple):
    """The one rank of this pod in the mounted table.

    Attributes:
        path: The table; that of ``RANK_TABLE_FILE`` where it is set.
        rank: Its rank.
        size: The number of ranks.
        seed: Text that only this table has.
        mine: Why it is this pod's.
    """

    path: str
    rank: int
    size: int
    seed: str
    mine: str

    def missing(self, environ: Mapping[str, str]) -> Dict[str, str]:
        """It under the adapter's and the launcher's names, as far as they are not set."""
        wanted = {
            "RANK_TABLE_FILE": self.path,
            "RANK_ID": str(self.rank),
            "RANK_SIZE": str(self.size),
            "LOCAL_RANK": "0",
            "LOCAL_SIZE": "1",
            "JOB_ID": self.seed,
        }
        return {name: value for name, value in wanted.items() if not environ.get(name)}

    def __str__(self) -> str:
        return f"the rank table {self.path}: rank {self.rank} of {self.size}, {self.mine}"


def mounted_place(environ: Mapping[str, str]) -> Optional[MountedPlace]:
    """This process's place in the mounted table.

    Returns:
        None without such a table, for one of one rank, and where something else says who this
        process is: a variable, a scheduler, or POD_NAME beside ``RANK_TABLE_FILE``, by which HCCL
        itself finds it. An evaluator is alone.

    Raises:
        JobError: If the table has several ranks and it cannot be told which one this process is,
            so that it would train alone; or if the table is none, or not completed.
    """
    mounted, given = mounted_table(environ), environ.get("RANK_TABLE_FILE")
    if mounted is None or (given and environ.get("POD_NAME")):
        return None
    if task_type(environ) == "evaluator":
        return None
    path = given or mounted
    known = detected(environ)
    if known.rank is not None or known.size is not None or environ.get(CHOICE) == "none":
        return None
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.contents import COMPLETED

    table = RankTable.read(path)
    if table.status != COMPLETED:
        raise _refused("that is not completed", path)
    return None if table.size == 1 else _place(path, table.size, environ)


def _place(path: str, size: int, environ: Mapping[str, str]) -> MountedPlace:
    from ascend_session.cluster.table_place import table_nodes

    found = table_nodes(path, environ)
    own = None if found.own is None else found.nodes[found.own]
    if own is None or not own.mine or len(own.devices) != 1:
        raise _refused(f"of {size} ranks", path)
    return MountedPlace(path, own.first, size, found.seed, own.mine)


def _refused(what: str, path: str) -> JobError:
    return JobError(
        f"A rank table {what} is mounted at {path}, but nothing says which of its ranks this "
        "process is (RANK_ID and RANK_SIZE do, or a pod's address or name if it has one device "
        "there): it would train alone.",
        hint="Let `ascend-session launch` start the ranks of this pod, which goes by the table; or "
        f"export {CHOICE}=none to train alone.",
    )
