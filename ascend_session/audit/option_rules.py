"""Check a script's options against their definitions and the rules between them.

The options stand in NpuOptimizer entries, or are arguments of NPURunConfig and its parts.

A run of the script passes some arms of its ``if`` statements. For each arm in which options of an
entry are set, the rules run on what is surely set there, and on that with what may be set besides.
What is found both times is certain; what is found once depends on the way the script takes.
"""

import ast
import contextlib
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    Type,
)

from ascend_session.audit.objects import (
    UNKNOWN,
    Assignment,
    EnvironmentText,
    Known,
    OneOf,
    OptimizerEntry,
    RunConfigCall,
    extend_branch,
    implied,
)
from ascend_session.audit.syntax import SyntaxTree, is_vendor_module
from ascend_session.config.ascend_config import AscendConfig, find_ruined_options
from ascend_session.config.ends import RUN_CONFIG, ends_run
from ascend_session.config.entry import ZERO, check_value, read_in_turn, wrong_field
from ascend_session.config.grammars.profiling_options import profiling_members
from ascend_session.config.names import OBSOLETE, REFUSED_BY_GE, unknown_key, unknown_name
from ascend_session.config.option import (
    Option,
    adapter_options,
    keys_by_name,
    option_fields,
    options_by_key,
    options_of,
)
from ascend_session.config.options import AdapterOptions
from ascend_session.config.reference import describe_types
from ascend_session.config.rules import DEPRECATIONS, RULES
from ascend_session.config.rules.accuracy import exception_dump_beside_dump
from ascend_session.config.rules.execution import characters_of_paths
from ascend_session.config.rules.rule import FlatOptions, Rule, apply_rules
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, INFO, WARNING, Finding, Place


def option_of_key(key: str) -> Optional[Option]:
    """Return the option behind a key of the entry; None if no adapter reads the key."""
    option = options_by_key(AscendConfig).get(key)
    return option if option is not None and option.field is not None else None


# Of each field: the types that protobuf takes, in words too, and how the option's value is read.
_FIELDS: Dict[str, Any] = {
    "s": ((bytes,), "bytes are", lambda text: text.decode(errors="replace")),
    "i": ((int,), "an int is", int),
    "b": ((int, float), "True or False is", bool),
}

_TYPE_ERROR = "Python raises a TypeError."


def check_assigned(
    option: Option, value: Any, beside: Mapping[str, Any], is_python_2: bool = False
) -> Tuple[Any, List[Finding]]:
    """Check what is assigned to the right field of an option.

    Args:
        option: The option.
        value: The value, as far as it is known.
        beside: The known values of other options of the entry, by key.
        is_python_2: Whether text is bytes in this script.

    Returns:
        The option's value, None if it is not known or wrong; and the findings about it.
    """
    if isinstance(value, EnvironmentText):
        return None, [_variable_without_default(option.key, value.name)]
    if isinstance(value, OneOf):
        results = [check_assigned(option, one, beside, is_python_2)[1] for one in value.values]
        wrong = [findings for findings in results if findings]
        are_all = len(wrong) == len(results)
        is_certain = are_all and all(each.certain for findings in wrong for each in findings)
        return None, [each._replace(certain=is_certain) for each in wrong[0]] if wrong else []
    if not isinstance(value, Known):
        return None, []
    field = option.field or ""
    given: Any = value.value
    if is_python_2 and field == "s" and isinstance(given, str):
        given = given.encode()
    types, needed, read_value = _FIELDS[field]
    if not isinstance(given, types):
        kind = "None" if given is None else f"a value of type {type(given).__name__}"
        message = f"{option.key}: {needed} needed, this is {kind}; {_TYPE_ERROR}"
        hint = "Write tf.compat.as_bytes(...) around it." if field == "s" else None
        return None, [Finding(ERROR, message, hint, "field-type")]
    read = read_value(given)
    problems = check_value(option.key, read)
    if not problems:
        return read, []
    if option.is_unread:
        return None, []
    [view] = read_in_turn([{**beside, option.key: read}])
    is_certain = ends_run(option.ends, view, option.key)
    if read == "" and not is_certain:
        return None, []  # which counts as not given
    return None, [each._replace(rule="value-not-allowed", certain=is_certain) for each in problems]


def _variable_without_default(key: str, variable: str) -> Finding:
    return Finding(
        WARNING,
        f"{key} is the value of {variable}; where that is not set, os.getenv returns None and "
        f"{_TYPE_ERROR}",
        f'Give a default, as in os.getenv("{variable}", "..."), or leave the option out then.',
        "variable-without-default",
    )


