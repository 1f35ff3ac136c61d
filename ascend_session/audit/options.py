"""What the configuration's own definitions say of a script's options, alone and together.

A run of the script passes some arms of its ``if`` statements. For each arm in which options are
set, the rules run on what is surely set there, and on that with what may be set besides.
What is found both times is certain; what is found once depends on the way the script takes.
"""

import contextlib
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
    Type,
)

from pydantic import BaseModel

from ascend_session.audit.objects import (
    Branch,
    OptimizerEntry,
    OptionAssignment,
    compatible,
    implied,
    join_branches,
)
from ascend_session.audit.values import EnvironmentText, Known, OneOf
from ascend_session.config.adapter_checks import ends_by_itself
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.entry import check_value
from ascend_session.config.grammars.profiling_options import profiling_members
from ascend_session.config.option import Option, keys_by_name, options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.reference import all_options, values_of
from ascend_session.config.rules import DEPRECATIONS, RULES
from ascend_session.config.rules.rule import FlatOptions, Rule, apply_rules
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, INFO, WARNING, Finding, Place


@lru_cache(maxsize=None)
def known_option(key: str) -> Optional[Option]:
    """Give the option behind a key of the entry; None if no adapter reads the key."""
    option = options_by_key(AscendConfig).get(key)
    return option if option is not None and option.field is not None else None


class AssignedValue(NamedTuple):
    """What a value written into a protobuf field comes to.

    Attributes:
        value: The option's value; None if it is not known or wrong.
        wrong_type: What Python says of it, or None.
        variable: The environment variable that ends the script if it is not set, or None.
        problems: What the option's definition says against it.
        certain: Whether each value it may have is wrong.
    """

    value: Any = None
    wrong_type: Optional[str] = None
    variable: Optional[str] = None
    problems: Tuple[Finding, ...] = ()
    certain: bool = True


_TYPES = {
    "s": ((bytes,), "bytes are"),
    "i": ((int,), "an int is"),
    "b": ((int, float), "True or False is"),
}

_READERS: Dict[str, Callable[[Any], Any]] = {
    "s": lambda text: text.decode(errors="replace"),
    "i": int,
    "b": bool,
}


def check_assigned(option: Option, value: Any, is_python_2: bool = False) -> AssignedValue:
    """Check what is assigned to the right field of an option.

    Args:
        option: The option.
        value: What is known of the value.
        is_python_2: Whether text is bytes in this script.
    """
    if isinstance(value, EnvironmentText):
        return AssignedValue(variable=value.name)
    if isinstance(value, OneOf):
        results = [check_assigned(option, known, is_python_2) for known in value.values]
        wrong = [result for result in results if result.wrong_type or result.problems]
        if not wrong:
            return AssignedValue()
        return wrong[0]._replace(value=None, certain=len(wrong) == len(results))
    if not isinstance(value, Known):
        return AssignedValue()
    field = option.field or ""
    given: Any = value.value
    if is_python_2 and field == "s" and isinstance(given, str):
        given = given.encode()
    types, needed = _TYPES[field]
    if not isinstance(given, types):
        kind = "None" if given is None else f"a value of type {type(given).__name__}"
        return AssignedValue(wrong_type=f"{needed} needed, this is {kind}")
    read = _READERS[field](given)
    problems = check_value(option.key, read)
    if not problems:
        return AssignedValue(value=read)
    if option.dead:
        return AssignedValue()
    is_documented = given not in (b"", -1) and option.key not in _lenient_keys()
    is_certain = is_documented or ends_by_itself(option.key, read)
    return AssignedValue(problems=problems, certain=is_certain)


# What these refuse, the adapter or GE refuses likewise.
_EXACT_GRAMMARS = (
    "dynamic_dims",
    "experimental_accelerate_train_mode",
    "input_shape",
    "profiling_options",
)


@lru_cache(maxsize=None)
def _lenient_keys() -> FrozenSet[str]:
    """List the keys whose values the adapter or GE may take although the definition does not.

    Of most texts with a grammar only its main form is documented, and blanks may pass.
    """
    with_grammar = {each.key for each in all_options() if values_of(each).grammar is not None}
    return frozenset(with_grammar.difference(_EXACT_GRAMMARS))


def argument_problems(model: Type[BaseModel], name: str, value: Any) -> Tuple[Finding, ...]:
    """Report what a class of options says against one of its arguments alone."""
    try:
        model(**{name: value})
    except ConfigError as error:
        return error.problems
    return ()


# They are there on every machine.
_COMMON = ("/tmp", "/dev", "/proc", "/var/tmp")


