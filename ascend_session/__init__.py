"""One ``with`` block around TensorFlow on Ascend; the same script runs where there is none.

Names are loaded when they are first used: importing this package imports neither TensorFlow nor
anything else that is slow.
"""

from ascend_session.lazy import late_names

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = late_names(globals())
