"""``npu_bridge.npu_cpu.lru_cache``: a cache of embeddings on the device, which is not here.

Source: lru_cache.py.
"""

from typing import Any

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.refusing import refused
from ascend_session.compat.tensorflow_names import tf

__all__ = ["LruCache", "gen_npu_cpu_ops"]

gen_npu_cpu_ops = helper.get_gen_ops()

_CACHE = "which entry of the cache on the device is given up is not public"


class LruCache:
    """Which embeddings are in the device's cache; refused when it is made."""

    @refused(_CACHE)
    def __init__(self, cache_size: Any = 100000, load_factor: Any = 1, dtype: Any = tf.uint32):
        """Refused."""

    @refused(_CACHE)
    def cache_add(self, ids: Any) -> Any:
        """Takes ids in, and others out for them."""

    @refused(_CACHE)
    def cache_remote_index_to_local(self, ids: Any) -> Any:
        """Where ids are in the cache."""

    @refused(_CACHE)
    def cache_all_index_to_local(self) -> Any:
        """All ids in the cache."""
