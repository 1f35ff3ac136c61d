"""At which step a job began, as its rank 0 tells the launcher: a file in the rank's folder."""

import os
from typing import Optional

from ascend_session.cluster.variables import RANK_FOLDER

_NAME = "first_step"


def note_first_step(step: int) -> None:
    """Tell the launcher, if there is one, which global step rank 0 begins with.

    `SaveOnPreemptionHook` does it; call it where a session of your own restores a checkpoint. A
    step above 0 is where an earlier attempt, or an earlier launch, had come to.
    """
    folder = os.environ.get(RANK_FOLDER)
    if folder:
        path = os.path.join(folder, _NAME)
        with open(f"{path}.tmp", "w") as file:
            file.write(str(int(step)))
        os.replace(f"{path}.tmp", path)


def read_first_step(rank_folder: str) -> Optional[int]:
    """Read what a rank has noted in its folder; None if it has not."""
    try:
        with open(os.path.join(rank_folder, _NAME)) as file:
            text = file.read(32)
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None
