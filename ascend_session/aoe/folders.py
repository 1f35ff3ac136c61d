"""Whether a folder is there and can be used."""

import os
import shlex
from typing import NamedTuple, Optional

__all__ = ["Fault", "fault_of"]


class Fault(NamedTuple):
    """What is wrong with a folder.

    Attributes:
        said: The end of a sentence that begins with its name.
        todo: What to do, as a sentence.
    """

    said: str
    todo: str


def fault_of(path: str, rights: int = os.R_OK | os.W_OK | os.X_OK) -> Optional[Fault]:
    """What is wrong with a folder; None if it can be used.

    Args:
        path: The folder.
        rights: What this user must be allowed to do there, as for `os.access`.
    """
    if not os.path.exists(path):
        return Fault("does not exist", f"mkdir -p {shlex.quote(path)}")
    if not os.path.isdir(path):
        return Fault("is no directory", "Give a directory.")
    if not os.access(path, rights):
        needed = "readable and writable"
        if rights & os.X_OK:
            needed = "readable, writable and executable"
        return Fault(f"is not {needed} for this user", "Give another one, or mend its rights.")
    return None
