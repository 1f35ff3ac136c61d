"""Operators on trial; the vendor's own file cannot be imported for a misspelt module name."""

from ascend_session.compat.vendor_modules import mirror

__getattr__, __all__ = mirror(globals(), "getshape")
