"""What a known failure is, what it asks for, and what is done about it.

Source: guides/facts/failures.md#classes and, for the waits, guides/facts/failures.md#waits.
"""

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, Optional, Tuple

_FIRST_WAIT_S = 10.0  # what the vendor asks for between two jobs (EJ0001, E30003)
_AMBIGUOUS_ATTEMPTS = 2


class FailureClass(Enum):
    """What a failure asks for; the value is the word for reports."""

    TRANSIENT = "transient"
    """Retry: yes, in a new process, after the wait. Root cause: yes."""

    SECONDARY = "secondary"
    """Retry: no. Root cause: only if nothing else is known; another rank failed first."""

    PERMANENT = "permanent"
    """Retry: no, it fails the same way until something is changed. Root cause: yes."""

    HARDWARE = "hardware"
    """Retry: not on this device; an administrator has to look at it. Root cause: yes."""

    AMBIGUOUS = "ambiguous"
    """Retry: once, after a look at who holds the device. Root cause: if nothing is clearer."""


class Condition(Enum):
    """What can give a failure another class; the value says it in words."""

    HELD_BY_OTHERS = "another process holds the device"
    HELD_BY_ENDING_JOB = "the port is held by an earlier job of your own that is still ending"
    SHARED_BY_RANKS = "two ranks of this job use the same device"
    NO_PRIMARY = "no rank of the job reports a failure of its own"
    DEVICE_FAULTY = "npu-smi info shows another health than OK, or ECC errors, for the device"


class Role(Enum):
    """What a known text says about the failure that it belongs to."""

    CAUSE = "cause"
    """It says what failed."""

    STAGE = "stage"
    """It says in which step it failed; a code next to it says it better."""

    WRAPPER = "wrapper"
    """It says only that something failed; the lines around it say what."""

    NOTICE = "notice"
    """It is no failure, but explains one."""


class Weight(IntEnum):
    """How well a failure explains the other failures of a job or a text."""

    UNSAID = 0
    """A text that only says that something failed."""

    OF_ANOTHER = 1
    """A code that says that another rank failed first."""

    UNCLEAR = 2
    """A code that may be the rank's own fault or not."""

    OWN = 3
    """A failure of its own: a code that says so, or an end without any code of the vendor."""


class Code(NamedTuple):
    """An error code of the vendor.

    Attributes:
        name: As it is printed: a letter E code (``EJ0001``) or an aclError number (``507033``).
        meaning: What it stands for, in a few words.
        vague: It comes with many causes, so that a more exact code in the same text is believed.
    """

    name: str
    meaning: str
    vague: bool = False


class Message(NamedTuple):
    """A text of the vendor, or of the stub, that is known by its wording.

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
        """What a failure found by it is called."""
        return self.code or self.words


class Alternative(NamedTuple):
    """The class of a failure when something else is known besides the text."""

    failure_class: FailureClass
    condition: Condition


@dataclass(frozen=True)
class Definition:
    """One row of the table.

    Attributes:
        failure_class: The class as far as the text alone can say.
        advice: What to do, in full sentences.
        source: Where the fact stands; the abbreviations are in `failures.table`.
        codes: The codes that it is known by.
        messages: The texts that it is known by.
        otherwise: The class under a condition that only the caller can know.
        wait_seconds: How long to wait before a new attempt when it is transient.
        role: What it says about the failure that it belongs to.
    """

    failure_class: FailureClass
    advice: str
    source: str
    codes: Tuple[Code, ...] = ()
    messages: Tuple[Message, ...] = ()
    otherwise: Optional[Alternative] = None
    wait_seconds: Optional[int] = None
    role: Role = Role.CAUSE


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
        """Its class as far as the text alone can say."""
        return self.definition.failure_class

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
        """How long to wait before a new attempt when it is transient."""
        return self.definition.wait_seconds

    @property
    def meaning(self) -> str:
        """What its code stands for; empty if it is known by its words."""
        return self._find_code().meaning

    @property
    def vague(self) -> bool:
        """Whether a more exact code in the same text is to be believed."""
        return self._find_code().vague

    @property
    def weight(self) -> Weight:
        """How well it explains others, as far as the text alone can say."""
        if self.definition.role is Role.WRAPPER:
            return Weight.UNSAID
        kinds = {
            FailureClass.SECONDARY: Weight.OF_ANOTHER,
            FailureClass.AMBIGUOUS: Weight.UNCLEAR,
        }
        return kinds.get(self.failure_class, Weight.OWN)

    @property
    def is_exact(self) -> bool:
        """Whether nothing else in the same text could say better what failed."""
        is_cause = self.definition.role is Role.CAUSE
        return is_cause and not self.vague and self.weight is Weight.OWN

    def given(self, *conditions: Condition) -> FailureClass:
        """Give its class where these conditions are known to be met."""
        otherwise = self.definition.otherwise
        if otherwise is not None and otherwise.condition in conditions:
            return otherwise.failure_class
        return self.failure_class

    def _find_code(self) -> Code:
        codes = (code for code in self.definition.codes if code.name == self.code)
        return next(codes, Code(self.code, ""))


@dataclass(frozen=True)
class RetryPolicy:
    """Attempts and waits for something that is started in a process of its own.

    A failed initialisation aborts its process, so an attempt is always a process of its own. What
    the failure is decides: transient ones are tried again, ambiguous ones only if they ended the
    first attempt, all others never, nor one of which only a wrapper is known (``E19999``). What
    somebody has killed is tried again.

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
        """Whether there is another attempt after this one.

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
        if failure.definition.role is Role.WRAPPER:
            return False
        if kind is FailureClass.AMBIGUOUS:
            return attempt < _AMBIGUOUS_ATTEMPTS
        return kind is FailureClass.TRANSIENT

    def wait_before_next(self, failure: Optional[Failure]) -> float:
        """Give the seconds to wait before the attempt that follows ``failure``."""
        if self.wait_seconds is not None:
            return self.wait_seconds
        advised = None if failure is None else failure.wait_seconds
        return _FIRST_WAIT_S if advised is None else float(advised)


def _check_seconds(name: str, value: object, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {value!r}.")
    if not least <= value < math.inf:  # NaN is neither
        raise ValueError(f"{name} is {least} seconds or more, and finite, not {value}.")
