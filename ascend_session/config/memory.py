"""MemoryConfig: how device memory is laid out.

Source: seed 000 (memory management), npu_config.py MemoryConfig, npu_attrs.cc.
"""

from typing import Optional

from typing_extensions import Literal

from ascend_session.config.model import ConfigPart
from ascend_session.config.option import option
from ascend_session.config.types import Switch, UpTo2, UpTo4

__all__ = ["MemoryConfig"]


class MemoryConfig(ConfigPart):
    """Device memory options, under the vendor's names and in the vendor's order.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    atomic_clean_policy: Optional[Switch] = option("i", "session", "0 clears all memset-type operator memory in one go, 1 clears it per operator to save memory.", adapter=0)
    static_memory_policy: Optional[UpTo4] = option("i", "init", "Chooses how device memory is allocated: dynamic, or expandable for static and/or dynamic graphs.", adapter=0, seeds="3")
    memory_optimization_policy: Optional[Literal["MemoryPriority"]] = option("s", "session", "Asks GE to prefer a memory-saving topological order.")
    variable_use_1g_huge_page: Optional[UpTo2] = option("i", "session", "Backs variables and constants with 1 GB huge pages: 0 off, 1 required, 2 preferred with 2 MB fallback.", adapter=0, applies="Ascend 950, Atlas A3 and Atlas A2 families only", also=("init",))
