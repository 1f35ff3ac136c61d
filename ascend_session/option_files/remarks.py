"""What is found in a file: why it is refused, and what its reader skips without a word."""

from typing import Callable, List, Optional, Tuple, Union

from ascend_session.errors import AscendError, ConfigError
from ascend_session.findings import ERROR, WARNING, Finding, Place
from ascend_session.option_files.source import Kind, Source

LineAndColumn = Tuple[int, int]
Hint = Union[None, str, Callable[[], str]]
_MOST_TOLD = 20
_MANY = 1000


class FileFindings:
    """Collects what is found while a file is read; of very many findings, the first thousand.

    Attributes:
        refused: Why the real reader refuses the file.
        skipped: What the real reader skips or takes differently, without an error.
        unknown: What a newer reader may know and this package does not, the first of it.
    """

    def __init__(self) -> None:
        self.refused: List[Finding] = []
        self.skipped: List[Finding] = []
        self.unknown: Optional[Finding] = None
        self._more_refused = 0
        self._more_skipped = 0
        self._first_left_out: LineAndColumn = (1, 1)

    @property
    def many(self) -> bool:
        """Whether so much is refused that nobody reads on."""
        return len(self.refused) >= _MANY

    def refuse(self, place: LineAndColumn, message: str, hint: Optional[str] = None) -> None:
        """Notes why the file is refused."""
        if self.many:
            self._more_refused += 1
        else:
            self.refused.append(Finding(ERROR, message, hint, place=Place(*place)))

    def skip(self, place: LineAndColumn, message: str, hint: Hint = None) -> None:
        """Notes what is skipped or means something else than it says.

        Args:
            place: Line and column.
            message: What stands there and what becomes of it.
            hint: What to write instead, or how to find out, if that takes long.
        """
        if len(self.skipped) < _MANY:
            advice = hint() if callable(hint) else hint
            self.skipped.append(Finding(WARNING, message, advice, place=Place(*place)))
            return
        if not self._more_skipped:
            self._first_left_out = place
        self._more_skipped += 1

    def not_known(self, place: LineAndColumn, message: str, hint: Hint = None) -> None:
        """Notes what is not checked, as the real reader may know it; `skip` has the arguments."""
        self.unknown = self.unknown or Finding(WARNING, message, place=Place(*place))
        self.skip(place, message, hint)

    def skip_all_for(self, message: str, hint: str) -> None:
        """Notes one thing about the whole file in place of all else that is skipped."""
        self.skipped = [Finding(WARNING, message, hint, place=Place(1, 1))]
        self._more_skipped = 0

    def remarks(self) -> Tuple[Finding, ...]:
        """What is skipped, in the order of the file; how much is left out stands at the end."""
        remarks = sorted(self.skipped, key=_place_of)
        if self._more_skipped:
            verb = "remark is" if self._more_skipped == 1 else "remarks are"
            message = f"{self._more_skipped:,} more such {verb} left out here."
            remarks.append(Finding(WARNING, message, place=Place(*self._first_left_out)))
        return tuple(remarks)

    def raise_if_refused(self, source: Source, kind: Kind, option: str) -> None:
        """Raises one error of the kind's type for all that was refused.

        Raises:
            AscendError: If anything was.
        """
        found = self.refusals(source, kind)
        if not found:
            return
        name = source.name
        problems = [
            Finding(ERROR, f"{name}:{one.place}: {one.message}", one.hint, option=option)
            for one in found[:_MOST_TOLD]
        ]
        if len(found) > _MOST_TOLD:
            least = "at least " if self.many else ""
            count = len(found) - _MOST_TOLD + self._more_refused
            problems.append(
                Finding(ERROR, f"{name}: has {least}{count:,} more such faults.", option=option)
            )
        raise _error(kind, problems, name)

    def refusals(self, source: Source, kind: Kind) -> Tuple[Finding, ...]:
        """Why the file is refused, in its order."""
        if self.refused and source.mark is not None:
            # What a parser makes of such bytes helps nobody.
            message, hint = about_mark(source.mark, kind)
            return (Finding(ERROR, message, hint, place=Place(1, 1)),)
        return tuple(sorted(self.refused, key=_place_of))


def about_mark(mark: str, kind: Kind) -> Tuple[str, str]:
    """What there is to say about a file that is ``UTF-16`` or ``compressed``, and what to do."""
    message = (
        f"This is {mark}, not UTF-8 text; {kind.reader} reads {kind.what} as bytes, and finds "
        "nothing that it knows."
    )
    how = "Unpack it." if mark == "compressed" else "Save it as UTF-8 without a byte order mark."
    return message, how


def _error(kind: Kind, problems: List[Finding], name: str) -> AscendError:
    told = ConfigError.of(problems, name)
    if kind.error is ConfigError:
        return told
    return kind.error(told.message, hint=told.hint)


def _place_of(finding: Finding) -> Place:
    assert isinstance(finding.place, Place)
    return finding.place
