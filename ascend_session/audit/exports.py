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

from ascend_session.audit.report import AUDIT_RULES, AuditReport, place_of
from ascend_session.errors import AuditError
from ascend_session.files import load_file, write_file
from ascend_session.findings import ERROR, INFO, WARNING, Finding

_Key = Tuple[str, str, str]


def write_baseline(file: str, report: AuditReport) -> None:
    """Write the findings of a report; paths are relative to the folder of ``file``.

    Raises:
        AuditError: If the file cannot be written; what was there before is there still.
    """
    counts = Counter(_key(finding, file) for finding in report.findings)
    known = [
        {"file": name, "rule": rule, "text": text, "count": count}
        for (name, rule, text), count in sorted(counts.items())
    ]
    text = json.dumps({"version": 1, "known": known}, indent=1, ensure_ascii=False)
    content = f"{text}\n".encode("utf-8", "surrogateescape")
    write_file(file, content, force=True, error=AuditError)


def read_baseline(file: str) -> "Counts[_Key]":
    """Read the findings that a baseline names, with how often each is known.

    Raises:
        AuditError: If the file cannot be read, or is no baseline.
    """
    content = load_file(file, "a baseline", AuditError)
    try:
        known: Any = json.loads(content)["known"]
        return Counter(
            {(each["file"], each["rule"], each["text"]): int(each["count"]) for each in known}
        )
    except (ValueError, KeyError, TypeError):
        raise AuditError(f"{file} is not a baseline. Write one with --update-baseline.") from None


def without_known(report: AuditReport, file: str, known: "Counts[_Key]") -> AuditReport:
    """Leave out the findings that the baseline in ``file`` names.

    A finding is known by its file, its rule and the text of its line, so that lines may move.
    """
    left = Counter(known)
    new: List[Finding] = []
    for finding in report.findings:
        key = _key(finding, file)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return report._replace(findings=tuple(new), known=len(report.findings) - len(new))


def _key(finding: Finding, file: str) -> _Key:
    place = place_of(finding)
    folder = os.path.dirname(os.path.abspath(file))
    relative = os.path.relpath(os.path.abspath(place.file), folder)
    return relative.replace(os.sep, "/"), finding.rule, place.text


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {ERROR: "error", WARNING: "warning", INFO: "note"}


def as_sarif(report: AuditReport, version: str) -> Dict[str, Any]:
    """Give the report as one run of SARIF; files are named relative to the current folder."""
    rules = [
        {"id": rule, "shortDescription": {"text": sentence}}
        for rule, sentence in AUDIT_RULES.items()
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
        "results": [_result(finding) for finding in report.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding) -> Dict[str, Any]:
    place = place_of(finding)
    text = finding.message if finding.hint is None else f"{finding.message} {finding.hint}"
    name = os.path.relpath(place.file).replace(os.sep, "/")
    properties: Dict[str, Any] = {"certain": finding.certain}
    # A notebook has lines of its own only in its cells.
    region = {"startLine": place.line, "startColumn": place.column}
    if place.cell is not None:
        properties["cell"] = place.cell
        region = {"startLine": 1}
        text = f"Cell {place.cell}, line {place.line}: {text}"
    fingerprint = f"{name}\n{finding.rule}\n{place.text}".encode(errors="replace")
    location = {"artifactLocation": {"uri": quote(name)}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(AUDIT_RULES).index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"lineText/v1": hashlib.sha256(fingerprint).hexdigest()[:32]},
        "properties": properties,
    }
