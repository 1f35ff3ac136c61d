"""The vendor's package, with the fake graph engine behind it (tf_adapter/python/npu_bridge)."""

import atexit

from npu_bridge.helper.helper import npu_bridge_handle
from npu_bridge.helper.helper import version as __version__

from npu_bridge.hccl import hccl_ops  # isort: skip
from npu_bridge.estimator.npu.npu_plugin import npu_close  # isort: skip

__all__ = ["__version__", "hccl_ops", "npu_bridge_handle", "npu_close"]

# guides/facts/process.md#the-end-of-a-process
atexit.register(npu_close)
