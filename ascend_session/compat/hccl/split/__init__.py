"""How gradients are cut into parts that are exchanged together."""

from ascend_session.compat.vendor_modules import mirror as _mirror

__getattr__, _ = _mirror(globals())
