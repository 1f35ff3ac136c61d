"""Two forms of a report: a baseline of known findings, and SARIF 2.1.0.

Findings that a baseline names stay out of reports until their lines change; SARIF is what code
hosts show beside the lines.
"""

import hashlib
import json
import os
from collections import Counter
from typing import Any, Dict, List, Tuple
from typing import Counter as Counts
from urllib.parse import quote

from ascend_session.audit.finding import RULES, AuditFinding
from ascend_session.audit.scripts import AuditReport
from ascend_session.errors import AuditError
from ascend_session.findings import ERROR, INFO, WARNING
from ascend_session.option_files.source import Kind, read_content, write_content

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


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {ERROR: "error", WARNING: "warning", INFO: "note"}


def as_sarif(report: AuditReport, version: str) -> Dict[str, Any]:
    """The report as one run of SARIF; files are named relative to the current folder."""
    rules = [
        {"id": rule, "shortDescription": {"text": sentence}} for rule, sentence in RULES.items()
    ]
    driver = {"name": "ascend-session audit", "version": version, "rules": rules}
    skipped = [
        {"level": "note", "message": {"text": f"{file} was not read. {why}"}}
        for file, why in report.skipped
    ]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": skipped}],
        "results": [_result(one) for one in report.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: AuditFinding) -> Dict[str, Any]:
    said = finding.said if finding.hint is None else f"{finding.said} {finding.hint}"
    name = os.path.relpath(finding.file).replace(os.sep, "/")
    properties: Dict[str, Any] = {"certain": finding.certain}
    # A notebook has lines of its own only in its cells.
    region = {"startLine": finding.place.line, "startColumn": finding.place.column}
    if finding.place.cell is not None:
        properties["cell"] = finding.place.cell
        region = {"startLine": 1}
        said = f"Cell {finding.place.cell}, line {finding.place.line}: {said}"
    print_of = f"{name}\n{finding.rule}\n{finding.text}"
    location = {"artifactLocation": {"uri": quote(name)}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(RULES).index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": said},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {
            "lineText/v1": hashlib.sha256(print_of.encode(errors="replace")).hexdigest()[:32]
        },
        "properties": properties,
    }
