"""Collectives."""

from ascend_session.compat.vendor_modules import mirror as _mirror

__getattr__, _ = _mirror(globals())
