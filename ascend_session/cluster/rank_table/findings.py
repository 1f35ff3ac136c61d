"""What there is to say about a rank table: one record each, and a limit on how many of a kind."""

from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.errors import JobError
from ascend_session.plain import printable

__all__ = [
    "ERROR",
    "INFO",
    "UNCHECKED",
    "WARNING",
    "Findings",
    "TableFinding",
    "refusal",
    "sort_findings",
]

ERROR, WARNING, INFO, UNCHECKED = "error", "warning", "info", "not checked"

_ORDER = (ERROR, WARNING, UNCHECKED, INFO)
_MOST_OF_A_KIND = 10


class TableFinding(NamedTuple):
    """One thing to say about a rank table.

    Attributes:
        severity: ``error``: HCCL refuses the table, or its job cannot work; ``warning``: HCCL takes
            it, but the manual or its own reading says otherwise; ``info``; ``not checked``.
        place: Where, as in ``server_list[0].device[3].rank_id``; empty for the table as a whole.
        said: What was found and what the rule is, in a sentence.
        hint: What to do, or None.
        source: Where the rule stands, or None.
    """

    severity: str
    place: str
    said: str
    hint: Optional[str] = None
    source: Optional[str] = None

    def __str__(self) -> str:
        text = f"{self.place}: {self.said}" if self.place else self.said
        return text if self.hint is None else f"{text} {self.hint}"


class Findings:
    """Collects findings; of those that are alike only the first are kept, the others counted."""

    def __init__(self) -> None:
        self._kept: Dict[Tuple[str, str], List[TableFinding]] = {}
        self._counts: Dict[Tuple[str, str], int] = {}

    def add(
        self,
        severity: str,
        kind: str,
        place: str,
        said: str,
        hint: Optional[str] = None,
        source: Optional[str] = None,
    ) -> None:
        """Adds one; ``kind`` is the same for all that say the same of different places."""
        key = (severity, kind)
        self._counts[key] = self._counts.get(key, 0) + 1
        kept = self._kept.setdefault(key, [])
        if len(kept) < _MOST_OF_A_KIND:
            kept.append(TableFinding(severity, printable(place), printable(said), hint, source))

    @property
    def refused(self) -> bool:
        """Whether one of them is an error."""
        return any(severity == ERROR for severity, _ in self._kept)

    def as_tuple(self) -> Tuple[TableFinding, ...]:
        """All that were kept, errors first, with a line for what was only counted."""
        found: List[TableFinding] = []
        for key, kept in self._kept.items():
            found += kept
            more = self._counts[key] - len(kept)
            if more:
                found.append(TableFinding(key[0], "", f"And {more:,} more like the last one."))
        return tuple(sort_findings(found))


def refusal(name: str, findings: Sequence[TableFinding]) -> JobError:
    """One error of all findings that are errors; it has the others as well."""
    errors = [one for one in findings if one.severity == ERROR]
    if len(errors) == 1:
        only = errors[0]
        return JobError(f"{name}: {only._replace(hint=None)}", hint=only.hint, findings=findings)
    lines = [f"{name}: {len(errors)} problems:"]
    lines += [f"  {number}. {error}" for number, error in enumerate(errors, 1)]
    return JobError("\n".join(lines), findings=findings)


def sort_findings(findings: Iterable[TableFinding]) -> List[TableFinding]:
    """Errors first, then warnings, what was not checked, and the rest."""
    return sorted(findings, key=lambda one: _ORDER.index(one.severity))
