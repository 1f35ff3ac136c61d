"""At which step a job is, as its ranks tell the launcher: files in the ranks' folders."""

import os
import time
from typing import Optional

from ascend_session.rank_folder import RANK_FOLDER, write_first_step, write_step

_EVERY_S = 0.5  # between two steps that are written
_next_at = 0.0


def note_first_step(step: int) -> None:
    """Tell the launcher, if there is one, which global step rank 0 begins with.

    `SaveOnPreemptionHook` does it; call it where a session of your own restores a checkpoint. A
    step above 0 is where an earlier attempt, or an earlier launch, had come to.
    """
    folder = os.environ.get(RANK_FOLDER)
    if folder:
        write_first_step(folder, step)


def note_step(step: int, of: Optional[int] = None) -> None:
    """Tell the launcher, if there is one, which step this rank has just made.

    Its status line shows step, steps per second and the time left. Call it after every step: twice
    a second it writes a few bytes, and otherwise it returns at once. `SaveOnPreemptionHook` and
    `TellMeStepOrLossHook` do it.

    Args:
        step: The number of the step, as the global step counts.
        of: The step with which training ends; None if that is not known.
    """
    global _next_at
    now = time.monotonic()
    if now < _next_at and step != of:
        return
    _next_at = now + _EVERY_S
    folder = os.environ.get(RANK_FOLDER)
    if folder:
        write_step(folder, int(step), None if of is None else int(of), now)
