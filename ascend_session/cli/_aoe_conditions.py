"""How the conditions of a tuning run are measured and drawn."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import typer

from ascend_session.aoe.conditions import ELSEWHERE, FAILS, TuningCondition, format_value
from ascend_session.aoe.plan import ADVICE, AoePlan
from ascend_session.cli._output import (
    draw,
    is_terminal,
    make_table,
    show_table,
    spell_options,
)
from ascend_session.findings import NOT_CHECKED, OK

if TYPE_CHECKING:
    from ascend_session.config.ascend_config import AscendConfig

# The worst comes last, for that is what stands on the screen then.
_ORDER = (OK, NOT_CHECKED, FAILS)
_STYLES: Dict[str, str] = {OK: "green", NOT_CHECKED: "yellow", FAILS: "bold red"}
_LABELS = {"devices": "job size"}  # on the screen: what is measured are processes
# What a person can correct on any machine, with a device or without.
_IN_CONFIGURATION = (
    "aoe_config_file",
    "configuration",
    "mode",
    "operators",
    "options",
    "profiling",
    "static memory",
    "work_path",
)
_HEADERS = ("CONDITION", "VERDICT", "MEASURED", "NEEDED")
_KNOWN_FACTS = (
    "processes",
    "training_memory",
    "tuning_parallel_num",
    "device_cores",
    "operator_cores",
    "device_memory",
    "static_operators",
)


def read_config(
    file: Optional[str], param_hint: str = "CONFIG"
) -> "Tuple[Optional[AscendConfig], Optional[TuningCondition]]":
    """Read a configuration, and what refuses it, as a condition that fails; None for none.

    Raises:
        typer.BadParameter: If there is no such file.
    """
    if file is None:
        return None, None
    from ascend_session.config.files import report_file

    if not os.path.exists(file):
        raise typer.BadParameter(f"there is no file {file}.", param_hint=param_hint)
    report = report_file(file)
    if report.ok:
        return report.config, None
    messages = [f"{report.place_of(problem)}: {problem.message}" for problem in report.problems]
    hints = [problem.hint for problem in report.problems if problem.hint]
    count = f"{len(messages)} wrong"
    hint = " ".join(hints) or None
    return report.config, TuningCondition(
        "configuration", FAILS, count, "valid", " ".join(messages), hint
    )


def measure_conditions(
    config: "Optional[AscendConfig]",
    refusal: Optional[TuningCondition],
    mode: Optional[str],
    known: Mapping[str, Any],
    environ: Mapping[str, str],
) -> AoePlan:
    """Measure the conditions of a tuning run.

    Args:
        config: The configuration of `read_config`.
        refusal: What refuses it.
        mode: What is to be tuned.
        known: Options by name, among them those of `KnownFacts`.
        environ: The environment of the run.

    Raises:
        ConfigError: As from `AoePlan.measure`.
    """
    facts = {name: known[name] for name in _KNOWN_FACTS if known[name] is not None}
    plan = AoePlan.measure(config, mode, environ, **facts)
    if refusal is None:
        return plan
    # It was given, so that it is not to be asked for.
    hint = "Correct the configuration first."
    conditions = [
        condition._replace(hint=hint, asks=()) if "config" in condition.asks else condition
        for condition in plan.conditions
    ]
    return dataclasses.replace(plan, conditions=(*conditions, refusal))


def show_conditions(plan: AoePlan) -> None:
    """Print the conditions, what to do about those that are not fulfilled, and a verdict.

    Without a device a table would tell nothing: then only what has to be corrected is printed.
    """
    if not plan.has_device:
        _show_without_device(plan)
        return
    rows = [
        (
            _LABELS.get(condition.name, condition.name),
            condition.verdict,
            format_value(condition.measured, condition.unit),
            format_value(condition.needed, condition.unit),
        )
        for verdict in _ORDER
        for condition in plan.of(verdict)
    ]
    lines = [*_describe(plan.of(NOT_CHECKED)), *_describe(plan.of(FAILS)), "\nBefore you tune:"]
    lines += [f"  {advice}" for advice in ADVICE]
    counts = [f"{len(plan.of(verdict))} {verdict}" for verdict in (OK, NOT_CHECKED)]
    count = len(plan.of(FAILS))
    counts.append(f"{count} {'fails' if count == 1 else 'fail'}")
    lines.append(f"\n{len(plan.conditions)} conditions: {', '.join(counts)}.")
    typer.echo(f"{plan.mode} tuning\n")
    if is_terminal():
        from rich.text import Text

        cells = [
            [Text(name), Text(verdict, style=_STYLES[verdict]), Text(measured), Text(needed)]
            for name, verdict, measured, needed in rows
        ]
        draw(make_table(_HEADERS, cells), Text("\n".join(lines)))
    else:
        show_table(_HEADERS, rows)
        typer.echo("\n".join(lines))


def _show_without_device(plan: AoePlan) -> None:
    """Say that there is no device, and which conditions fail besides."""
    failing = plan.of(FAILS)
    others = [condition.name for condition in failing if condition.name not in _IN_CONFIGURATION]
    lines = [f"{plan.mode} tuning needs an Ascend device, and this machine has none."]
    if others:
        lines.append(f"Other conditions that fail on this machine: {', '.join(others)}.")
    lines.append(f"  hint: {ELSEWHERE}")
    lines += _describe(condition for condition in failing if condition.name in _IN_CONFIGURATION)
    if is_terminal():
        draw("\n".join(lines))
    else:
        typer.echo("\n".join(lines))


def _describe(conditions: Iterable[TuningCondition]) -> Iterator[str]:
    """Say what is not fulfilled; conditions with the same hint stand together above it."""
    by_hint: Dict[str, List[TuningCondition]] = {}
    for condition in conditions:
        by_hint.setdefault(condition.hint or "", []).append(condition)
    for hint, alike in by_hint.items():
        yield ""
        for condition in alike:
            yield f"{condition.name}, {condition.verdict}: {spell_options(condition.message)}"
        if hint:
            yield f"  hint: {spell_options(hint)}"
