"""Operators on trial; the vendor's own file cannot be imported for a misspelt module name."""

from ascend_session.compat.npu_bridge.experimental.get_shape import getshape
from ascend_session.compat.unavailable import define_unavailable

__all__ = ["getshape"]

define_unavailable(globals())
