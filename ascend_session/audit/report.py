"""Rules of the audit, and reports on one script and on all."""

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from ascend_session.findings import ERROR, INFO, WARNING, Finding, Place

AUDIT_SEVERITIES = (ERROR, WARNING, INFO)

AUDIT_RULES: Dict[str, str] = {
    "unknown-key": "No adapter reads this key of the NpuOptimizer entry.",
    "wrong-field": "The value is in a protobuf field that the adapter does not read.",
    "field-type": "Protobuf does not take a value of this type in this field.",
    "value-not-allowed": "The option does not take this value.",
    "option-conflict": "Options of one entry or NPURunConfig contradict each other.",
    "option-without-effect": "An option does nothing, or not what it says, beside the others.",
    "deprecated-option": "The vendor's manual calls the option deprecated.",
    "unread-option": "The option is accepted, but no longer has any effect.",
    "wrong-optimizer-name": "The adapter reads entries named NpuOptimizer only.",
    "two-entries": "A configuration gets two NpuOptimizer entries.",
    "config-not-used": "A configuration is built, but no session uses it.",
    "memory-optimization-on": "TensorFlow's memory optimisation is left on.",
    "remapping-on": "TensorFlow's remapping is left on.",
    "initialize-not-run": "initialize_system() only makes an operation; nothing runs it.",
    "no-shutdown": "initialize_system is run and shutdown_system is not.",
    "shutdown-skipped": "An exception skips shutdown_system.",
    "loop-not-run": "The operation that set_iteration_per_loop returns is not used.",
    "loop-size": "A loop makes a different number of steps than the entry sets.",
    "loop-remainder": "A training stops within a loop, but the rest of the loop's steps still run.",
    "sharded-saver": "MonitoredTrainingSession makes a saver that the adapter may fail to run.",
    "no-average": "Ranks share the data of one training and never average its gradients.",
    "loss-scale-alone": "An overflow on one rank does not count on the others.",
    "other-adapter": "The script is for another adapter, the one for TensorFlow 2.",
    "unknown-argument": "NPURunConfig, AscendConfig or a part of them has no such argument.",
    "machine-path": "An option holds a path of one machine.",
    "variable-without-default": "The script fails where an environment variable is not set.",
    "inference-as-training": "A frozen graph is compiled for training.",
    "ranks-lost": "A shell script does not notice that a rank has failed.",
    "rank-behind-pipe": "A shell script waits for tee, not for the rank.",
    "no-cleanup": "A shell script leaves its ranks running when it is stopped.",
    "fixed-job-id": "All jobs of a shell script have the same JOB_ID.",
    "collectives-off": "Variables that are set together switch collectives off.",
    "rank-table": "HCCL refuses the rank table of a shell script.",
    "rank-size": "A shell script for several devices starts one rank.",
    "shared-log": "All ranks of a shell script write to one file.",
    "python-path-replaced": "A shell script leaves the vendor's packages out of PYTHONPATH.",
    "binding-overruns": "CPUs are chosen by rank, which runs past the last CPU on a second server.",
    "not-read": "The file, or a part of it, could not be read.",
}
"""What each rule is about, in one sentence, by its id."""


def place_of(finding: Finding) -> Place:
    """Return the place of a finding about a script, each of which has one in a file."""
    assert isinstance(finding.place, Place)
    return finding.place


_IGNORE = re.compile(r"#\s*ascend:\s*ignore(?:\[([\w\s,-]*)\])?")


def merge_findings(findings: Iterable[Finding]) -> List[Finding]:
    """Sort the findings of one script, without duplicates and those that their lines ignore.

    Of two equal findings the certain one is kept. ``# ascend: ignore[rule]`` on its line hides a
    finding.
    """
    merged: Dict[Tuple[Place, str, str], Finding] = {}
    for finding in findings:
        key = (place_of(finding), finding.rule, finding.message)
        if key not in merged or finding.certain:
            merged[key] = finding
    kept = [key for key in merged if not _is_ignored(key[1], key[0].text)]
    kept.sort(key=lambda key: (key[0].cell or 0, key[0].line, key[0].column, key[1]))
    return [merged[key] for key in kept]


def _is_ignored(rule: str, line: str) -> bool:
    match = _IGNORE.search(line)
    if match is None:
        return False
    return match.group(1) is None or rule in [name.strip() for name in match.group(1).split(",")]


class MistakeKind(NamedTuple):
    """The findings by one rule.

    Attributes:
        rule: The rule.
        findings: The findings: worst and most certain first, then by file and line.
    """

    rule: str
    findings: Tuple[Finding, ...]

    @property
    def files(self) -> int:
        """The number of files with such findings."""
        return len({place_of(finding).file for finding in self.findings})

    def as_dict(self) -> Dict[str, Any]:
        """Return the kind as JSON can hold it."""
        return {
            "rule": self.rule,
            "about": AUDIT_RULES[self.rule],
            "severity": self.findings[0].severity,
            "count": len(self.findings),
            "certain": sum(finding.certain for finding in self.findings),
            "files": self.files,
            "first": finding_as_dict(self.findings[0]),
        }


class AuditReport(NamedTuple):
    """The findings in all files.

    Attributes:
        files: How many files were opened.
        looked_at: How many of them use the adapter or start ranks.
        findings: The findings, by file and line.
        skipped: The files that were not read, each with the reason in a sentence.
    """

    files: int
    looked_at: int
    findings: Tuple[Finding, ...]
    skipped: Tuple[Tuple[str, str], ...]

    def count(self, severity: str) -> int:
        """Count the findings of this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def has(self, severity: str) -> bool:
        """Return whether a finding is of this severity or worse."""
        worse = AUDIT_SEVERITIES[: AUDIT_SEVERITIES.index(severity) + 1]
        return any(finding.severity in worse for finding in self.findings)

    def kinds(self) -> List[MistakeKind]:
        """List the kinds of mistakes, the most important first.

        Worse ones come before others, certain before possible, frequent before rare.
        """
        by_rule: Dict[str, List[Finding]] = {}
        for finding in sorted(self.findings, key=_rank):
            by_rule.setdefault(finding.rule, []).append(finding)
        kinds = [MistakeKind(rule, tuple(findings)) for rule, findings in by_rule.items()]
        return sorted(kinds, key=lambda kind: (_rank(kind.findings[0]), -len(kind.findings)))

    def as_dict(self) -> Dict[str, Any]:
        """Return the report as JSON can hold it."""
        return {
            "files": self.files,
            "looked_at": self.looked_at,
            "counts": {severity: self.count(severity) for severity in AUDIT_SEVERITIES},
            "findings": [finding_as_dict(finding) for finding in self.findings],
            "skipped": [{"file": file, "why": why} for file, why in self.skipped],
        }


def _rank(finding: Finding) -> Tuple[int, bool]:
    return AUDIT_SEVERITIES.index(finding.severity), not finding.certain


def finding_as_dict(finding: Finding) -> Dict[str, Any]:
    """Return a finding as JSON can hold it."""
    place = place_of(finding)
    return {
        "file": place.file,
        "rule": finding.rule,
        "severity": finding.severity,
        "certain": finding.certain,
        "said": finding.message,
        "hint": finding.hint,
        "text": place.text,
        "line": place.line,
        "column": place.column,
        "cell": place.cell,
    }
