"""Rank tables: files that list the device and address of each rank of a job."""

from ascend_session.cluster.rank_table.contents import TableDevice as TableDevice
from ascend_session.cluster.rank_table.contents import TableServer as TableServer
from ascend_session.cluster.rank_table.table import RankTable as RankTable

__all__ = ["RankTable", "TableDevice", "TableServer"]
