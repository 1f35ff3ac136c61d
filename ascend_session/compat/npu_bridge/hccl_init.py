"""``npu_bridge.hccl_init`` of the release of 2020: where ranks were asked for."""

from ascend_session.compat.hccl.manage.api import get_local_rank_id, get_rank_id, get_rank_size

__all__ = ["get_local_rank_id", "get_rank_id", "get_rank_size"]
