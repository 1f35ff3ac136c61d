"""Find the line of the user's own files in a stack."""

import os
import re
import sysconfig
from traceback import walk_stack
from types import FrameType
from typing import Iterable, List, NamedTuple, Optional, Tuple

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_EXAMPLES = os.path.join(_PACKAGE, "examples") + os.sep
_LIBRARIES = (
    _PACKAGE,
    *(
        os.path.abspath(sysconfig.get_paths()[name]) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ),
)
# Folders of the user's packages, of Debian's, and of the vendor's toolkit (through PYTHONPATH).
_OTHER_LIBRARIES = ("site-packages", "dist-packages")
# Files that AutoGraph writes of functions (its loader.py); TensorFlow 1.15 names them as tempfile.
_GENERATED = re.compile(r"(__autograph_generated_file|tmp)[a-z0-9_]{8}\.py")


class UserLine(NamedTuple):
    """A line of a file; as text the file is relative to the working directory, if below it."""

    file: str
    number: int

    def __str__(self) -> str:
        try:
            path = os.path.relpath(self.file)
        except OSError:  # there is no working directory any more
            path = self.file
        return f"{self.file if path.startswith(os.pardir) else path}:{self.number}"


def user_line(frame: Optional[FrameType]) -> Optional[UserLine]:
    """Find the innermost line of the user's own files that a thread is in.

    Args:
        frame: The thread's innermost frame.

    Returns:
        The line; None if the thread is in no such file.
    """
    return next(iter(user_lines([] if frame is None else walk_stack(frame))), None)


def user_lines(frames: Iterable[Tuple[FrameType, int]]) -> List[UserLine]:
    """List the lines of the user's own files, in the order of the frames.

    If there are none, because the program is installed (``python -m package.train``) or typed into
    a notebook, list the lines of the main module.

    Args:
        frames: Frames and line numbers, as `traceback.walk_stack` and `walk_tb` yield them.
    """
    all_frames = list(frames)
    users = [pair for pair in all_frames if is_user_file(pair[0].f_code.co_filename)]
    users = users or [pair for pair in all_frames if _is_of_main_module(pair[0])]
    return [UserLine(frame.f_code.co_filename, number) for frame, number in users]


def is_user_file(path: str) -> bool:
    """Return whether a file belongs to neither Python, nor an installed package, nor this one.

    Files that AutoGraph generates are not the user's either.

    Does not touch the file system, for which the inspected thread may be waiting.
    """
    if path.startswith("<") or _absolute(path).startswith(_LIBRARIES):
        return False
    if _GENERATED.fullmatch(os.path.basename(path)):
        return False
    return not any(part in _OTHER_LIBRARIES for part in path.split(os.sep))


def _is_of_main_module(frame: FrameType) -> bool:
    """Return whether a frame is of the program's main module, which is none of this package."""
    path = _absolute(frame.f_code.co_filename)
    if path.startswith(_PACKAGE) and not path.startswith(_EXAMPLES):
        return False
    return frame.f_globals.get("__name__") == "__main__"


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # there is no working directory any more
        return path
