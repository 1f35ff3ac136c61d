"""What is said of one file that an option points to."""

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

if TYPE_CHECKING:
    from ascend_session.option_files import Remark

__all__ = ["Report", "lines", "report"]

_MOST_SHOWN = 100


class Report(NamedTuple):
    """What was found in a file.

    Attributes:
        file: Its name.
        refused: Why GE refuses it.
        remarks: What GE skips, or takes differently, without telling.
        toolkit: What does nothing with the installed toolkit; None if that could not be checked.
        not_checked: Why not, in a sentence.
    """

    file: str
    refused: "Tuple[Remark, ...]"
    remarks: "Tuple[Remark, ...]"
    toolkit: Optional[Tuple[str, ...]] = ()
    not_checked: Optional[str] = None

    @property
    def ok(self) -> bool:
        """Whether nothing at all was found."""
        return not (self.refused or self.remarks or self.toolkit)

    def to_dict(self) -> Dict[str, Any]:
        """What GE makes of the file, as JSON can hold it."""
        return {
            "file": self.file,
            "ok": self.ok,
            "refused": [remark._asdict() for remark in self.refused],
            "remarks": [remark._asdict() for remark in self.remarks],
        }


def report(option: str, name: str) -> Report:
    """Reads a file as the vendor's parser does.

    Raises:
        AscendError: If it cannot be read.
    """
    from ascend_session.option_files.kinds import file_type

    found = file_type(option).examined(name)
    return Report(name, found.refused, found.remarks)


def lines(found: Report) -> Iterator[str]:
    """The report in lines: first what became of the file, then each place."""
    counts = [
        _count(len(found.refused), "fault", " for which it is refused"),
        _count(len(found.remarks), "remark"),
        _count(len(found.toolkit or ()), "mode", " that this toolkit does not have"),
    ]
    yield f"{found.file}: {', '.join(filter(None, counts)) or 'ok'}"
    for word, remarks in (("", found.refused), ("warning: ", found.remarks)):
        yield from _listed(found.file, word, remarks)
    for fault in found.toolkit or ():
        yield f"  {fault}"
    if found.not_checked is not None:
        yield f"  not checked: {found.not_checked}"


def _listed(name: str, word: str, remarks: "Tuple[Remark, ...]") -> Iterator[str]:
    shown: List[Remark] = list(remarks[:_MOST_SHOWN])
    for remark in shown:
        yield f"  {name}:{remark.line}:{remark.column}: {word}{remark.message}"
        if remark.hint is not None:
            yield f"    hint: {remark.hint.replace('fixed()', '--fix')}"
    if len(remarks) > len(shown):
        yield f"  {len(remarks) - len(shown):,} more; --json has them."


def _count(number: int, word: str, more: str = "") -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}{more}" if number else ""
