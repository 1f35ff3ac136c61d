"""``npu_bridge.experimental.image``: decoding of images, which is refused here.

Source: experimental/image.py; ops/aicpu/npu_cpu_ops.cc, DecodeImageV3.
"""

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.unavailable import define_unavailable

__all__ = ["gen_npu_cpu_ops"]

gen_npu_cpu_ops = helper.get_gen_ops()

define_unavailable(globals())
