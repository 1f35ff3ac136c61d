"""What is said of one file that an option points to."""

import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, cast

if TYPE_CHECKING:
    from ascend_session.findings import Finding, Place

__all__ = ["Report", "lines", "mix_list_report", "report"]

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
    refused: "Tuple[Finding, ...]"
    remarks: "Tuple[Finding, ...]"
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
            "refused": [place_as_dict(remark) for remark in self.refused],
            "remarks": [place_as_dict(remark) for remark in self.remarks],
        }

    def of_toolkit(self) -> Dict[str, Any]:
        """What the toolkit says of it, as JSON can hold it."""
        found = None if self.toolkit is None else list(self.toolkit)
        return {"toolkit": found, "not_checked": self.not_checked}


def place_as_dict(remark: "Finding") -> Dict[str, Any]:
    """Give what was found at a place of a file, as JSON can hold it."""
    place = cast("Place", remark.place)
    return {
        "line": place.line,
        "column": place.column,
        "message": remark.message,
        "hint": remark.hint,
    }


def mix_list_report(name: str, toolkit: Optional[str], soc: Optional[str]) -> Report:
    """What is said of a mix list, also by the lists of an installed toolkit.

    Args:
        name: The file.
        toolkit: Where to look for it; None for that of this host.
        soc: The kind of processor, of which the toolkit may know several.

    Raises:
        AscendError: If a file cannot be read.
    """
    from ascend_session.hardware.nodes import host_root
    from ascend_session.hardware.operators import ops_info_files
    from ascend_session.option_files import MixList, built_in_lists

    found = report(MixList.OPTION, name)
    known = ops_info_files(os.environ, host_root(os.environ), toolkit)
    if not known:
        return found._replace(toolkit=None, not_checked="No toolkit with lists of operators here.")
    if soc is None and len(known) == 1:
        (soc,) = known
    if soc not in known:
        asked = "" if soc is None else f"no {soc}, but "
        message = f"The toolkit has {asked}{', '.join(known)}; --soc names one."
        return found._replace(toolkit=None, not_checked=message)
    built_in: Dict[str, str] = {}
    for path in known[soc]:
        built_in.update(built_in_lists(path))
    against = () if found.refused else MixList.read(name).against(built_in)
    return found._replace(toolkit=against)


def report(option: str, name: str) -> Report:
    """Reads a file as the vendor's parser does.

    Raises:
        AscendError: If it cannot be read.
    """
    from ascend_session.option_files import file_type

    found = file_type(option).examined(name)
    return Report(name, found.refused, found.remarks)


def lines(found: Report) -> Iterator[str]:
    """The report in lines: first what became of the file, then each place."""
    counts = [
        _count(len(found.refused), "fault", " for which it is refused"),
        _count(len(found.remarks), "remark"),
        _count(len(found.toolkit or ()), "entry", " without effect with this toolkit"),
    ]
    yield f"{found.file}: {', '.join(filter(None, counts)) or 'ok'}"
    for word, remarks in (("", found.refused), ("warning: ", found.remarks)):
        yield from _listed(found.file, word, remarks)
    for fault in found.toolkit or ():
        yield f"  {fault}"
    if found.not_checked is not None:
        yield f"  not checked: {found.not_checked}"


def _listed(name: str, word: str, remarks: "Tuple[Finding, ...]") -> Iterator[str]:
    shown: List[Finding] = list(remarks[:_MOST_SHOWN])
    for remark in shown:
        yield f"  {name}:{remark.place}: {word}{remark.message}"
        if remark.hint is not None:
            yield f"    hint: {remark.hint}"
    if len(remarks) > len(shown):
        yield f"  {len(remarks) - len(shown):,} more; --json has them."


def _count(number: int, word: str, more: str = "") -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}{more}" if number else ""
