"""What a check says: what was looked at, what was found, and what to do."""

from typing import Iterable, List, NamedTuple, Optional

from ascend_session.plain import blanked

__all__ = [
    "ERROR",
    "INFO",
    "NOT_CHECKED",
    "OK",
    "WARNING",
    "Finding",
    "errors",
    "listed",
    "one_line",
    "remarks",
]

ERROR = "error"
"""A job would fail, hang, or quietly do something else than it was asked."""

WARNING = "warning"
"""A job may go wrong, or not be what it looks like."""

INFO = "info"
"""Worth knowing, and nothing to do."""

NOT_CHECKED = "not checked"
"""Nobody could say."""

OK = "ok"
"""Looked at, and nothing was found against it; not more than that."""


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        check: What was looked at, in a few words that stay the same: ``device nodes``.
        severity: ``error``, ``warning``, ``info``, ``not checked`` or ``ok``.
        said: What was found, in full sentences.
        hint: What to do about it; None if there is nothing to do.
    """

    check: str
    severity: str
    said: str
    hint: Optional[str] = None

    def __str__(self) -> str:
        return self.said if self.hint is None else f"{self.said} {self.hint}"


def errors(findings: Iterable[Finding]) -> List[Finding]:
    """Those because of which a job should not be started."""
    return [finding for finding in findings if finding.severity == ERROR]


def remarks(findings: Iterable[Finding]) -> List[Finding]:
    """Those that a user should see although they are no reason not to start."""
    return [finding for finding in findings if finding.severity in (WARNING, NOT_CHECKED)]


def one_line(text: str, longest: int) -> str:
    """What others wrote, on one line of bearable length and without codes for the terminal."""
    line = " ".join(blanked(text).split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def listed(numbers: Iterable[int]) -> str:
    """Numbers as people write them: ``0-3, 6``."""
    parts: List[List[int]] = []
    for number in sorted(set(map(int, numbers))):
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
