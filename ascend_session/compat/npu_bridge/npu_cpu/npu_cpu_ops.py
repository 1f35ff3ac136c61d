"""``npu_bridge.npu_cpu.npu_cpu_ops``: operators of the device's own CPU.

Source: npu_cpu_ops.py of the newest release and of the old ones.
"""

from typing import Any

from ascend_session.compat import formulas
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.unavailable import define_unavailable

__all__ = ["RandomChoiceWithMask", "dense_image_warp", "gen_npu_cpu_ops", "randomchoicewithmask"]

gen_npu_cpu_ops = helper.get_gen_ops()


def randomchoicewithmask(x: Any, count: Any, seed: Any = 0, seed2: Any = 0) -> Any:
    """The indices of what is True, shuffled (`formulas.random_choice_with_mask`)."""
    return formulas.random_choice_with_mask(x, count, seed, seed2)


def RandomChoiceWithMask(x: Any, count: Any, seed: Any = 0, seed2: Any = 0) -> Any:  # noqa: N802
    """`randomchoicewithmask` in the releases of 2021."""
    return randomchoicewithmask(x, count, seed, seed2)


def dense_image_warp(image: Any, flow: Any, name: Any = None) -> Any:
    """``image[y - flow_y, x - flow_x]``, bilinear (`formulas.dense_image_warp`)."""
    return formulas.dense_image_warp(image, flow, name)


define_unavailable(globals())
