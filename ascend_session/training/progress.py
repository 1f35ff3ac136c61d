"""At which step a job began, as its rank 0 tells the launcher: a file in the rank's folder."""

import contextlib
import os
from typing import Optional

from ascend_session.cluster.variables import RANK_FOLDER
from ascend_session.files import replace_file

_NAME = "first_step"


def note_first_step(step: int) -> None:
    """Tell the launcher, if there is one, which global step rank 0 begins with.

    `SaveOnPreemptionHook` does it; call it where a session of your own restores a checkpoint. A
    step above 0 is where an earlier attempt, or an earlier launch, had come to.
    """
    folder = os.environ.get(RANK_FOLDER)
    if folder:
        with contextlib.suppress(OSError):  # training goes on without the launcher's knowing
            replace_file(os.path.join(folder, _NAME), str(int(step)).encode())


def read_first_step(rank_folder: str) -> Optional[int]:
    """Read what a rank has noted in its folder; None if it has not."""
    try:
        with open(os.path.join(rank_folder, _NAME)) as file:
            text = file.read(32)
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None
