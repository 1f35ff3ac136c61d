"""Rank tables: the file that says which rank of a job has which device, and under which address."""

from ascend_session.cluster.rank_table.contents import TableDevice as TableDevice
from ascend_session.cluster.rank_table.contents import TableServer as TableServer
from ascend_session.cluster.rank_table.table import RankTable as RankTable

__all__ = ["RankTable", "TableDevice", "TableServer"]
