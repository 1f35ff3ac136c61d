"""Known failures, their classes, and the retry policy.

Source: guides/facts/failures.md#classes and, for the waits, guides/facts/failures.md#waits.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Optional, Tuple

_FIRST_WAIT_S = 10.0  # what the vendor asks for between two jobs (EJ0001, E30003)
_AMBIGUOUS_ATTEMPTS = 2


class FailureClass(Enum):
    """How to react to a failure; the value is the word in reports."""

    TRANSIENT = "transient"
    """Try again, in a new process, after the wait."""

    SECONDARY = "secondary"
    """Don't try again: another rank failed first."""

    PERMANENT = "permanent"
    """Don't try again: it fails the same way until something is changed."""

    HARDWARE = "hardware"
    """Don't try again on this device: an administrator has to look at it."""

    AMBIGUOUS = "ambiguous"
    """Try once more, after a look at who holds the device."""


class Code(NamedTuple):
    """An error code of the vendor.

    Attributes:
        name: As it is printed: a letter E code (``EJ0001``) or an aclError number (``507033``).
        meaning: What it stands for, in a few words.
    """

    name: str
    meaning: str


class Family(NamedTuple):
    """Codes of the vendor that ask for the same, of which no single one needs words of its own.

    Attributes:
        pattern: Regular expression for the whole of such a code.
        meaning: What they stand for, in a few words.
    """

    pattern: str
    meaning: str


class KnownText(NamedTuple):
    """A known message of the vendor or the stub.

    Attributes:
        words: A part of it that never changes; it is looked for first.
        code: What a failure found by it is called, if not its words: as a rule, a code of the
            same row.
        pattern: Regular expression for all of it, if the words alone are not enough. It stays
            within a line and repeats nothing without an upper limit, so that it is fast.
        near: A word that must stand before it in the line, if the wording alone is common.
    """

    words: str
    code: str = ""
    pattern: str = ""
    near: str = ""

    @property
    def name(self) -> str:
        """The name of a failure found by it."""
        return self.code or self.words


@dataclass(frozen=True)
class Definition:
    """One row of the table.

    Attributes:
        failure_class: What it asks for; of a secondary one, what it asks for in a job in which no
            rank has a failure of its own.
        advice: What to do, in full sentences.
        source: Where the fact stands; the abbreviations are in `failures.table`.
        codes: The codes that it is known by.
        messages: The texts that it is known by.
        families: Codes that it is known by, besides those that have words of their own.
        is_secondary: Whether it follows from the failure of another rank.
        is_vague: Whether it says that something failed, but not what: a more exact failure in the
            same text takes precedence.
        wait_seconds: How long to wait before a new attempt. A permanent failure has a wait if the
            device ran out of something that another process may hold.
    """

    failure_class: FailureClass
    advice: str
    source: str
    codes: Tuple[Code, ...] = ()
    messages: Tuple[KnownText, ...] = ()
    families: Tuple[Family, ...] = ()
    is_secondary: bool = False
    is_vague: bool = False
    wait_seconds: Optional[int] = None


@dataclass(frozen=True)
class Failure:
    """A known failure that was found in a text.

    Attributes:
        code: Its code, or the words that it is known by.
        line: The line that it stands in, cut around it to a length that can be shown.
        definition: What is known about it.
    """

    code: str
    line: str
    definition: Definition

    @property
    def failure_class(self) -> FailureClass:
        """Its class as far as the text alone can say: another rank may have failed first."""
        is_secondary = self.definition.is_secondary
        return FailureClass.SECONDARY if is_secondary else self.definition.failure_class

    @property
    def advice(self) -> str:
        """What to do, in full sentences."""
        return self.definition.advice

    @property
    def source(self) -> str:
        """Where the fact stands."""
        return self.definition.source

    @property
    def wait_seconds(self) -> Optional[int]:
        """How long to wait before a new attempt, where one can help."""
        return self.definition.wait_seconds

    @property
    def meaning(self) -> str:
        """What its code stands for; empty if it is known by its words."""
        own = (code.meaning for code in self.definition.codes if code.name == self.code)
        families = (
            family.meaning
            for family in self.definition.families
            if re.fullmatch(family.pattern, self.code)
        )
        return next(own, next(families, ""))

    @property
    def precedence(self) -> int:
        """Its place among the failures of a job or a text: the lowest explains the others best.

        A failure of the rank's own comes first, then one that may be its own or not, a secondary
        one, and last one that only says that something failed.
        """
        if self.definition.is_secondary:
            return 2
        if self.failure_class is FailureClass.AMBIGUOUS:
            return 3 if self.definition.is_vague else 1
        return 0

    @property
    def is_own(self) -> bool:
        """True if it is the rank's own for certain: transient, permanent or hardware."""
        return self.precedence == 0

    @property
    def is_exact(self) -> bool:
        """True if no other failure in the same text could be more exact."""
        return self.is_own and not self.definition.is_vague


@dataclass(frozen=True)
class RetryPolicy:
    """Attempts and waits for something that is started in a process of its own.

    A failed initialisation aborts its process, so an attempt is always a process of its own. What
    the failure is decides: transient ones are tried again, ambiguous ones only if they ended the
    first attempt, all others never, nor one that only says that something failed (``E19999``).
    What somebody has killed is tried again.

    Attributes:
        attempts: How many there may be in all, the first one included.
        wait_seconds: How long to wait before another one; None means what the vendor advises for
            the failure (10 s between jobs, 60 s for lack of resources).
        attempt_seconds: How long one may take before it is ended and counts as failed.

    Raises:
        TypeError: For what is no number of attempts or seconds.
        ValueError: For numbers that cannot be.
    """

    attempts: int = 3
    wait_seconds: Optional[float] = None
    attempt_seconds: float = 300.0

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int):
            raise TypeError(f"attempts is a whole number, not {self.attempts!r}.")
        if self.attempts < 1:
            raise ValueError(f"attempts is 1 or more, not {self.attempts}.")
        if self.wait_seconds is not None:
            _check_seconds("wait_seconds", self.wait_seconds, 0)
        _check_seconds("attempt_seconds", self.attempt_seconds, 1)

    def allows(
        self,
        attempt: int,
        failure: Optional[Failure],
        kind: Optional[FailureClass],
        was_killed: bool = False,
    ) -> bool:
        """Return whether there is another attempt after this one.

        Args:
            attempt: Number of the attempt that failed, from 1.
            failure: What was found in its output; None if nothing that is known.
            kind: Its class under the conditions that are met; None without a failure.
            was_killed: Whether somebody else has ended it, which is not its fault.
        """
        if attempt >= self.attempts:
            return False
        if failure is None:
            return was_killed
        if kind is FailureClass.AMBIGUOUS:
            return attempt < _AMBIGUOUS_ATTEMPTS and not failure.definition.is_vague
        return kind is FailureClass.TRANSIENT

    def wait_before_next(self, failure: Optional[Failure]) -> float:
        """Return the seconds to wait before the attempt that follows ``failure``."""
        if self.wait_seconds is not None:
            return self.wait_seconds
        advised = None if failure is None else failure.wait_seconds
        return _FIRST_WAIT_S if advised is None else float(advised)


def _check_seconds(name: str, value: object, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {value!r}.")
    if not least <= value < math.inf:  # NaN is neither
        raise ValueError(f"{name} is {least} seconds or more, and finite, not {value}.")
