"""A file of findings that are known, and stay out of reports until their lines change."""

import json
import os
from collections import Counter
from typing import Any, List, Tuple
from typing import Counter as Counts

from ascend_session.audit.finding import AuditFinding
from ascend_session.audit.walking import AuditReport

__all__ = ["BaselineError", "read_baseline", "without_known", "write_baseline"]

_Key = Tuple[str, str, str]


class BaselineError(ValueError):
    """The baseline cannot be read; the message says why, in a full sentence."""


def write_baseline(file: str, report: AuditReport) -> None:
    """Writes the findings of ``report``; paths are relative to the folder of ``file``.

    Raises:
        OSError: If the file cannot be written.
    """
    counts = Counter(_key(one, file) for one in report.findings)
    known = [
        {"file": name, "rule": rule, "text": text, "count": count}
        for (name, rule, text), count in sorted(counts.items())
    ]
    with open(file, "w", encoding="utf-8") as opened:
        json.dump({"version": 1, "known": known}, opened, indent=1, ensure_ascii=False)
        opened.write("\n")


def read_baseline(file: str) -> "Counts[_Key]":
    """The findings that a baseline names, with how often each is known.

    Raises:
        BaselineError: If the file cannot be read, or is no baseline.
    """
    try:
        with open(file, encoding="utf-8") as opened:
            data: Any = json.load(opened)
        return Counter(
            {(one["file"], one["rule"], one["text"]): int(one["count"]) for one in data["known"]}
        )
    except OSError as error:
        raise BaselineError(f"{file}: the baseline cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise BaselineError(f"{file} is no baseline. Write one with --update-baseline.") from None


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
