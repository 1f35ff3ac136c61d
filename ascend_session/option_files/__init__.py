"""The files that options name: typed objects, readers, checkers and writers.

Each reader accepts exactly what the vendor's parser accepts, and each ``check`` reports what that
parser silently skips or changes. Names are loaded on first use.
"""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())
