"""A program of the vendor's that is asked several things: when to stop asking, what to report."""

import math
import time
from typing import Callable, List, Mapping, Optional, Sequence, TypeVar

from ascend_session.hardware._text import quoted
from ascend_session.hardware.command import Answer, ask, find
from ascend_session.hardware.failure_texts import known_failures

__all__ = ["Program"]

_Parsed = TypeVar("_Parsed")

_SLOW = 5.0  # seconds after which somebody may want to know what is waited for


class Program:
    """One round of questions to a program. Nothing here raises; see `notes`.

    Attributes:
        notes: A sentence for each thing that failed, and how.
    """

    def __init__(
        self,
        name: str,
        places: Sequence[str],
        environ: Mapping[str, str],
        root: str,
        timeout: float,
        total: float = math.inf,
        say: Optional[Callable[[str], None]] = None,
    ) -> None:
        """Looks for the program.

        Args:
            name: Its name.
            places: Folders below ``root`` where it is besides those on the ``PATH``.
            environ: The environment that it is looked for and runs in.
            root: Root of the host to look at.
            timeout: Seconds for one answer. After one that did not come no more is asked.
            total: Seconds for all answers together, after which no more is asked.
            say: Is told once that it takes its time.
        """
        self.notes: List[str] = []
        self._name = name
        self._environ = environ
        self._timeout = timeout
        self._total, self._spent, self._say = total, 0.0, say
        self._path = find(name, environ, root, places)

    @property
    def answers(self) -> bool:
        """Whether the program is there and has not left a question unanswered."""
        return self._path is not None

    def ask(
        self, parse: Callable[[str], _Parsed], *arguments: str, may_be_empty: bool = False
    ) -> _Parsed:
        """Runs the program and parses what it prints; ``parse("")`` if it cannot be run.

        Args:
            parse: Must not raise, whatever is printed.
            arguments: For the program.
            may_be_empty: Whether an answer in which nothing is found is worth no note.
        """
        nothing = parse("")
        if self._path is None:
            return nothing
        answer = self._answer(self._path, arguments)
        parsed = parse(answer.text)
        problems = [answer.problem, *known_failures(f"{answer.errors}\n{answer.text}")]
        if parsed == nothing and not may_be_empty and not any(problems):
            problems.append(self._unreadable(answer, arguments))
        for problem in problems:
            self.note(problem)
        if answer.hung:
            self._path = None
            self.note(f"{self._name} is not asked again: it can be blocked by a card that is sick.")
        return parsed

    def _answer(self, path: str, arguments: Sequence[str]) -> Answer:
        """Runs it, in the time that is left."""
        begun = time.monotonic()
        left = min(self._timeout, self._total - self._spent)
        answer = ask([path, *arguments], self._environ, left)
        self._spent += time.monotonic() - begun
        if self._spent >= self._total and not answer.hung:
            self._path = None
            said = f"answers so slowly that it was not asked all: {self._total:g} s were over"
            self.note(f"{self._name} {said}.")
        elif self._say is not None and self._spent >= _SLOW:
            self._say(f"{self._name} takes its time; it is given {self._total:g} s in all.")
            self._say = None
        return answer

    def note(self, note: Optional[str]) -> None:
        """Adds a note that is not there yet."""
        if note and note not in self.notes:
            self.notes.append(note)

    def _unreadable(self, answer: Answer, arguments: Sequence[str]) -> str:
        name = " ".join([self._name, *arguments])
        return f"{name!r} printed nothing that could be read; it said {quoted(answer.text)}."
