"""What is found in a file: why it is refused, and what its reader skips without a word."""

from typing import List, NamedTuple, Optional, Tuple

from ascend_session.errors import AscendError, ConfigError, Problem
from ascend_session.option_files.source import Kind

__all__ = ["Findings", "Place", "Remark"]

Place = Tuple[int, int]
_MOST_TOLD = 20
_MANY = 1000


class Remark(NamedTuple):
    """Something that stands in a file and does not do what it says.

    Attributes:
        line: Its line, from 1.
        column: Its column, from 1.
        message: What stands there and what becomes of it.
        hint: What to write instead, or None.
    """

    line: int
    column: int
    message: str
    hint: Optional[str] = None

    def __str__(self) -> str:
        said = f"{self.line}:{self.column}: {self.message}"
        return said if self.hint is None else f"{said} {self.hint}"


class Findings:
    """Collects what is found while a file is read.

    Attributes:
        refused: Why the real reader refuses the file.
        skipped: What the real reader skips or takes differently, without an error.
    """

    def __init__(self) -> None:
        self.refused: List[Remark] = []
        self.skipped: List[Remark] = []

    @property
    def many(self) -> bool:
        """Whether so much is refused that nobody reads on."""
        return len(self.refused) >= _MANY

    def refuse(self, place: Place, message: str, hint: Optional[str] = None) -> None:
        """Notes why the file is refused."""
        self.refused.append(Remark(place[0], place[1], message, hint))

    def skip(self, place: Place, message: str, hint: Optional[str] = None) -> None:
        """Notes what is skipped or means something else than it says."""
        self.skipped.append(Remark(place[0], place[1], message, hint))

    def remarks(self) -> Tuple[Remark, ...]:
        """What is skipped, in the order of the file."""
        return tuple(sorted(self.skipped, key=lambda remark: remark[:2]))

    def raise_if_refused(self, name: str, kind: Kind, option: str) -> None:
        """Raises one error of the kind's type for all that was refused.

        Raises:
            AscendError: If anything was.
        """
        if not self.refused:
            return
        found = sorted(self.refused, key=lambda remark: remark[:2])
        problems = [
            Problem(option, f"{name}:{one.line}:{one.column}: {one.message}", one.hint)
            for one in found[:_MOST_TOLD]
        ]
        if len(found) > _MOST_TOLD:
            least = "at least " if self.many else ""
            more = f"{name}: has {least}{len(found) - _MOST_TOLD:,} more such faults."
            problems.append(Problem(option, more))
        raise _error(kind, problems, name)


def _error(kind: Kind, problems: List[Problem], name: str) -> AscendError:
    told = ConfigError.of(problems, name)
    if kind.error is ConfigError:
        return told
    return kind.error(told.message, hint=told.hint)
