"""``ascend-session audit``: what existing scripts get wrong, found without running them."""

import json
from typing import TYPE_CHECKING, List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import complain, show_json

if TYPE_CHECKING:
    from ascend_session.audit.report import AuditReport

__all__ = ["audit"]


def _severity(value: str) -> str:
    if value not in ("error", "warning", "info"):
        raise typer.BadParameter(f"{value} is not error, warning or info.")
    return value


_Paths = Annotated[List[str], typer.Argument(hidden=True)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_Sarif = Annotated[
    Optional[str], typer.Option(metavar="FILE", help="Also write the findings as SARIF to FILE.")
]
_Baseline = Annotated[
    Optional[str], typer.Option(metavar="FILE", help="Leave out the findings that FILE names.")
]
_Update = Annotated[
    bool, typer.Option("--update-baseline", help="Write all findings to the baseline.")
]
_FailOn = Annotated[
    str,
    typer.Option(
        metavar="SEVERITY",
        callback=_severity,
        help="Exit with 1 on findings so bad or worse: error, warning or info.",
    ),
]
_Certain = Annotated[
    bool, typer.Option("--certain", help="Leave out what depends on other code or on branches.")
]
_Fix = Annotated[
    bool,
    typer.Option("--fix", help="Show a diff of what is certain, and change the scripts by it."),
]
_Port = Annotated[
    bool, typer.Option("--port", help="Print the AscendConfig that says the same, and no more.")
]


def audit(
    paths: _Paths,
    as_json: _Json = False,
    sarif: _Sarif = None,
    baseline: _Baseline = None,
    update_baseline: _Update = False,
    fail_on: _FailOn = "error",
    certain: _Certain = False,
    fix: _Fix = False,
    port: _Port = False,
) -> None:
    """Read scripts, and say which of their options do nothing, or not what they say.

    PATHS are scripts of Python and shells, notebooks, and folders. Nothing in them is run, and
    only --fix changes any: misspelt keys, fields of switches, the optimizer's name and
    memory_optimization.
    `# ascend: ignore[RULE]` at the end of a line keeps its findings by that rule out.

    Exit code 1 if there are findings of the severity of --fail-on or worse, else 0.
    """
    if update_baseline and baseline is None:
        raise typer.BadParameter("it needs --baseline FILE.", param_hint="--update-baseline")
    if port:
        _port(paths)
        return
    report = _audited(paths, not as_json)
    if fix:
        from ascend_session.cli._audit_fixing import fix as fix_scripts

        fix_scripts(report)
        report = _audited(paths, not as_json)
    if certain:
        kept = tuple(finding for finding in report.findings if finding.certain)
        report = report._replace(findings=kept)
    report = _beside(report, baseline, update_baseline)
    if sarif is not None:
        _write_sarif(report, sarif)
    if as_json:
        show_json(report.as_dict())
    else:
        from ascend_session.cli._audit_report import show

        show(report)
    raise typer.Exit(1 if report.has(fail_on) else 0)


def _port(paths: List[str]) -> None:
    """Prints what the entries of scripts come to."""
    from ascend_session.audit.port import port_script
    from ascend_session.audit.scripts import files_below
    from ascend_session.audit.source import read_file
    from ascend_session.errors import AuditError

    unread = False
    try:
        files = [file for file in files_below(paths) if file.endswith((".py", ".ipynb"))]
    except FileNotFoundError as error:
        raise typer.BadParameter(f"{error.args[0]} is not there.", param_hint="PATHS") from None
    for file in files:
        try:
            entries = port_script(file, read_file(file))
        except AuditError as why:
            complain(f"{file}: not read. {why}")
            unread = True
            continue
        for entry in entries:
            typer.echo(f"# {file}:{entry.line}\n{entry.code}")
    if unread:
        raise typer.Exit(1)


def _audited(paths: List[str], with_progress: bool) -> "AuditReport":
    from ascend_session.audit.scripts import audit_paths
    from ascend_session.cli._audit_report import Progress

    try:
        with Progress(with_progress) as progress:
            return audit_paths(paths, progress.tell)
    except FileNotFoundError as error:
        raise typer.BadParameter(f"{error.args[0]} is not there.", param_hint="PATHS") from None


def _beside(report: "AuditReport", baseline: Optional[str], update: bool) -> "AuditReport":
    """The report without what the baseline names; an updated one names everything."""
    from ascend_session.audit.exports import read_baseline, without_known, write_baseline
    from ascend_session.errors import AuditError

    if baseline is None:
        return report
    try:
        if update:
            write_baseline(baseline, report)
        return without_known(report, baseline, read_baseline(baseline))
    except AuditError as error:
        raise typer.BadParameter(str(error), param_hint="--baseline") from None


def _write_sarif(report: "AuditReport", file: str) -> None:
    from ascend_session import __version__
    from ascend_session.audit.exports import as_sarif

    try:
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(as_sarif(report, __version__), opened, indent=1)
            opened.write("\n")
    except OSError as error:
        complain(f"{file} could not be written: {error.strerror}.")
        raise typer.Exit(2) from None
