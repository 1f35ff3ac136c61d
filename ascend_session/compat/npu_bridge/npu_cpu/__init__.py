"""Operators of the device's own CPU."""

from ascend_session.compat.vendor_modules import mirror as _mirror

__getattr__, _ = _mirror(globals())
