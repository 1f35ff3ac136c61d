"""How the report of ``doctor`` is drawn: what is here, what was found, worst last; a verdict."""

from typing import TYPE_CHECKING, Dict, List

import typer

from ascend_session.cli._flags import with_flags
from ascend_session.cli._output import draw, is_terminal, show_facts
from ascend_session.findings import ERROR, INFO, NOT_CHECKED, OK, SEVERITIES, WARNING, Finding

if TYPE_CHECKING:
    from rich.table import Table

    from ascend_session.cli._doctor import Examination

__all__ = ["show"]

_STYLES: Dict[str, str] = {OK: "green", WARNING: "yellow", ERROR: "bold red"}


def show(report: "Examination") -> None:
    """Prints the report."""
    show_facts([*report.facts, ("a job here", f"runs on the {report.backend}: {report.reason}")])
    typer.echo()
    # The worst comes last, for that is what stands on the screen then.
    found = [finding for severity in reversed(SEVERITIES) for finding in report.of(severity)]
    if is_terminal():
        draw(_drawn(found))
    else:
        typer.echo("\n".join(_lines(found)))
    typer.echo(f"\n{_verdict(report)}")


def _drawn(found: List[Finding]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for finding in found:
        said = Text(with_flags(finding.message))
        if finding.hint:
            said.append(f"\n> {with_flags(finding.hint)}", style="dim")
        label = Text(finding.severity, style=_STYLES.get(finding.severity, ""))
        made.add_row(label, finding.rule, said)
    return made


def _lines(found: List[Finding]) -> List[str]:
    """One line a finding, and one for what to do, whatever line ends are in them."""
    severities = max(len(finding.severity) for finding in found)
    checks = max(len(finding.rule) for finding in found)
    indent = " " * (severities + checks + 4)
    lines = []
    for finding in found:
        first = f"{finding.severity:<{severities}}  {finding.rule:<{checks}}  "
        lines.append(first + with_flags(finding.message).replace("\n", f"\n{indent}"))
        if finding.hint:
            lines.append(f"{indent}> {with_flags(finding.hint)}")
    return lines


def _verdict(report: "Examination") -> str:
    wrong, odd, unknown = (len(report.of(one)) for one in (ERROR, WARNING, NOT_CHECKED))
    looked = len(report.findings) - len(report.of(INFO))
    if not wrong and not odd and not unknown:
        return f"{looked} things were looked at, and nothing was found against them."
    counts = f"{_many(wrong, 'error')}, {_many(odd, 'warning')}, {unknown} not checked"
    return f"{looked} things were looked at: {counts}."


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
