"""``npu_bridge.npu_cpu.npu_cpu_ops``: operators of the device's own CPU.

Source: npu_cpu_ops.py of the newest release and of the old ones.
"""

from typing import Any

from ascend_session.compat import formulas
from ascend_session.compat.unavailable import define_unavailable
from ascend_session.compat.vendor_modules import mirror

dense_image_warp = formulas.dense_image_warp


def randomchoicewithmask(x: Any, count: Any, seed: Any = 0, seed2: Any = 0) -> Any:
    """The indices of what is True, shuffled (`formulas.random_choice_with_mask`)."""
    return formulas.random_choice_with_mask(x, count, seed, seed2)


RandomChoiceWithMask = randomchoicewithmask  # in the releases of 2021


define_unavailable(globals())
__getattr__, __all__ = mirror(globals(), "RandomChoiceWithMask dense_image_warp gen_npu_cpu_ops")
