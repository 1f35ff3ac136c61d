"""At which step a job began, as its rank 0 tells the launcher: a file in the rank's folder."""

import os

from ascend_session.rank_folder import RANK_FOLDER, write_first_step


def note_first_step(step: int) -> None:
    """Tell the launcher, if there is one, which global step rank 0 begins with.

    `SaveOnPreemptionHook` does it; call it where a session of your own restores a checkpoint. A
    step above 0 is where an earlier attempt, or an earlier launch, had come to.
    """
    folder = os.environ.get(RANK_FOLDER)
    if folder:
        write_first_step(folder, step)
