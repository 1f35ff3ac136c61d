"""The vendor's ``npu_bridge`` for machines without a device; `compat` says how it gets that name.

Importing it registers an exit handler, as the vendor's does.
"""

import atexit

from ascend_session.compat.npu_bridge.estimator.npu import npu_estimator
from ascend_session.compat.npu_bridge.estimator.npu.npu_plugin import npu_close
from ascend_session.compat.npu_bridge.hccl import hccl_ops
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.npu_bridge.helper.helper import npu_bridge_handle, version
from ascend_session.compat.vendor_modules import mirror

__all__ = [
    "atexit",
    "hccl_ops",
    "helper",
    "npu_bridge_handle",
    "npu_close",
    "npu_estimator",
]

__version__ = version

__getattr__, _ = mirror(globals())

atexit.register(npu_close)
