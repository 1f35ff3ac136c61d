"""``npu_bridge.experimental.hccl``: the number of ranks as the job has it and as the user said it.

Source: experimental/hccl.py.
"""

import ctypes
import os
from typing import Any

from ascend_session.compat.hccl.manage.api import get_rank_size
from ascend_session.compat.npu_bridge.estimator.npu import util as util_lib
from ascend_session.compat.vendor_modules import mirror

get_actual_rank_size = get_rank_size


def c_str(string: str) -> Any:
    """The text for C."""
    return ctypes.c_char_p(string.encode("utf-8"))


def get_user_rank_size() -> int:
    """The number of ranks that the environment says."""
    return int(util_lib.get_ranksize())


def get_user_rank_id() -> int:
    """RANK_ID; TypeError if it is not set, as the vendor's."""
    return int(os.getenv("RANK_ID"))  # type: ignore[arg-type]


__getattr__, __all__ = mirror(globals(), "get_actual_rank_size util_lib")