def _read_setting(setting: Assignment) -> Tuple[str, Any]:
    """Return key and value of an option as the adapter reads it; None if that is not known."""
    option, value = option_of_key(setting.key), setting.value
    types, _, read_value = _FIELDS.get(setting.field, ((), "", None))
    has_type = isinstance(value, Known) and isinstance(value.value, types)
    if option is not None and setting.field != option.field:
        return setting.key, ZERO[option.field or ""]
    if option is None or not has_type:
        return setting.key, None
    return setting.key, read_value(value.value)


def settled_values(entry: OptimizerEntry) -> Dict[str, Any]:
    """Return the known values of an entry that hold in each run of the script."""
    read = {each.key: (None if each.branch else _read_setting(each)[1]) for each in entry.settings}
    return {key: value for key, value in read.items() if value is not None}


def check_setting(
    setting: Assignment, beside: Mapping[str, Any], is_python_2: bool
) -> List[Finding]:
    """Report what is wrong with one option of an entry.

    Args:
        setting: Where it is set.
        beside: The values that the entry has in each run, by key.
        is_python_2: Whether text is bytes in this script.
    """
    key, place = setting.key, setting.place
    option = option_of_key(key)
    if option is None:
        rule = "value-not-allowed" if key in REFUSED_BY_GE else "unknown-key"
        findings = [unknown_key(key, AdapterOptions)._replace(rule=rule)]
        if setting.field == "s" and isinstance(setting.value, EnvironmentText):
            findings.append(_variable_without_default(key, setting.value.name))
    elif setting.field != option.field:
        given = setting.value.value if isinstance(setting.value, Known) else None
        given = given.decode(errors="replace") if isinstance(given, bytes) else given
        problem = wrong_field(key, setting.field, option.field or "", given)
        findings = [*_check_status(option), problem._replace(rule="wrong-field")]
    else:
        value, findings = check_assigned(option, setting.value, beside, is_python_2)
        findings = [*_check_status(option), *findings, *_check_path(option, value)]
    return [finding._replace(place=place) for finding in findings]


# They are there on every machine.
_COMMON = ("/tmp", "/dev", "/proc", "/var/tmp")


def _check_path(option: Option, value: Any) -> Iterator[Finding]:
    """Report a path of the machine that the script was written on."""
    if not isinstance(value, str):
        return
    name, path = option.key, value
    if name == "profiling_options":
        with contextlib.suppress(ValueError):
            name, path = "profiling_options, output", profiling_members(value).get("output", "")
    elif describe_types(option.type).split(" or ")[0] != "path":
        return
    is_absolute = path.startswith("/") or (path[1:3] in (":/", ":\\") and path[0].isalpha())
    if is_absolute and not path.startswith(_COMMON):
        message = f"{name}={path!r} is a path of one machine; it does not exist on others."
        hint = "Take it from an argument or a variable, or write it relative to the script."
        yield Finding(INFO, message, hint, "machine-path")


_STATUS_HINTS = {
    "unread-option": "Leave it out.",
    "deprecated-option": "The adapter still reads it, and the manual names no replacement.",
}


def _check_status(option: Option) -> Iterator[Finding]:
    """Report that an option is deprecated, or that nothing reads it, whatever its value."""
    rule, severity = ("unread-option", WARNING) if option.is_unread else ("deprecated-option", INFO)
    for remark in apply_rules(DEPRECATIONS, FlatOptions({option.key: None})):
        hint = remark.hint or _STATUS_HINTS[rule]
        yield Finding(severity, remark.message, hint, rule, option.key)


# Rules about effects that depend on the graph, or on the release.
_DEPENDING = (exception_dump_beside_dump, characters_of_paths)

Identity = Tuple[Any, ...]
"""The same for the same finding among other options, whose values its message may name."""


def find_rule_violations(
    options: FlatOptions,
    values: Mapping[str, Any],
    places: Mapping[str, Place],
    otherwise: Place,
    in_run_config: bool = False,
) -> Iterator[Tuple[Identity, Finding]]:
    """Run the configuration's rules on options by key.

    Args:
        options: The options by key.
        values: The values that the adapter reads, wrong ones too.
        places: The place of each option.
        otherwise: The place of findings about no option with a place.
        in_run_config: Whether they are arguments of NPURunConfig.
    """
    [view] = read_in_turn([values])
    for rule in RULES:
        for remark in rule.findings(options) if rule not in DEPRECATIONS else ():
            key = _key_of(remark.option or "", rule, options)
            name, severity = "option-without-effect", WARNING
            if remark.severity == ERROR:
                name, severity = "option-conflict", ERROR
            place = places.get(key or "", otherwise)
            is_certain = rule.check not in _DEPENDING
            if severity == ERROR:
                is_certain = ends_run(rule.ends, view, in_run_config=in_run_config)
            finding = Finding(
                severity, remark.message, remark.hint, name, key, place, certain=is_certain
            )
            yield (rule.check, key, name), finding


