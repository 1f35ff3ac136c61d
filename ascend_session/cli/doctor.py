"""``ascend-session doctor``: what this machine has for jobs, and what it lacks."""

import os
from typing import TYPE_CHECKING, List, Sequence

import typer
from typing_extensions import Annotated

from ascend_session.checks.interpreter import TENSORFLOW
from ascend_session.cli._output import (
    SEVERITY_STYLES,
    Cell,
    severity_word,
    show_facts,
    show_json,
    spell_options,
)
from ascend_session.cli._parameters import (
    OPTIONS,
    Json,
    OptionalSeconds,
    OptionalText,
    exit_on_signals,
    parse_time_limit,
)
from ascend_session.findings import ERROR, INFO, NOT_CHECKED, SEVERITIES, WARNING
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.cli._examination import Examination


def doctor(
    as_json: Json = False,
    rank_table: Annotated[
        OptionalText, OPTIONS.value("FILE", "Also check this rank table against the devices.")
    ] = None,
    log_dir: Annotated[
        OptionalText, OPTIONS.value("FOLDER", "Folder for logs.  [default: ascend-logs]")
    ] = None,
    python: Annotated[
        OptionalText,
        OPTIONS.value("PROGRAM", "Python that would run the ranks.  [default: this one]"),
    ] = None,
    timeout: Annotated[
        OptionalSeconds,
        OPTIONS.value(
            "TIME",
            "Time limit for each call of npu-smi or hccn_tool.  [default: 10s]",
            parser=parse_time_limit,
        ),
    ] = None,
    imports: Annotated[
        OptionalSeconds,
        OPTIONS.value(
            "TIME",
            "Time limit for importing TensorFlow.  [default: 2m]",
            parser=parse_time_limit,
        ),
    ] = None,
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
    from ascend_session.cli._examination import examine

    with exit_on_signals():
        report = examine(os.environ, rank_table, log_dir, python, timeout, imports)
    if as_json:
        show_json(report.as_dict())
    else:
        _show(report)
    raise typer.Exit(0 if report.ok else 1)


def _show(report: "Examination") -> None:
    """Print what is here, what was found, and a verdict."""
    job = f"runs on the {report.backend}: {report.reason}"
    missing = [finding for finding in report.of(ERROR) if finding.rule == TENSORFLOW]
    if missing:
        job = f"cannot run: {missing[0].message}"
    show_facts([*report.facts, ("a job here", job)])
    typer.echo()
    rows: List[Sequence[Cell]] = []
    # The worst comes last, and stands on the screen then.
    for finding in (each for kind in reversed(SEVERITIES) for each in report.of(kind)):
        word, style = severity_word(finding.severity), SEVERITY_STYLES.get(finding.severity, "")
        hint = "" if finding.hint is None else f"\nhint: {spell_options(finding.hint)}"
        text = (spell_options(finding.message), (hint, "dim"))
        rows.append(([(word, style)], finding.rule, text))
    show_facts(rows)
    counts = {severity: len(report.of(severity)) for severity in SEVERITIES}
    checks = format_count(len(report.findings) - counts[INFO], "check")
    words = [format_count(counts[severity], severity) for severity in (ERROR, WARNING)]
    typer.echo(f"\n{checks}: {', '.join(words)}, {counts[NOT_CHECKED]} not checked.")
