"""The report in SARIF 2.1.0, which code hosts show beside the lines."""

import hashlib
import os
from typing import Any, Dict
from urllib.parse import quote

from ascend_session.audit.finding import ERROR, INFO, RULES, WARNING, AuditFinding
from ascend_session.audit.walking import AuditReport

__all__ = ["as_sarif"]

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