def _key_of(option: str, rule: Rule, options: Iterable[str]) -> Optional[str]:
    """Return the key that a finding about ``option`` (a name, path or key) is shown at."""
    candidates = (keys_by_name(AdapterOptions).get(option), *rule.keys)
    keys = list(options)
    return next((key for key in candidates if key in keys), None)


_MOST_BRANCHES = 24


def check_options_together(entry: OptimizerEntry) -> Iterator[Finding]:
    """Report the violations of rules between the options of one entry."""
    settings = [each for each in entry.settings if option_of_key(each.key) is not None]
    branches = list(dict.fromkeys([entry.branch, *(each.branch for each in settings)]))
    for branch in branches[:_MOST_BRANCHES]:
        surely = [each for each in settings if implied(each.branch, branch)]
        arms = dict(branch)
        together = [each for each in settings if extend_branch(arms, each.branch)]
        maybe = [each for each in together if not implied(each.branch, branch)]
        sure, possible = _apply_rules_to(entry, surely), _apply_rules_to(entry, maybe + surely)
        is_open = entry.shared or entry.opaque
        for identity, finding in {**possible, **sure}.items():
            in_both = identity in sure and identity in possible
            place = possible.get(identity, finding).place
            is_certain = finding.certain and in_both and not is_open
            yield finding._replace(place=place, certain=is_certain)


def _apply_rules_to(entry: OptimizerEntry, settings: List[Assignment]) -> Dict[Identity, Finding]:
    last = {each.key: each for each in settings}  # which is the one that counts
    places = {key: each.place for key, each in last.items()}
    values: Dict[str, Any] = {}
    for key, each in last.items():
        option = option_of_key(key)
        if option is not None and option.field == each.field:
            values[key] = check_assigned(option, each.value, {})[0]
    valid = {key: value for key, value in values.items() if value is not None}
    # An option in a wrong field is reported as such, and still counts as present.
    read = {key: value for key, value in map(_read_setting, last.values()) if value is not None}
    empty = {key: value for key, value in read.items() if value == ""}
    options = FlatOptions({**empty, **valid}, refused=set(last) - set(valid))
    return {
        identity: finding
        for identity, finding in find_rule_violations(options, read, places, entry.place)
        # Empty text counts as not given, but for what looks whether the key is there.
        if finding.severity == ERROR or read.get(finding.option or "") != ""
    }


PART_MODELS: Dict[str, Type[Any]] = {
    part.__name__: part
    for part in (option.type.part for option in option_fields(AdapterOptions))
    if part is not None
}
"""The parts of NPURunConfig, under the vendor's names."""

POSITIONAL: Dict[str, List[str]] = {
    "NPURunConfig": ["iterations_per_loop", "profiling_config", "model_dir"],
    **{name: list(options_of(model)) for name, model in PART_MODELS.items()},
}
"""The first arguments of each class, in their order (npu_config.py)."""


def find_vendor_classes(tree: SyntaxTree) -> Set[str]:
    """Find the classes of `POSITIONAL` that mean the vendor's in this script.

    The name NPURunConfig is unique. Other packages have classes named like the others, so those
    count only where they, or all names, are imported from the vendor's package.
    """
    vendors: Set[str] = set()
    others: Set[str] = {node.name for node in tree.nodes(ast.ClassDef)}
    for node in tree.nodes(ast.ImportFrom):
        names = {alias.asname or alias.name for alias in node.names}
        if is_vendor_module(node.module or ""):
            vendors |= set(POSITIONAL) if names & {"*", "npu_config"} else names
        else:
            others |= names
    for node in tree.nodes(ast.Import):
        if any(is_vendor_module(alias.name) for alias in node.names):
            vendors |= set(POSITIONAL)
    others -= {"NPURunConfig"} & vendors
    return ({"NPURunConfig"} | (vendors & set(POSITIONAL))) - others


def check_arguments(call: RunConfigCall) -> Iterator[Finding]:
    """Report what is wrong with single arguments of one call."""
    model: Type[Any] = PART_MODELS.get(call.name, AdapterOptions)
    options = options_of(model)
    beside = {
        options[name].key: value.value
        for name, value in call.arguments.items()
        if name in options and isinstance(value, Known)
    }
    for name, value in call.arguments.items():
        option = options.get(name)
        if option is None or option.raw_only:
            findings = [_unknown_argument(call.name, name, value)]
        elif isinstance(value, Known) and value.value is None:
            continue  # the same as leaving it out
        else:
            arguments = _check_argument(model, option, value, beside)
            findings = [*_check_status(option), *arguments]
        for finding in findings:
            yield finding._replace(place=call.places.get(name, call.place))


