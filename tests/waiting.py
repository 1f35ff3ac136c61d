"""Waits for what nobody announces, such as the end of a process that is nobody's child."""

import time
from typing import Any, Callable

__all__ = ["wait_until"]


def wait_until(is_so: Callable[[], Any], limit_s: float = 60.0) -> None:
    """Return as soon as it is so.

    Raises:
        AssertionError: It was not within the limit.
    """
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, f"it was not so within {limit_s:.0f} s"
        time.sleep(0.01)  # between two looks
