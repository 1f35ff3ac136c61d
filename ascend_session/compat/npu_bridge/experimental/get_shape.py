"""``npu_bridge.experimental.get_shape``.

Source: get_shape.py; ops/aicore/npu_aicore_ops.cc, GetShape.
"""

from typing import Any

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.operators import checked
from ascend_session.compat.vendor_modules import mirror

npu_aicore_ops = helper.get_gen_ops()


def getshape(x: Any, name: Any = None) -> Any:
    """The shape of x, float16, float32 or uint8, as int32."""
    return npu_aicore_ops.get_shape(checked("GetShape", "x", x, ("float16", "float32", "uint8")))


__getattr__, __all__ = mirror(globals(), "npu_aicore_ops")
