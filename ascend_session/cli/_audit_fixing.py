"""``ascend-session audit --fix``: the diff of each script first, then the script."""

import contextlib
import difflib
import sys
from typing import TYPE_CHECKING, Iterator, Tuple

import typer

from ascend_session.cli._output import complain
from ascend_session.errors import AuditError, ConfigError

if TYPE_CHECKING:
    from ascend_session.audit.fixes import FixedScript
    from ascend_session.audit.report import AuditReport

__all__ = ["fix"]


def fix(report: "AuditReport") -> None:
    """Shows what would be changed in the scripts of ``report``, and changes it.

    On a terminal it asks first.

    Raises:
        typer.Exit: With 1, if a script cannot be written.
    """
    changes = list(_changes(report))
    for file, fixed in changes:
        typer.echo(_diff(file, fixed), nl=False, err=True)
    if not changes:
        complain("There is nothing to fix that is certain.")
        return
    count = sum(fixed.changes for _, fixed in changes)
    files = f"{len(changes):,} file{'' if len(changes) == 1 else 's'}"
    asked = f"Write {count:,} change{'' if count == 1 else 's'} to {files}?"
    if sys.stdin.isatty() and sys.stderr.isatty() and not typer.confirm(asked, err=True):
        return
    for file, fixed in changes:
        _write(file, fixed)
    complain(f"{count:,} change{'' if count == 1 else 's'} written to {files}.")


def _changes(report: "AuditReport") -> "Iterator[Tuple[str, FixedScript]]":
    from ascend_session.audit.fixes import fix_script
    from ascend_session.audit.report import place_of
    from ascend_session.audit.source import read_file

    certain = [finding for finding in report.findings if finding.certain]
    for file in dict.fromkeys(place_of(finding).file for finding in certain):
        with contextlib.suppress(AuditError):  # it has been changed since
            fixed = fix_script(file, read_file(file))
            if fixed is not None:
                yield file, fixed


def _diff(file: str, fixed: "FixedScript") -> str:
    before, after = fixed.before.splitlines(True), fixed.after.splitlines(True)
    lines = difflib.unified_diff(before, after, file, f"{file} (fixed)")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _write(file: str, fixed: "FixedScript") -> None:
    from ascend_session.option_files.source import Kind, write_content

    try:
        write_content(file, fixed.after.encode("utf-8"), Kind("a script"), force=True)
    except ConfigError as error:
        complain(error.message, error.hint)
        raise typer.Exit(1) from None
