"""The rules, by theme: `RULES` between options, `HOST_RULES` between options and this host.

Each rule is one function that reads the flat entry and yields findings. It is an error if the
adapter aborts on a value, refuses it or silently changes it. It is a warning if the manual allows
the value, if it has no effect, or if it is deprecated. `validate` raises one ConfigError with all
errors, and issues an AscendConfigWarning for each other finding.
"""

from typing import Any, List, Mapping, Sequence, Type

from ascend_session.config.entry import flatten
from ascend_session.config.option import adapter_options, options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules import accuracy, dynamic, execution, paths, variables
from ascend_session.config.rules.rule import (
    FlatOptions,
    Rule,
    RuleBook,
    RuleFindings,
    apply_rules,
    no_effect,
    source,
    warning,
)
from ascend_session.errors import ConfigError, warn
from ascend_session.findings import Finding, errors_of

DEPRECATIONS = RuleBook()


@DEPRECATIONS.add()
@source("guides/facts/former.md#former-releases; manual, NPURunConfig Options")
def deprecated_options(entry: FlatOptions) -> RuleFindings:
    """Warn of deprecated options and name what replaces them."""
    options = options_by_key(AdapterOptions)
    for key in entry:
        option = options.get(key)
        if option is None or not option.deprecated:
            continue
        if key == "enable_data_pre_proc" and entry.get("iterations_per_loop", 1) > 1:
            continue  # loops need it, as another rule says
        if option.is_unread:
            yield no_effect(
                f"{key} is deprecated and no longer has any effect.", option=option.path
            )
        else:
            use = f"Use {option.replacement}." if option.replacement else None
            yield warning(f"{key} is deprecated by the vendor's manual.", use, option=option.path)


RULES: List[Rule] = [*accuracy.RULES, *dynamic.RULES, *execution.RULES, *DEPRECATIONS]

HOST_RULES: List[Rule] = [*paths.RULES, *variables.RULES]

RULES_OF_OPENING: List[Rule] = [
    *(rule for rule in HOST_RULES if rule.check is not paths.files_that_ge_reads),
    *paths.OPENING_RULES,
]
"""The host rules when a system opens: files must exist by then."""


def validate(values: Mapping[str, Any], *earlier: Mapping[str, Any]) -> None:
    """Apply all rules to flat values.

    Args:
        values: ``{vendor key: value}``.
        earlier: Other such values; findings about them are not repeated.

    Raises:
        ConfigError: With every problem that refuses the configuration.

    Warns:
        AscendConfigWarning: For each other finding, at the caller's line.
    """
    reported = [finding for other in earlier for finding in apply_rules(RULES, FlatOptions(other))]
    findings = apply_rules(RULES, FlatOptions(values))
    _report([finding for finding in findings if finding not in reported])


def validate_host(values: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Check whether a configuration can work on this machine; see `AscendConfig.check_host`."""
    if not isinstance(environ, Mapping):
        raise TypeError(f"environ is a mapping such as os.environ, not {environ!r}.")
    _report(apply_rules(HOST_RULES, FlatOptions(values, environ=environ)))


def validate_opening(
    values: Mapping[str, Any], environ: Mapping[str, str], *, with_hccl: bool = True
) -> None:
    """Run `validate_host`, and check that every file named by an option exists.

    Args:
        values: ``{vendor key: value}``.
        environ: The environment of this process.
        with_hccl: Whether HCCL will read its variables.

    Raises:
        ConfigError: With all problems at once.
    """
    skipped = () if with_hccl else (variables.variables_of_hccl,)
    rules = [rule for rule in RULES_OF_OPENING if rule.check not in skipped]
    _report(apply_rules(rules, FlatOptions(values, environ=environ)))


def refusal_of(
    model: Type[Any], problems: Sequence[Finding], values: Mapping[str, Any]
) -> ConfigError:
    """Return the error for wrong types or names, with rule findings about the other values."""
    options = [f"{problem.option}." for problem in problems]
    wrong = {name for name in values if any(each.startswith(f"{name}.") for each in options)}
    readable = {name: value for name, value in values.items() if name not in wrong}
    refused = {o.key for o in adapter_options(model) if o.path in wrong}
    unknown = {o.key for o in adapter_options(model) if o.path.split(".")[0] in wrong} - refused
    is_empty = {name for name, value in values.items() if isinstance(value, str) and not value}
    empty = {o.key: "" for o in adapter_options(model) if o.path in is_empty}
    entry = FlatOptions({**empty, **flatten(AdapterOptions(**readable))}, refused, unknown)
    return ConfigError.from_problems([*problems, *errors_of(apply_rules(RULES, entry))])


def _report(findings: List[Finding]) -> None:
    errors = errors_of(findings)
    if errors:
        raise ConfigError.from_problems(errors)
    for finding in findings:
        warn(str(finding))
