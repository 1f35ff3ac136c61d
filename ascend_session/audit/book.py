"""Where findings about one script are collected, each once, and what the script waves through."""

import re
from typing import Dict, List, Optional, Tuple

from ascend_session.audit.finding import AuditFinding, Place
from ascend_session.audit.source import Source

__all__ = ["Book", "is_ignored"]

_IGNORE = re.compile(r"#\s*ascend:\s*ignore(?:\[([\w\s,-]*)\])?")


class Book:
    """The findings about one script.

    Args:
        source: The script.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: Dict[Tuple[Place, str, str], AuditFinding] = {}

    def add(
        self,
        rule: str,
        severity: str,
        place: Place,
        said: str,
        hint: Optional[str] = None,
        certain: bool = True,
    ) -> None:
        """Adds a finding; one that is there already becomes certain if this one is."""
        text = self._source.line_of(place)
        finding = AuditFinding(self._source.file, place, rule, severity, certain, said, hint, text)
        before = self._found.get((place, rule, said))
        if before is None or certain:
            self._found[place, rule, said] = finding

    def findings(self) -> List[AuditFinding]:
        """What is left after ``# ascend: ignore[rule]`` on the line of a finding, in order."""
        left = [each for each in self._found.values() if not is_ignored(each)]
        return sorted(left, key=lambda each: (each.place.cell or 0, *each.place[:2], each.rule))


def is_ignored(finding: AuditFinding) -> bool:
    """Whether its line says so: for the named rules, or for all."""
    match = _IGNORE.search(finding.text)
    if match is None:
        return False
    named = match.group(1)
    return named is None or finding.rule in [each.strip() for each in named.split(",")]
