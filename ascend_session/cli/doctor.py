"""``ascend-session doctor``: what this machine has for jobs, and what it lacks."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import click
from click.exceptions import Exit

from ascend_session import __version__
from ascend_session.checks.interpreter import TENSORFLOW
from ascend_session.cli._output import (
    CHECKED,
    SEVERITY_STYLES,
    Cell,
    finding_as_dict,
    in_command,
    severity_word,
    show_facts,
    show_json,
)
from ascend_session.cli._parameters import (
    JSON,
    OPTIONS,
    command,
    exit_on_signals,
    parse_time_limit,
)
from ascend_session.errors import BackendError
from ascend_session.findings import ERROR, INFO, NOT_CHECKED, SEVERITIES, WARNING, Finding
from ascend_session.text import format_count


@command("doctor")
@JSON
@OPTIONS.value("--rank-table", "FILE", "Also check this rank table against the devices.")
@OPTIONS.value("--log-dir", "FOLDER", "Folder for logs.  [default: ascend-logs]")
@OPTIONS.value("--python", "PROGRAM", "Python that would run the ranks.  [default: this one]")
@OPTIONS.value(
    "--timeout",
    "TIME",
    "Time limit for each call of npu-smi or hccn_tool.  [default: 10s]",
    type=parse_time_limit,
)
@OPTIONS.value(
    "--imports",
    "TIME",
    "Time limit for importing TensorFlow.  [default: 2m]",
    type=parse_time_limit,
)
def doctor(
    as_json: bool,
    rank_table: Optional[str],
    log_dir: Optional[str],
    python: Optional[str],
    timeout: Optional[float],
    imports: Optional[float],
) -> None:
    """Check whether this machine has what a job needs.

    Checks the devices, their health and the processes that use them, network, ports, versions,
    variables, TensorFlow, the adapter, folders and limits. No device is initialised, so a job may
    fail even if this finds no error.

    Exit code: 0 if there is no error, otherwise 1.

    Examples:
        ascend-session doctor
        ascend-session doctor --rank-table hccl.json --python /usr/bin/python3.7
    """
    from ascend_session.backends import backend_class, choose
    from ascend_session.checks.examination import examine

    refusals = []
    on_npu = False
    with exit_on_signals():
        try:
            backend, reason, _ = choose("auto", os.environ)
            on_npu = backend_class(backend).holds_npus
        except BackendError as error:
            backend, reason = "unknown", error.message
            refusals.append(Finding(ERROR, error.message, error.hint, rule="backend"))
        facts, findings = examine(os.environ, on_npu, rank_table, log_dir, python, timeout, imports)
    facts = (("ascend_session", __version__), *facts)
    report = _Report(backend, reason, facts, (*refusals, *findings))
    if as_json:
        show_json(report.as_dict())
    else:
        _show(report)
    raise Exit(1 if report.list_findings(ERROR) else 0)


class _Report(NamedTuple):
    """The facts and findings of an examination."""

    backend: str  # that a job would use here; ``unknown`` if that cannot be decided
    reason: str  # why it is that one, in a few words
    facts: Sequence[Tuple[str, str]]  # names and versions; ``-`` for what is not known
    findings: Sequence[Finding]  # of all checks, in their order

    def list_findings(self, severity: str) -> List[Finding]:
        """Return the findings of one severity."""
        return [finding for finding in self.findings if finding.severity == severity]

    def as_dict(self) -> Dict[str, Any]:
        """Return plain values, which JSON can hold."""
        return {
            "ok": not self.list_findings(ERROR),
            "backend": self.backend,
            "reason": self.reason,
            "facts": dict(self.facts),
            "counts": {
                severity: len(self.list_findings(severity)) for severity in reversed(SEVERITIES)
            },
            "findings": [finding_as_dict(finding, CHECKED) for finding in self.findings],
        }


def _show(report: _Report) -> None:
    """Print what is here, what was found, and a verdict."""
    job = f"runs on the {report.backend}: {report.reason}"
    missing = [finding for finding in report.list_findings(ERROR) if finding.rule == TENSORFLOW]
    if missing:
        job = f"cannot run: {missing[0].message}"
    show_facts([*report.facts, ("a job here", job)])
    click.echo()
    rows: List[Sequence[Cell]] = []
    # The worst comes last, so that it is still on the screen.
    for finding in (each for kind in reversed(SEVERITIES) for each in report.list_findings(kind)):
        word, style = severity_word(finding.severity), SEVERITY_STYLES.get(finding.severity, "")
        hint = "" if finding.hint is None else f"\nhint: {in_command(finding.hint)}"
        text = (in_command(finding.message), (hint, "dim"))
        rows.append(([(word, style)], finding.rule, text))
    show_facts(rows)
    counts = {severity: len(report.list_findings(severity)) for severity in SEVERITIES}
    checks = format_count(len(report.findings) - counts[INFO], "check")
    words = [format_count(counts[severity], severity) for severity in (ERROR, WARNING)]
    click.echo(f"\n{checks}: {', '.join(words)}, {counts[NOT_CHECKED]} not checked.")
