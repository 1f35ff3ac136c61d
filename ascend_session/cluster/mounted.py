"""A process in a pod whose controller has mounted a rank table, and which nothing makes a rank."""

from typing import Mapping

from ascend_session.cluster.kubernetes import mounted_table
from ascend_session.cluster.schedulers import CHOICE
from ascend_session.cluster.variables import task_type
from ascend_session.errors import JobError

__all__ = ["refuse_alone"]


def refuse_alone(environ: Mapping[str, str]) -> None:
    """Refuses what would train alone although the mounted table is that of several ranks.

    An evaluator is alone, and HCCL itself finds a pod in a table of template 2 by POD_NAME.

    Raises:
        JobError: If the table has several ranks, or cannot be read.
    """
    path = mounted_table(environ)
    by_name = environ.get("RANK_TABLE_FILE") and environ.get("POD_NAME")
    if path is None or by_name or task_type(environ) == "evaluator":
        return
    if environ.get(CHOICE) == "none":
        return
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.contents import COMPLETED

    table = RankTable.read(path)
    if table.status == COMPLETED and table.size == 1:
        return
    of = f"of {table.size} ranks" if table.status == COMPLETED else "that is not completed"
    raise JobError(
        f"A rank table {of} is mounted at {path}, but neither RANK_ID nor RANK_SIZE says which of "
        "its ranks this process is: it would train alone.",
        hint="Let `ascend-session launch` start the ranks of this pod, which goes by the table; or "
        f"export {CHOICE}=none to train alone.",
    )
