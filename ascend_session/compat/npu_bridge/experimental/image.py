"""``npu_bridge.experimental.image``: decoding of images, which is refused here.

Source: experimental/image.py; ops/aicpu/npu_cpu_ops.cc, DecodeImageV3.
"""

from ascend_session.compat.vendor_modules import mirror

__getattr__, __all__ = mirror(globals(), "gen_npu_cpu_ops")
