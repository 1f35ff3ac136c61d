"""Known failures, their classes, and the retry policy.

Source: guides/facts/failures.md#classes and, for the waits, guides/facts/failures.md#waits.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Optional, Tuple

_DEFAULT_WAIT_S = 10.0  # the vendor's advice for the time between two jobs (EJ0001, E30003)
_AMBIGUOUS_ATTEMPTS = 2
_VAGUE = "it says that something failed, not what; read the lines around it"


class FailureClass(Enum):
    """How to react to a failure; programs read the value, people the description."""

    TRANSIENT = "transient"
    SECONDARY = "secondary"
    PERMANENT = "permanent"
    HARDWARE = "hardware"
    AMBIGUOUS = "ambiguous"

    @property
    def description(self) -> str:
        """What to expect and to do, in a few words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    FailureClass.TRANSIENT: "it usually goes away; try again, in a new process",
    FailureClass.SECONDARY: "another rank failed first and caused this; look there",
    FailureClass.PERMANENT: "it fails the same way until something is changed",
    FailureClass.HARDWARE: "an administrator has to look at the device",
    FailureClass.AMBIGUOUS: "it may go away; check who holds the device, then try once more",
}


class Code(NamedTuple):
    """An error code of the vendor.

    Attributes:
        name: As it is printed: a code with E (``EJ0001``) or an aclError number (``507033``).
        meaning: Its meaning, in a few words.
    """

    name: str
    meaning: str


class Family(NamedTuple):
    """Error codes of the vendor with one meaning and one piece of advice.

    Attributes:
        pattern: Regular expression that matches each code as a whole.
        meaning: Their meaning, in a few words.
    """

    pattern: str
    meaning: str


class KnownText(NamedTuple):
    """A known message of the vendor or the stub.

    Attributes:
        words: A part of it that never changes; a text without it is not searched any further.
        code: The name of the failure, usually a code of the same row; empty means ``words``.
        pattern: Regular expression for the whole message, if the words are not enough. To be fast
            it stays within a line or a few, and has no unlimited repetition.
        near: A word that must stand before it in the same line, if its words are common.
    """

    words: str
    code: str = ""
    pattern: str = ""
    near: str = ""

    @property
    def name(self) -> str:
        """The name of the failure."""
        return self.code or self.words


@dataclass(frozen=True)
class Definition:
    """One row of the table of known failures.

    Attributes:
        failure_class: How to react. For a secondary failure: how to react if no rank of the job
            has a failure of its own.
        advice: What to do, in full sentences.
        source: The vendor's documents or the reports that describe it; `failures.table` says where
            the abbreviations are explained.
        codes: Codes that identify it.
        messages: Messages that identify it.
        families: More codes that identify it, by pattern.
        is_secondary: Whether another rank's failure causes it.
        is_vague: Whether it tells that something failed, but not what: a more exact failure in the
            same text takes precedence.
        wait_seconds: Seconds to wait before a new attempt. A permanent failure has a wait if the
            device ran out of something that another process may hold.
        is_listed: Whether the table has it; else its words are the vendor's own, from a message.
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
    is_listed: bool = True

    def describe(self, failure_class: FailureClass) -> str:
        """Describe for people how to react to such a failure if it has this class in a job."""
        if not self.is_listed:
            return "unknown: what to do is the vendor's own advice"
        text = _VAGUE if self.is_vague else failure_class.description
        return f"{failure_class.value}: {text}"


@dataclass(frozen=True)
class Failure:
    """A known failure that was found in a text.

    Attributes:
        code: Its code, or the words that identify it.
        line: The line in which it was found, shortened to at most 240 characters; of the sentence
            why a job on the stub cannot go on, 1000 characters from its begin.
        definition: The row of the table of known failures.
    """

    code: str
    line: str
    definition: Definition

    @property
    def failure_class(self) -> FailureClass:
        """How to react, going by the text: secondary if another rank may have failed first."""
        is_secondary = self.definition.is_secondary
        return FailureClass.SECONDARY if is_secondary else self.definition.failure_class

    @property
    def advice(self) -> str:
        """What to do, in full sentences."""
        return self.definition.advice

    @property
    def source(self) -> str:
        """The documents or reports that describe it."""
        return self.definition.source

    @property
    def wait_seconds(self) -> Optional[int]:
        """Seconds to wait before a new attempt; None if there is no advice."""
        return self.definition.wait_seconds

    @property
    def meaning(self) -> str:
        """The meaning of its code, in a few words; empty if it was found by its words."""
        meanings = (code.meaning for code in self.definition.codes if code.name == self.code)
        families = (
            family.meaning
            for family in self.definition.families
            if re.fullmatch(family.pattern, self.code)
        )
        return next(meanings, next(families, ""))

    @property
    def precedence(self) -> int:
        """Its rank among the failures of a job or a text: the lowest explains the others best.

        0 is a failure of this rank itself, 1 an ambiguous one, 2 a secondary one, and 3 an
        ambiguous one that does not tell what failed.
        """
        if self.definition.is_secondary:
            return 2
        if self.failure_class is FailureClass.AMBIGUOUS:
            return 3 if self.definition.is_vague else 1
        return 0

    @property
    def is_own(self) -> bool:
        """True if this rank itself certainly failed: transient, permanent or hardware."""
        return self.precedence == 0

    @property
    def is_exact(self) -> bool:
        """True if no other failure in the same text could be more exact."""
        return self.is_own and not self.definition.is_vague


@dataclass(frozen=True)
class RetryPolicy:
    """How often to try something that runs in a process of its own, and how long to wait.

    A failed initialisation aborts its process, so each attempt is a new process. The class of the
    failure decides: a transient one is tried again, an ambiguous one only after the first attempt
    and only if it tells what failed (not ``E19999``), any other never. An attempt that somebody
    killed is repeated.

    Attributes:
        attempts: The most attempts, including the first.
        wait_seconds: Seconds before another attempt; None means the vendor's advice for the failure
            (10 s between jobs, 60 s for lack of resources).
        attempt_seconds: Seconds that an attempt may take before it is ended and counts as failed.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If ``attempts`` or ``attempt_seconds`` is below 1, or ``wait_seconds`` below 0.
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
            failure: The known failure in its output; None if there is none.
            kind: The class of the failure in this job; None without a failure.
            was_killed: Whether a signal from outside ended it.
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
        return _DEFAULT_WAIT_S if advised is None else float(advised)


def _check_seconds(name: str, value: object, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {value!r}.")
    if not least <= value < math.inf:  # NaN is neither
        raise ValueError(f"{name} is {least} seconds or more, and finite, not {value}.")
