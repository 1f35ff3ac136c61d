"""``npu_bridge.npu_cpu.npu_cpu_ops``: operators of the device's own CPU.

Source: npu_cpu_ops.py of the newest release and of the old ones.
"""

from ascend_session.compat import formulas
from ascend_session.compat.vendor_modules import mirror, with_signature

dense_image_warp = formulas.dense_image_warp
randomchoicewithmask = with_signature("(x, count, seed=0, seed2=0)")(
    formulas.random_choice_with_mask
)
RandomChoiceWithMask = randomchoicewithmask  # in the releases of 2021

__getattr__, __all__ = mirror(
    globals(), "RandomChoiceWithMask dense_image_warp gen_npu_cpu_ops randomchoicewithmask"
)
