"""Rules about NPURunConfig and its parts: arguments that do not exist, values, contradictions."""

from typing import Any, Dict, Iterator, Set, Tuple, Type

from pydantic import BaseModel

from ascend_session.audit.objects import RunConfigCall
from ascend_session.audit.options import (
    argument_problems,
    check_path,
    check_status,
    find_rule_violations,
)
from ascend_session.audit.values import UNKNOWN, Known, as_python
from ascend_session.audit.vendor_classes import PART_MODELS
from ascend_session.config.ascend_config import AscendConfig, find_ruined_options
from ascend_session.config.entry import check_value
from ascend_session.config.names import OBSOLETE, unknown_name
from ascend_session.config.option import Option, option_fields, part_of
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules.rule import FlatOptions
from ascend_session.findings import ERROR, Finding, Place


def check_arguments(call: RunConfigCall) -> Iterator[Finding]:
    """Report what is wrong with single arguments of one call."""
    known = _options_of(call.name)
    model: Type[BaseModel] = PART_MODELS.get(call.name, AdapterOptions)
    for name, value in call.arguments.items():
        place = call.places.get(name, call.place)
        option = known.get(name)
        if option is None or option.raw_only:
            yield _unknown_argument(call.name, name, value, place)
            continue
        if isinstance(value, Known) and value.value is None:
            continue  # which is as good as left out
        yield from check_status(option.key, place)
        try:
            given = _as_field_takes_it(option, as_python(value))
        except LookupError:
            continue
        if option.field is not None:
            for problem in argument_problems(model, name, given):
                yield problem._replace(rule="value-not-allowed", place=place)
        yield from check_path(option.key, given, place)


def _options_of(name: str) -> Dict[str, Option]:
    """Map the names of the options that a class of the vendor's stands for to these options."""
    model: Type[BaseModel] = PART_MODELS.get(name, AdapterOptions)
    return {option.name: option for option in option_fields(model) if "." not in option.path}


def _unknown_argument(owner: str, name: str, value: Any, place: Place) -> Finding:
    option = _options_of("NPURunConfig").get(name)
    if name in OBSOLETE:
        hint = OBSOLETE[name][:1].upper() + OBSOLETE[name][1:]
    elif option is not None and option.raw_only:
        hint = "It is a key of the entry for raw sessions only."
    elif option is not None:
        hint = "It is an argument of NPURunConfig."
    else:
        problem = unknown_name(name, getattr(value, "value", "..."), AscendConfig)
        hint = problem.hint or problem.message
    message = f"{owner} has no argument {name!r}; Python ends the script with a TypeError."
    return Finding(ERROR, message, hint, "unknown-argument", name, place)


def _as_field_takes_it(option: Option, value: Any) -> Any:
    """Convert a value as protobuf does: 1 is a bool there, and True an int."""
    if option.field == "b" and isinstance(value, (int, float)):
        return bool(value)
    if option.field == "i" and isinstance(value, bool):
        return int(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def check_arguments_together(call: RunConfigCall) -> Iterator[Finding]:
    """Report what the rules between options say of an NPURunConfig and its parts together."""
    if call.name != "NPURunConfig":
        return
    values: Dict[str, Any] = {"enable_data_pre_proc": True}  # what NPURunConfig writes by itself
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
    for option in option_fields(AdapterOptions):
        if option.key in values and part_of(option.annotation) is None:
            if option.field and check_value(option.key, values[option.key]):
                unreadable.add(option.key)
            else:
                right[option.key] = values[option.key]
    options = FlatOptions(right, unknown=unreadable)  # what is not known may be None
    for _, finding in find_rule_violations(options, places, call.place):
        if finding.option != "enable_data_pre_proc" or finding.option in places:
            yield finding._replace(certain=not call.opaque)


def _flatten(call: RunConfigCall, prefix: str, place: Place) -> Iterator[Tuple[Option, Any, Place]]:
    """Yield the arguments of an NPURunConfig and of its parts, as far as they are known."""
    known = {option.path: option for option in option_fields(AdapterOptions)}
    for name, value in call.arguments.items():
        option = known.get(f"{prefix}{name}")
        if option is None:
            continue
        where = call.places.get(name, place)
        if part_of(option.annotation) is None:
            yield option, value, where
        elif isinstance(value, RunConfigCall):
            yield from _flatten(value, f"{prefix}{name}.", where)
        elif not (isinstance(value, Known) and value.value is None):
            for inner in known.values():  # a part that is not known may say anything
                if inner.path.startswith(f"{prefix}{name}."):
                    yield inner, UNKNOWN, where
