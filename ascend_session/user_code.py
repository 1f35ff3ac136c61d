"""Which line of the user's own files something happens in."""

import os
import sysconfig
from traceback import walk_stack
from types import FrameType
from typing import Optional

_LIBRARIES = tuple(
    os.path.abspath(folder) + os.sep
    for folder in {
        os.path.dirname(__file__),
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
# Of the user, of Debian, and of the vendor's toolkit, which is found through PYTHONPATH.
_OTHER_LIBRARIES = ("site-packages", "dist-packages")


def is_user_file(path: str) -> bool:
    """Tell whether a file is neither Python's, nor of an installed package, nor of this one.

    The file system is not asked: it may be what a process waits for.
    """
    if path.startswith("<") or os.path.abspath(path).startswith(_LIBRARIES):
        return False
    return not any(part in _OTHER_LIBRARIES for part in path.split(os.sep))


def user_line(frame: Optional[FrameType]) -> str:
    """Name the innermost line of the user's own files that a thread is in.

    Args:
        frame: The thread's innermost frame.

    Returns:
        ``train.py:18``, the path as it was given to Python; empty if there is no such line.
    """
    for each, line in () if frame is None else walk_stack(frame):
        if is_user_file(each.f_code.co_filename):
            return f"{each.f_code.co_filename}:{line}"
    return ""
