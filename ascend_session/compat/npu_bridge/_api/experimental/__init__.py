"""Operators on trial; the vendor's own file cannot be imported for a misspelt module name."""

from ascend_session.compat.unavailable import define_unavailable
from ascend_session.compat.vendor_modules import mirror

define_unavailable(globals())
__getattr__, __all__ = mirror(globals(), "getshape")
