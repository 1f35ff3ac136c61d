"""Tuning with the vendor's AOE: what it needs, the tuning run, and what came of it."""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())
