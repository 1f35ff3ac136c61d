"""``ascend-session audit``: what existing scripts get wrong, found without running them."""

import contextlib
import difflib
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import complain, exit_on_error, show_finding, show_json
from ascend_session.cli._parameters import JSON, OPTIONS, OptionGroup, argument, command
from ascend_session.errors import AuditError
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.audit.fixes import FixedScript
    from ascend_session.audit.report import AuditReport


# Options below a title of the help.
_SELECTION = OptionGroup("Selection of findings")
_CHANGES = OptionGroup("Changes to scripts")


def _parse_severity(context: Any, parameter: Any, word: str) -> str:
    severity = "info" if word == "note" else word
    if severity not in ("error", "warning", "info"):
        raise click.BadParameter(f"{word} is not error, warning or note.")
    return severity


@command("audit")
@argument("paths", "PATHS...")
@JSON
@OPTIONS.value(
    "--fail-on",
    "SEVERITY",
    "Exit with 1 on findings this severe or worse: error, warning or note.",
    default="error",
    show_default=True,
    callback=_parse_severity,
)
@_SELECTION.flag(
    "--certain", "Leave out findings that are only possible because they depend on other code."
)
@_CHANGES.flag("--diff", "Show the certain fixes as a diff, each with its reason; write nothing.")
@_CHANGES.flag("--fix", "Write what --diff shows; on a terminal, ask first.")
@_SELECTION.flag(
    "--summary", "Show the five kinds of findings that matter most, with an example of each."
)
def audit(
    paths: Tuple[str, ...],
    as_json: bool,
    fail_on: str,
    certain: bool,
    diff: bool,
    fix: bool,
    summary: bool,
) -> None:
    """Find options in scripts that have no effect, or not the expected one.

    PATHS are Python and shell scripts, notebooks, and folders. The scripts are only read, not run.
    Only --fix changes them: it corrects misspelt keys, the fields of switches, the optimizer's
    name and memory_optimization. To silence a rule on a line, end the line with
    `# ascend: ignore[RULE]`.

    Exit code: 1 if there are findings as severe as --fail-on or worse, or files that could not be
    read, otherwise 0.

    Examples:
        ascend-session audit train.py scripts
        ascend-session audit --fail-on warning --json .
    """
    report = _audit(paths, with_progress=not as_json)
    if diff or fix:
        with exit_on_error(as_json=as_json):
            _fix(report, only_show=diff)
        report = report if diff else _audit(paths, with_progress=not as_json)
    if certain:
        kept = tuple(finding for finding in report.findings if finding.certain)
        report = report._replace(findings=kept)
    if as_json:
        data = report.as_dict()
        if summary:
            del data["findings"]
            data["summary"] = [kind.as_dict() for kind in report.kinds()[:_MOST_KINDS]]
        show_json(data)
    elif summary:
        _show_summary(report)
    else:
        _show(report)
    raise Exit(1 if report.has(fail_on) or report.skipped else 0)


def _audit(paths: Sequence[str], with_progress: bool) -> "AuditReport":
    from ascend_session.audit.scripts import audit_paths

    with _progress_bar(with_progress and sys.stderr.isatty()) as advance:
        try:
            return audit_paths(paths, advance)
        except FileNotFoundError as error:
            message = f"there is no file or folder {error.args[0]}."
            raise click.BadParameter(message, param_hint="PATHS") from None


@contextlib.contextmanager
def _progress_bar(is_drawn: bool) -> Iterator[Optional[Callable[[int], None]]]:
    """Return a callback that draws the progress, or None."""
    if not is_drawn:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None, visible=False)

        def advance(total: int) -> None:
            progress.update(task, total=total, visible=True, advance=1)

        yield advance


def _fix(report: "AuditReport", only_show: bool) -> None:
    """Show what would be changed in the scripts, and change it; on a terminal it asks first."""
    from ascend_session.audit.report import place_of
    from ascend_session.files import write_file

    fixes = list(_list_fixes(report))
    for file, fixed in fixes:
        for change in fixed.changes:
            line = place_of(change).line
            click.echo(f"{file}:{line}: {change.message}  [{change.rule}]", err=True)
        before, after = fixed.before.splitlines(True), fixed.after.splitlines(True)
        for text in difflib.unified_diff(before, after, file, f"{file} (fixed)"):
            click.echo(text, nl=not text.endswith("\n"), err=True)
    if not fixes:
        complain("There are no certain fixes.")
    if only_show or not fixes:
        return
    changes = format_count(sum(len(fixed.changes) for _, fixed in fixes), "change")
    files = format_count(len(fixes), "file")
    question = f"Write {changes} to {files}?"
    if sys.stdin.isatty() and sys.stderr.isatty() and not click.confirm(question, err=True):
        return
    for file, fixed in fixes:
        write_file(file, fixed.after.encode("utf-8"), force=True)
    complain(f"{changes} written to {files}.")


def _list_fixes(report: "AuditReport") -> "Iterator[Tuple[str, FixedScript]]":
    from ascend_session.audit.fixes import fix_script
    from ascend_session.audit.report import place_of
    from ascend_session.audit.syntax import read_file

    certain = [finding for finding in report.findings if finding.certain]
    for file in dict.fromkeys(place_of(finding).file for finding in certain):
        with contextlib.suppress(AuditError):  # it has been changed since
            fixed = fix_script(file, read_file(file))
            if fixed is not None:
                yield file, fixed


_MOST_KINDS = 5


def _show_summary(report: "AuditReport") -> None:
    """Print the kinds of mistakes that matter most, with counts and the first example of each."""
    from ascend_session.audit.report import AUDIT_RULES

    kinds = report.kinds()
    for kind in kinds[:_MOST_KINDS]:
        count = f"{len(kind.findings):,} in {format_count(kind.files, 'file')}"
        click.echo(f"{kind.rule}, {count}: {AUDIT_RULES[kind.rule]}")
        show_finding(kind.findings[0], spelling=str)
    others = kinds[_MOST_KINDS:]
    if others:
        findings = format_count(sum(len(kind.findings) for kind in others), "finding")
        other_kinds = format_count(len(others), "other kind")
        click.echo(f"{findings} of {other_kinds}: leave out --summary to see all.")
    _show_totals(report)


def _show(report: "AuditReport") -> None:
    for finding in report.findings:
        named = finding._replace(message=f"{finding.message}  [{finding.rule}]")
        show_finding(named, indent="", spelling=str)
    _show_totals(report)


def _show_totals(report: "AuditReport") -> None:
    for file, why in report.skipped:
        click.echo(f"{file}: not read. {why}")
    counts = ", ".join(
        format_count(report.count(severity), noun)
        for severity, noun in (("error", "error"), ("warning", "warning"), ("info", "note"))
    )
    files = format_count(report.files, "file")
    click.echo(f"{files} read, {report.looked_at:,} with options for Ascend: {counts}.")
