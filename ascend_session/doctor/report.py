"""What an examination came to."""

from typing import Any, Dict, List, NamedTuple, Tuple

from ascend_session.checks.finding import ERROR, INFO, NOT_CHECKED, OK, WARNING, Finding

__all__ = ["Report"]

_SEVERITIES = (OK, INFO, NOT_CHECKED, WARNING, ERROR)


class Report(NamedTuple):
    """What was looked at and what was found.

    Attributes:
        backend: On what a job would run here: ``npu`` or ``stub``; ``unknown`` if that cannot be
            decided.
        reason: Why it is that one, in a few words.
        facts: Names and versions of what is here; ``-`` for what is not known.
        findings: All that was looked at, in the order in which it was.
    """

    backend: str
    reason: str
    facts: Tuple[Tuple[str, str], ...]
    findings: Tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error among the findings; it does not mean that a job will work."""
        return not self.of(ERROR)

    def of(self, severity: str) -> List[Finding]:
        """The findings of one severity."""
        return [finding for finding in self.findings if finding.severity == severity]

    def as_dict(self) -> Dict[str, Any]:
        """The report as plain values, which JSON can hold."""
        return {
            "ok": self.ok,
            "backend": self.backend,
            "reason": self.reason,
            "facts": dict(self.facts),
            "counts": {severity: len(self.of(severity)) for severity in _SEVERITIES},
            "findings": [finding._asdict() for finding in self.findings],
        }
