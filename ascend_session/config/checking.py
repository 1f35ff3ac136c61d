"""Runs the rules: errors become one ConfigError, the rest AscendConfigWarnings."""

import contextlib
import sys
import warnings
from typing import Any, Iterable, List, Mapping, Sequence, Set, Type

from pydantic import BaseModel

from ascend_session.config.entry import Entry, UnreadableError
from ascend_session.config.option import adapter_options
from ascend_session.config.rules._rule import Finding, Rule
from ascend_session.errors import AscendConfigWarning, ConfigError, Problem

__all__ = ["check", "findings", "refusal", "report", "report_new", "warn"]


def check(values: Mapping[str, Any]) -> None:
    """Runs all rules on flat values.

    Raises:
        ConfigError: With every problem that refuses the configuration.

    Warns:
        AscendConfigWarning: For each other finding, at the caller's line.
    """
    from ascend_session.config.rules import RULES  # first config pays, the import does not

    report(findings(RULES, Entry(values)))


def report_new(after: Mapping[str, Any], *before: Mapping[str, Any]) -> None:
    """Reports what the rules find in ``after`` and have not said of any ``before`` already."""
    from ascend_session.config.rules import RULES

    said = [finding for values in before for finding in findings(RULES, Entry(values))]
    report([finding for finding in findings(RULES, Entry(after)) if finding not in said])


def findings(rules: Iterable[Rule], entry: Entry) -> List[Finding]:
    """What ``rules`` find in ``entry``, each problem with the source of its rule."""
    found: List[Finding] = []
    for rule in rules:
        with contextlib.suppress(UnreadableError):
            for one in rule.check(entry):
                found.append(one._replace(problem=one.problem._replace(source=rule.source)))
    return found


def report(found: Sequence[Finding]) -> None:
    """Raises what refuses, or else warns of the rest."""
    refusals = [finding.problem for finding in found if finding.refuses]
    if refusals:
        raise ConfigError.of(refusals)
    for finding in found:
        warn(str(finding.problem))


def warn(message: str) -> None:
    """Issues an AscendConfigWarning at the first line outside this package and pydantic."""
    inside = (__package__.split(".")[0] + ".", "pydantic.", "pydantic")
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, AscendConfigWarning, stacklevel=level)


def refusal(
    model: Type[BaseModel], problems: Sequence[Problem], values: Mapping[str, Any]
) -> ConfigError:
    """The error for wrong types or names, with what the rules say of the remaining values."""
    from ascend_session.config.rules import RULES

    said = [problem.option for problem in problems]
    bad = {name for name in values if any(f"{option}.".startswith(f"{name}.") for option in said)}
    entry = _remaining(model, bad, values)
    more = [finding.problem for finding in findings(RULES, entry) if finding.refuses]
    return ConfigError.of(list(problems) + more)


def _remaining(model: Type[BaseModel], bad: Set[str], values: Mapping[str, Any]) -> Entry:
    """What is left without the ``bad`` options, which the rules must not ask for."""
    from ascend_session.config.options import AdapterOptions
    from ascend_session.config.parameter_map import flatten

    unreadable = {o.key for o in adapter_options(model) if o.path.split(".")[0] in bad}
    rest = {name: value for name, value in values.items() if name not in bad}
    return Entry(flatten(AdapterOptions(**rest)), unreadable)
