"""Runs the rules: errors become one ConfigError, the rest AscendConfigWarnings."""

import contextlib
import sys
import warnings
from typing import Any, Iterable, List, Mapping, Sequence, Set, Type

from pydantic import BaseModel

from ascend_session.config.option import adapter_options
from ascend_session.config.rules import HOST_RULES, RULES, paths
from ascend_session.config.rules.rule import FlatOptions, RefusedOptionError, Rule
from ascend_session.errors import AscendConfigWarning, ConfigError
from ascend_session.findings import Finding, errors_of


def check(values: Mapping[str, Any]) -> None:
    """Run all rules on flat values.

    Raises:
        ConfigError: With every problem that refuses the configuration.

    Warns:
        AscendConfigWarning: For each other finding, at the caller's line.
    """
    report(findings(RULES, FlatOptions(values)))


def report_new(after: Mapping[str, Any], *before: Mapping[str, Any]) -> None:
    """Report what the rules find in ``after`` and not in any ``before`` already."""
    known = [each for values in before for each in findings(RULES, FlatOptions(values))]
    report([finding for finding in findings(RULES, FlatOptions(after)) if finding not in known])


def findings(rules: Iterable[Rule], entry: FlatOptions) -> List[Finding]:
    """Apply ``rules`` to ``entry``; each finding has the source of its rule."""
    results: List[Finding] = []
    for rule in rules:
        with contextlib.suppress(RefusedOptionError):
            for finding in rule.check(entry):
                results.append(finding._replace(source=rule.source))
    return results


def report(results: Sequence[Finding]) -> None:
    """Raise what refuses, or else warn of the rest."""
    refusals = errors_of(results)
    if refusals:
        raise ConfigError.of(refusals)
    for finding in results:
        warn(str(finding))


def warn(message: str) -> None:
    """Issue an AscendConfigWarning at the first line outside this package and pydantic."""
    inside = (__package__.split(".")[0] + ".", "pydantic.", "pydantic")
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, AscendConfigWarning, stacklevel=level)


def refusal(
    model: Type[BaseModel], problems: Sequence[Finding], values: Mapping[str, Any]
) -> ConfigError:
    """Make the error for wrong types or names, with what the rules find in the other values."""
    paths = [f"{problem.option}." for problem in problems]
    bad = {name for name in values if any(path.startswith(f"{name}.") for path in paths)}
    entry = _remaining(model, bad, values)
    return ConfigError.of([*problems, *errors_of(findings(RULES, entry))])


def _remaining(model: Type[BaseModel], bad: Set[str], values: Mapping[str, Any]) -> FlatOptions:
    """Give what is left without the ``bad`` options, which the rules must not ask for."""
    from ascend_session.config.options import AdapterOptions
    from ascend_session.config.parameter_map import flatten

    unreadable = {o.key for o in adapter_options(model) if o.path.split(".")[0] in bad}
    rest = {name: value for name, value in values.items() if name not in bad}
    return FlatOptions(flatten(AdapterOptions(**rest)), unreadable)


def check_host(config: Any, environ: Mapping[str, str]) -> None:
    """Check whether ``config`` can work on this machine; see `AscendConfig.check_host`."""
    if not isinstance(environ, Mapping):
        raise TypeError(f"environ is a mapping such as os.environ, not {environ!r}.")
    report(findings(HOST_RULES, FlatOptions(config.values(), environ=environ)))


def check_opening(values: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Do `check_host` for flat values, and check that every file which they point to is there now.

    Raises:
        ConfigError: With all problems at once.
    """
    rules = [rule for rule in HOST_RULES if rule.check is not paths.files_that_ge_reads]
    report(findings(rules + paths.OPENING_RULES, FlatOptions(values, environ=environ)))
