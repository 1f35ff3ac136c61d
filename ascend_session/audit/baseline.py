"""A file of findings that are known, and stay out of reports until their lines change."""

import json
import os
from collections import Counter
from typing import Any, List, Tuple
from typing import Counter as Counts

from ascend_session.audit.finding import AuditFinding
from ascend_session.audit.walking import AuditReport
from ascend_session.errors import AuditError
from ascend_session.option_files.source import Kind, read_content
from ascend_session.option_files.writing import write_content

__all__ = ["read_baseline", "without_known", "write_baseline"]

_Key = Tuple[str, str, str]

_KIND = Kind("a baseline", "the audit", AuditError)


def write_baseline(file: str, report: AuditReport) -> None:
    """Writes the findings of ``report``; paths are relative to the folder of ``file``.

    Raises:
        AuditError: If the file cannot be written; what was there before is there still.
    """
    counts = Counter(_key(one, file) for one in report.findings)
    known = [
        {"file": name, "rule": rule, "text": text, "count": count}
        for (name, rule, text), count in sorted(counts.items())
    ]
    text = json.dumps({"version": 1, "known": known}, indent=1, ensure_ascii=False)
    write_content(file, f"{text}\n".encode("utf-8", "surrogateescape"), _KIND, force=True)


def read_baseline(file: str) -> "Counts[_Key]":
    """The findings that a baseline names, with how often each is known.

    Raises:
        AuditError: If the file cannot be read, or is no baseline.
    """
    content = read_content(file, _KIND)
    try:
        data: Any = json.loads(content)
        return Counter(
            {(one["file"], one["rule"], one["text"]): int(one["count"]) for one in data["known"]}
        )
    except (ValueError, KeyError, TypeError):
        raise AuditError(f"{file} is no baseline. Write one with --update-baseline.") from None


def without_known(report: AuditReport, file: str, known: "Counts[_Key]") -> AuditReport:
    """The report without the findings that the baseline in ``file`` names.

    A finding is known by its file, its rule and the text of its line, so that lines may move.
    """
    left = Counter(known)
    new: List[AuditFinding] = []
    for one in report.findings:
        key = _key(one, file)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(one)
    return report._replace(findings=tuple(new), known=len(report.findings) - len(new))


def _key(finding: AuditFinding, file: str) -> _Key:
    folder = os.path.dirname(os.path.abspath(file))
    relative = os.path.relpath(os.path.abspath(finding.file), folder)
    return relative.replace(os.sep, "/"), finding.rule, finding.text
