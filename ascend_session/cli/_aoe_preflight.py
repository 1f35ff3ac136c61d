"""How the conditions of a tuning run are measured and drawn."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Tuple

import typer

from ascend_session.aoe.conditions import FAILS, TuningCondition, format_value
from ascend_session.aoe.plan import ADVICE, AoePlan
from ascend_session.cli._flags import with_flags
from ascend_session.cli._output import draw, is_terminal, show_table, table
from ascend_session.findings import NOT_CHECKED, OK

if TYPE_CHECKING:
    from ascend_session.config.ascend_config import AscendConfig
    from ascend_session.config.files import FileReport

__all__ = ["lines", "measured", "read_config", "show"]

# The worst comes last, for that is what stands on the screen then.
_ORDER = (OK, NOT_CHECKED, FAILS)
_STYLES: Dict[str, str] = {OK: "green", NOT_CHECKED: "yellow", FAILS: "bold red"}
_HEADERS = ("CONDITION", "VERDICT", "MEASURED", "NEEDED")
_KNOWN = (
    "processes",
    "training_memory",
    "tuning_parallel_num",
    "device_cores",
    "operator_cores",
    "device_memory",
    "static_operators",
)


def read_config(
    file: Optional[str], hint: str = "CONFIG"
) -> "Tuple[Optional[AscendConfig], Optional[TuningCondition]]":
    """The configuration of a file, and what refuses it, as a condition that fails; None for none.

    Raises:
        typer.BadParameter: If there is no such file.
    """
    if file is None:
        return None, None
    from ascend_session.config.files import report_file

    if not os.path.exists(file):
        raise typer.BadParameter(f"there is no file {file}.", param_hint=hint)
    report = report_file(file)
    return report.config, _refusal(report)


def measured(
    config: "Optional[AscendConfig]",
    refused: Optional[TuningCondition],
    asked: Mapping[str, Any],
    environ: Mapping[str, str],
) -> AoePlan:
    """Measures the conditions of a tuning run.

    Args:
        config: What `read_config` has read, and
        refused: what it says of it.
        asked: The options of the command, by the names of `KnownFacts`; and ``mode``.
        environ: The environment of the run.

    Raises:
        ConfigError: As from `AoePlan.measure`.
    """
    known = {name: asked[name] for name in _KNOWN if asked[name] is not None}
    plan = AoePlan.measure(config, asked["mode"], environ, **known)
    if refused is None:
        return plan
    # It was given, so that it is not to be asked for.
    hint = "Mend the configuration first."
    told = [
        one._replace(hint=hint, asks=()) if "config" in one.asks else one for one in plan.conditions
    ]
    return dataclasses.replace(plan, conditions=(*told, refused))


def show(plan: AoePlan) -> None:
    """Prints the conditions, what to do about those that are not fulfilled, and a verdict."""
    found = [one for verdict in _ORDER for one in plan.of(verdict)]
    rows = [_row(one) for one in found]
    typer.echo(f"{plan.mode} tuning\n")
    if is_terminal():
        from rich.text import Text

        coloured = [
            [Text(row[0]), Text(row[1], style=_STYLES[row[1]]), *map(Text, row[2:])] for row in rows
        ]
        draw(table(_HEADERS, coloured), Text("\n".join(lines(plan))))
    else:
        show_table(_HEADERS, rows)
        typer.echo("\n".join(lines(plan)))


def lines(plan: AoePlan) -> Iterator[str]:
    """What is not fulfilled and what to do about it, the worst last, advice, and a verdict."""
    for verdict in (NOT_CHECKED, FAILS):
        for one in plan.of(verdict):
            yield f"\n{one.name}, {verdict}: {with_flags(one.message)}"
            if one.hint:
                yield f"  > {with_flags(one.hint)}"
    yield "\nWhat nobody can measure:"
    for advice in ADVICE:
        yield f"  {advice}"
    counts = ", ".join(
        f"{len(plan.of(verdict))} {_many(verdict, len(plan.of(verdict)))}" for verdict in _ORDER
    )
    yield f"\n{len(plan.conditions)} conditions: {counts}."


def _many(verdict: str, count: int) -> str:
    return "fail" if verdict == FAILS and count != 1 else verdict


def _row(one: TuningCondition) -> Tuple[str, str, str, str]:
    return (
        one.name,
        one.verdict,
        format_value(one.measured, one.unit),
        format_value(one.needed, one.unit),
    )


def _refusal(report: "FileReport") -> Optional[TuningCondition]:
    """What refuses the configuration file; None if nothing does."""
    if report.ok:
        return None
    said = " ".join(f"{report.place_of(one)}: {one.message}" for one in report.problems)
    todo = " ".join(one.hint for one in report.problems if one.hint) or None
    number = len(report.problems)
    return TuningCondition("configuration", FAILS, f"{number} wrong", "valid", said, todo)
