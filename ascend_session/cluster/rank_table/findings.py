"""What there is to say about a rank table: one record each, and a limit on how many of a kind."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.errors import JobError

__all__ = ["ERROR", "INFO", "UNCHECKED", "WARNING", "Findings", "TableFinding", "refusal"]

ERROR, WARNING, INFO, UNCHECKED = "error", "warning", "info", "not checked"

_MOST_OF_A_KIND = 10
_MOST_IN_AN_ERROR = 40


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
            kept.append(TableFinding(severity, place, said, hint, source))

    def __iadd__(self, others: Sequence[TableFinding]) -> "Findings":
        for number, other in enumerate(others):
            self._kept[other.severity, f"added {len(self._kept)} {number}"] = [other]
        return self

    @property
    def refused(self) -> bool:
        """Whether one of them is an error."""
        return any(severity == ERROR for severity, _ in self._kept)

    def as_tuple(self) -> Tuple[TableFinding, ...]:
        """All that were kept, errors first, with a line for what was only counted."""
        order = (ERROR, WARNING, UNCHECKED, INFO)
        found: List[TableFinding] = []
        for severity, kind in sorted(self._kept, key=lambda key: order.index(key[0])):
            kept = self._kept[severity, kind]
            found += kept
            more = self._counts.get((severity, kind), 0) - len(kept)
            if more > 0:
                found.append(TableFinding(severity, "", f"And {more:,} more like the last one."))
        return tuple(found)


def refusal(name: str, found: Sequence[TableFinding]) -> JobError:
    """One error of all findings that are errors."""
    errors = [one for one in found if one.severity == ERROR]
    if len(errors) == 1:
        place = f"{errors[0].place}: " if errors[0].place else ""
        return JobError(f"{name}: {place}{errors[0].said}", hint=errors[0].hint)
    lines = [f"{name}: {len(errors)} problems in this rank table:"]
    shown = errors[:_MOST_IN_AN_ERROR]
    lines += [f"  {number}. {error}" for number, error in enumerate(shown, 1)]
    if len(errors) > len(shown):
        lines.append(f"  and {len(errors) - len(shown):,} more")
    return JobError("\n".join(lines))
