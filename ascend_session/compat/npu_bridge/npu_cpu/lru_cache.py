"""``npu_bridge.npu_cpu.lru_cache``: a cache of embeddings on the device, which is not here.

Source: lru_cache.py.
"""

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.unavailable import define_unavailable

__all__ = ["gen_npu_cpu_ops"]

gen_npu_cpu_ops = helper.get_gen_ops()


define_unavailable(globals())
