"""``ascend-session config``: checks configuration files, shows what they mean, their schema."""

import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List

import typer
from typing_extensions import Annotated

from ascend_session.cli._check_file import check_file
from ascend_session.cli._groups import group, help_without_command
from ascend_session.cli._output import complain, show_json, show_table

if TYPE_CHECKING:
    from ascend_session.config.files import FileReport
    from ascend_session.findings import Finding

__all__ = ["app"]

# Hidden from the list of arguments, where typer 0.19 writes "\\[required]"; the usage names them.
_File = Annotated[str, typer.Argument(hidden=True)]
_Files = Annotated[List[str], typer.Argument(hidden=True)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

app = group(help="Check configuration files, and print what they mean.")
app.callback()(help_without_command)


@app.command()
def check(
    files: _Files,
    host: Annotated[
        bool, typer.Option("--host", help="Also check paths and variables of this machine.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Check YAML or JSON files; exit code 1 if one of them is wrong.

    All files are checked. Warnings are printed and do not make a file wrong.
    """
    from ascend_session.config.files import report_file

    reports = [report_file(name, os.environ if host else None) for name in files]
    in_order = all(report.ok for report in reports)
    if as_json:
        show_json({"ok": in_order, "files": [report.to_dict() for report in reports]})
    else:
        for report in reports:
            typer.echo("\n".join(_lines(report)))
    raise typer.Exit(0 if in_order else 1)


app.command("check-file")(check_file)


@app.command()
def show(
    file: _File,
    as_json: _Json = False,
) -> None:
    """Print the NpuOptimizer entry that a YAML or JSON file resolves to."""
    from ascend_session.config.files import report_file

    report = report_file(file)
    if as_json:
        show_json({**report.to_dict(), **_resolved(report)})
    else:
        for finding in (*report.problems, *report.warnings):
            complain(_said(report, finding), finding.hint)
        if report.ok:
            _show_resolved(_resolved(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def schema() -> None:
    """Print the JSON schema of configuration files, for editors."""
    from ascend_session.config.reference import json_schema

    show_json(json_schema())


def _lines(report: "FileReport") -> Iterator[str]:
    """What `check` says of one file."""
    counts = [
        f"{len(found)} {word}{'' if len(found) == 1 else 's'}"
        for word, found in (("problem", report.problems), ("warning", report.warnings))
        if found
    ]
    state = "" if report.problems else "ok"
    yield f"{report.file}: {', '.join(filter(None, [state, *counts]))}"
    for finding in (*report.problems, *report.warnings):
        yield f"  {_said(report, finding)}"
        if finding.hint is not None:
            yield f"    hint: {finding.hint}"


def _said(report: "FileReport", finding: "Finding") -> str:
    """A finding behind its place, in the form that editors and terminals can jump to."""
    word = "warning: " if finding in report.warnings else ""
    return f"{report.place_of(finding)}: {word}{finding.message}"


def _resolved(report: "FileReport") -> Dict[str, Any]:
    """The entry, and the options that never get into it."""
    if report.config is None:
        return {"entry": [], "not_in_entry": {}}
    from ascend_session.config.files import resolved_entry

    entry = resolved_entry(report.config)
    keys = {each["key"] for each in entry}
    others = {k: v for k, v in report.config.values().items() if k not in keys}
    return {"entry": entry, "not_in_entry": others}


def _show_resolved(resolved: Dict[str, Any]) -> None:
    entry, others = resolved["entry"], resolved["not_in_entry"]
    if entry:
        rows = [(x["key"], repr(x["value"]), x["field"], x["scope"]) for x in entry]
        show_table(("KEY", "VALUE", "FIELD", "SCOPE"), rows)
    else:
        typer.echo("The NpuOptimizer entry is empty: the adapter's defaults hold.")
    if others:
        typer.echo("\nNot in the entry, read by NPURunConfig and its helpers only:")
        show_table(("OPTION", "VALUE"), [(name, repr(value)) for name, value in others.items()])