def _check_argument(
    model: Type[Any], option: Option, value: Any, beside: Mapping[str, Any]
) -> Iterator[Finding]:
    if not isinstance(value, Known):
        return
    # NPURunConfig itself checks some switches, before any field is written.
    is_switch = option.field in ("b", None)
    is_looked_at = is_switch and any(each.by is RUN_CONFIG for each in option.ends)
    given = value.value if is_looked_at else _as_field_takes_it(option, value.value)
    if option.field is not None or is_looked_at:
        try:
            model(**{option.name: given})
        except ConfigError as error:
            # NPUEstimator writes text with tf.compat.as_bytes, which takes nothing else.
            types = (str, bytes) if option.field == "s" else _FIELDS[option.field or "b"][0]
            fits = isinstance(given, types)
            [view] = read_in_turn([{**beside, option.key: given}])
            is_certain = not fits or ends_run(option.ends, view, option.key, in_run_config=True)
            for problem in error.problems if given != "" or is_certain else ():
                yield problem._replace(rule="value-not-allowed", certain=is_certain)
    yield from _check_path(option, given)


def _unknown_argument(owner: str, name: str, value: Any) -> Finding:
    option = options_of(AdapterOptions).get(name)
    if name in OBSOLETE:
        hint = OBSOLETE[name][:1].upper() + OBSOLETE[name][1:]
    elif option is not None and option.raw_only:
        hint = "It is a key of the entry for raw sessions only."
    elif option is not None:
        hint = "It is an argument of NPURunConfig."
    else:
        problem = unknown_name(name, getattr(value, "value", "..."), AscendConfig)
        hint = problem.hint or problem.message
    message = f"{owner} has no argument {name!r}; {_TYPE_ERROR}"
    return Finding(ERROR, message, hint, "unknown-argument", name)


def _as_field_takes_it(option: Option, value: Any) -> Any:
    """Convert a value as protobuf does: 1 is a bool there, and True an int."""
    field = "s" if isinstance(value, bytes) else option.field or ""
    types, _, read_value = _FIELDS.get(field, ((), "", None))
    return read_value(value) if isinstance(value, types) else value


def check_arguments_together(call: RunConfigCall) -> Iterator[Finding]:
    """Report the violations of rules between the arguments of an NPURunConfig and its parts."""
    if call.name != "NPURunConfig":
        return
    # Defaults that NPURunConfig writes, and that are not the adapter's.
    values = {
        option.key: option.run_config
        for option in adapter_options(AdapterOptions)
        if option.field and option.run_config is not None
    }
    by_default = set(values)
    unreadable: Set[str] = set()
    places: Dict[str, Place] = {}
    for option, value, place in _flatten(call, "", call.place):
        places[option.key] = place
        given = _as_field_takes_it(option, value.value) if isinstance(value, Known) else None
        if not isinstance(value, Known) or isinstance(given, (list, tuple, dict)):
            unreadable.add(option.key)
            values.pop(option.key, None)
        elif given is not None:
            values[option.key] = given
    for problem in find_ruined_options(values):
        place = places.get(problem.option or "", call.place)
        yield problem._replace(rule="option-conflict", place=place)
    right: Dict[str, Any] = {}
    for option in adapter_options(AdapterOptions):
        if option.key in values:
            if option.field and check_value(option.key, values[option.key]):
                unreadable.add(option.key)
            else:
                right[option.key] = values[option.key]
    options = FlatOptions(right, unknown=unreadable)  # an unknown value may be None
    violations = find_rule_violations(options, values, places, call.place, in_run_config=True)
    for _, finding in violations:
        if finding.option not in by_default or finding.option in places:
            yield finding._replace(certain=finding.certain and not call.opaque)


def _flatten(call: RunConfigCall, prefix: str, place: Place) -> Iterator[Tuple[Option, Any, Place]]:
    """Yield the arguments of an NPURunConfig and of its parts, as far as they are known."""
    options = {option.path: option for option in option_fields(AdapterOptions)}
    for name, value in call.arguments.items():
        option = options.get(f"{prefix}{name}")
        if option is None:
            continue
        where = call.places.get(name, place)
        if option.type.part is None:
            yield option, value, where
        elif isinstance(value, RunConfigCall):
            yield from _flatten(value, f"{prefix}{name}.", where)
        elif not (isinstance(value, Known) and value.value is None):
            for inner in options.values():  # an unknown part may set any of its options
                if inner.path.startswith(f"{prefix}{name}."):
                    yield inner, UNKNOWN, where
