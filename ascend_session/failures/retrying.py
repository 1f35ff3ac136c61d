"""How often a failed start is tried again, and how long to wait before.

A failed initialisation aborts its process, so an attempt is always a process of its own. What the
failure is decides: transient ones are tried again, ambiguous ones once, all others never, nor one
of which only a wrapper is known (``E19999``). Source: launch_facts.md, E (classes; last paragraph:
back-off drawn from the official waits).
"""

import math
from dataclasses import dataclass
from typing import Optional

from ascend_session.failures.classes import FailureClass, Role
from ascend_session.failures.definition import Failure

__all__ = ["RetryPolicy"]

_FIRST_WAIT = 10  # seconds; what the vendor asks for between two jobs (EJ0001, E30003)
_AMBIGUOUS_ATTEMPTS = 2


@dataclass(frozen=True)
class RetryPolicy:
    """Attempts and waits for something that is started in a process of its own.

    Attributes:
        attempts: How many there may be in all, the first one included.
        wait_seconds: How long to wait before another one; None means what the vendor advises for
            the failure (10 s between jobs, 60 s for lack of resources).
        attempt_seconds: How long one may take before it is ended and counts as failed.
    """

    attempts: int = 3
    wait_seconds: Optional[float] = None
    attempt_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError for what is no number of attempts or seconds."""
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int):
            raise TypeError(f"attempts is a whole number, not {self.attempts!r}.")
        if self.attempts < 1:
            raise ValueError(f"attempts is 1 or more, not {self.attempts}.")
        if self.wait_seconds is not None:
            _check_seconds("wait_seconds", self.wait_seconds, 0)
        _check_seconds("attempt_seconds", self.attempt_seconds, 1)

    def allows(self, attempt: int, failure: Optional[Failure], kind: FailureClass) -> bool:
        """Whether there is another attempt after this one.

        Args:
            attempt: Number of the attempt that failed, from 1.
            failure: What was found in what it said; None if nothing that is known.
            kind: Its class under the conditions that are met.
        """
        if failure is None or attempt >= self.attempts:
            return False
        if failure.definition.role is Role.WRAPPER:
            return False
        if kind is FailureClass.AMBIGUOUS:
            return attempt < _AMBIGUOUS_ATTEMPTS
        return kind is FailureClass.TRANSIENT

    def wait_before_next(self, failure: Optional[Failure]) -> float:
        """Seconds to wait before the attempt that follows ``failure``."""
        if self.wait_seconds is not None:
            return self.wait_seconds
        advised = failure.wait_seconds if failure is not None else None
        return float(_FIRST_WAIT if advised is None else advised)


def _check_seconds(name: str, value: object, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {value!r}.")
    if not least <= value < math.inf:  # NaN is neither
        raise ValueError(f"{name} is {least} seconds or more, and finite, not {value}.")
