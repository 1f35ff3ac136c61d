"""What one known failure is, and what it is once it was found in a text."""

from dataclasses import dataclass
from typing import NamedTuple, Optional, Tuple

from ascend_session.failures.classes import Condition, FailureClass, Role

__all__ = ["Alternative", "Code", "Definition", "Failure", "Message", "Position"]


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
        source: Where the fact stands; the abbreviations are in ``failures.rows``.
        codes: The codes that it is known by.
        messages: The texts that it is known by.
        otherwise: The class under a condition that only the caller can know.
        wait_seconds: How long to wait before a new attempt when it is transient, in seconds.
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


class Position(NamedTuple):
    """Where a failure was found.

    Attributes:
        line: Number of the line, from 1.
        column: Number of the character in the line, from 1; colour sequences do not count.
    """

    line: int
    column: int


@dataclass(frozen=True)
class Failure:
    """A known failure that was found in a text.

    Attributes:
        code: Its code, or the words that it is known by.
        line: The line that it stands in, cut around it to a length that can be shown.
        position: Where that is.
        definition: What is known about it.
    """

    code: str
    line: str
    position: Position
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
        """How long to wait before a new attempt when it is transient, in seconds."""
        return self.definition.wait_seconds

    @property
    def meaning(self) -> str:
        """What its code stands for; empty if it is known by its words."""
        return self._code.meaning

    @property
    def vague(self) -> bool:
        """Whether a more exact code in the same text is to be believed."""
        return self._code.vague

    def given(self, *met: Condition) -> FailureClass:
        """Its class when these conditions are known to be met."""
        otherwise = self.definition.otherwise
        if otherwise is not None and otherwise.condition in met:
            return otherwise.failure_class
        return self.failure_class

    @property
    def _code(self) -> Code:
        named = (code for code in self.definition.codes if code.name == self.code)
        return next(named, Code(self.code, ""))
