"""Tuning with the vendor's AOE: conditions, the tuning run, and results."""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())
