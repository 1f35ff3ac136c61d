"""Report the current step to the launcher."""

import time
from typing import Optional

from ascend_session import channel

_EVERY_S = 0.5  # between two messages
_next_at = 0.0


def note_first_step(step: int) -> None:
    """Report to the launcher, if there is one, with which global step rank 0 begins.

    `SaveOnPreemptionHook` calls it. Call it yourself if you restore a checkpoint in another way: a
    step above 0 means that training is resumed.
    """
    channel.send("first_step", step=int(step))


def note_step(step: int, of: Optional[int] = None) -> None:
    """Report to the launcher, if there is one, which step this rank has made.

    The launcher's status line shows step, steps per second and the time left. Call this after
    every step: it sends a few bytes at most twice a second. `SaveOnPreemptionHook` and
    `TellMeStepOrLossHook` call it.

    Args:
        step: The global step after the step.
        of: The global step with which training ends; None if unknown.
    """
    global _next_at
    now = time.monotonic()
    if now < _next_at and step != of:
        return
    _next_at = now + _EVERY_S
    total = None if of is None else int(of)
    channel.send("step", is_optional=True, step=int(step), total=total, time=now)