def check_path(key: str, value: Optional[Any], place: Place) -> Iterator[Finding]:
    """Report a path of the machine that the script was written on."""
    if key == "profiling_options" and isinstance(value, str):
        with contextlib.suppress(ValueError):
            key, value = f"{key}, output", profiling_members(value).get("output")
    elif key not in _path_keys():
        return
    if not isinstance(value, str):
        return
    is_absolute = value.startswith("/") or (value[1:3] in (":/", ":\\") and value[0].isalpha())
    if is_absolute and not value.startswith(_COMMON):
        message = f"{key}={value!r} is a path of one machine; on another one it is not there."
        hint = "Take it from an argument or a variable, or write it relative to the script."
        yield Finding(INFO, message, hint, "machine-path", place=place)


@lru_cache(maxsize=None)
def _path_keys() -> FrozenSet[str]:
    return frozenset(
        each.key for each in all_options() if values_of(each).types.split(" or ")[0] == "path"
    )


_STATUS_HINTS = {
    "unread-option": "Leave it out.",
    "deprecated-option": "The adapter still reads it, and the manual names no replacement.",
}


def check_status(key: str, place: Place) -> Iterator[Finding]:
    """Report that an option is deprecated, or that nothing reads it, whatever its value."""
    option = options_by_key(AdapterOptions).get(key)
    is_dead = option is not None and option.dead
    rule, severity = ("unread-option", WARNING) if is_dead else ("deprecated-option", INFO)
    options = FlatOptions({key: None})
    for remark in apply_rules(DEPRECATIONS, options):
        hint = remark.hint or _STATUS_HINTS[rule]
        yield Finding(severity, remark.message, hint, rule, key, place)


Identity = Tuple[Any, ...]
"""The same for the same finding among other options, whose values its message may name."""


def find_rule_violations(
    options: FlatOptions, places: Mapping[str, Place], otherwise: Place
) -> Iterator[Tuple[Identity, Finding]]:
    """Run the configuration's rules on options by key.

    Args:
        options: They.
        places: Where each of them stands.
        otherwise: Where a finding stands that is about none of them.
    """
    for rule in RULES:
        for remark in rule.findings(options) if rule not in DEPRECATIONS else ():
            key = _key_of(remark.option or "", rule, options)
            name, severity = "option-without-effect", WARNING
            if remark.severity == ERROR:
                name, severity = "option-conflict", ERROR
            place = places.get(key or "", otherwise)
            finding = Finding(severity, remark.message, remark.hint, name, key, place)
            yield (rule.check, key, name), finding


def _key_of(option: str, rule: Rule, options: Iterable[str]) -> Optional[str]:
    """Give the key that a finding about ``option`` (a name, path or key) is shown at."""
    candidates = (keys_by_name(AdapterOptions).get(option), *rule.keys)
    keys = list(options)
    return next((key for key in candidates if key in keys), None)


_MOST_BRANCHES = 24


def check_options_together(entry: OptimizerEntry) -> Iterator[Finding]:
    """Report what the rules say of the options of one entry."""
    settings = []
    for each in entry.settings:
        if known_option(each.key) is not None:
            settings.append(each)
    branches = list(dict.fromkeys([entry.branch, *(each.branch for each in settings)]))
    for branch in branches[:_MOST_BRANCHES]:
        surely = [each for each in settings if implied(each.branch, branch)]
        maybe = [each for each in _settable_together(settings, branch) if each not in surely]
        sure, possible = _apply_rules_to(entry, surely), _apply_rules_to(entry, maybe + surely)
        is_open = entry.shared or entry.opaque
        for identity, finding in {**possible, **sure}.items():
            in_both = identity in sure and identity in possible
            place = possible.get(identity, finding).place
            yield finding._replace(place=place, certain=in_both and not is_open)


def _settable_together(settings: List[OptionAssignment], branch: Branch) -> List[OptionAssignment]:
    """List those that one run through ``branch`` may set, each joined to the others."""
    together = []
    for each in settings:
        if compatible(each.branch, branch):
            together.append(each)
            branch = join_branches(branch, each.branch)
    return together


def _apply_rules_to(
    entry: OptimizerEntry, settings: List[OptionAssignment]
) -> Dict[Identity, Finding]:
    values: Dict[str, Any] = {}
    unreadable: Set[str] = set()
    places: Dict[str, Place] = {}
    for each in settings:
        option = known_option(each.key)
        assert option is not None
        # What stands in another field is reported as that, and is there all the same.
        is_read = option.field == each.field
        value = check_assigned(option, each.value).value if is_read else None
        places[each.key] = each.place
        unreadable.discard(each.key)
        values.pop(each.key, None)
        if value is None:
            unreadable.add(each.key)
        else:
            values[each.key] = value
    return dict(find_rule_violations(FlatOptions(values, unreadable), places, entry.place))
