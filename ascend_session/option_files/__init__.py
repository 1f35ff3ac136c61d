"""The files that options point to: typed objects, readers, checkers and writers.

Each reader takes exactly what the vendor's parser takes, and each ``check`` says what that parser
would skip or take differently without telling. Names are loaded when they are first used, for
every configuration looks in here.
"""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())
