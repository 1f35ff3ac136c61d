"""``npu_bridge.hccl_init`` of the release of 2020: where ranks were asked for."""

from ascend_session.compat.vendor_modules import mirror

__getattr__, __all__ = mirror(globals(), "get_local_rank_id get_rank_id get_rank_size")
