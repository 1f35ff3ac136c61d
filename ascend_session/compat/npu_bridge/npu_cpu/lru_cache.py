"""``npu_bridge.npu_cpu.lru_cache``: a cache of embeddings on the device, which is not here.

Source: lru_cache.py.
"""

from ascend_session.compat.vendor_modules import mirror

__getattr__, __all__ = mirror(globals(), "gen_npu_cpu_ops")
