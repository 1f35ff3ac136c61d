"""Which line of the user's own files something happens in."""

import os
import sysconfig
from types import FrameType
from typing import Optional

_LIBRARIES = tuple(
    os.path.realpath(folder) + os.sep
    for folder in {
        os.path.dirname(__file__),
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


def is_user_file(path: str) -> bool:
    """Tell whether a file is neither Python's, nor of an installed package, nor of this one."""
    return not path.startswith("<") and not os.path.realpath(path).startswith(_LIBRARIES)


def user_line(frame: Optional[FrameType]) -> str:
    """Name the innermost line of the user's own files that a thread is in.

    Args:
        frame: The thread's innermost frame.

    Returns:
        ``train.py:18``, the path as it was given to Python; empty if there is no such line.
    """
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
