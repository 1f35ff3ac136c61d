"""Rules about NPURunConfig and its parts: arguments that do not exist, values, contradictions."""

from typing import Any, Dict, Iterator, List, Set, Tuple, Type

from pydantic import BaseModel

from ascend_session.audit.entries import look_at_path, look_at_status
from ascend_session.audit.expressions import MODELS
from ascend_session.audit.finding import Book
from ascend_session.audit.objects import UNKNOWN, Construction, Known
from ascend_session.audit.options import argument_problems, rule_findings, value_problems
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.names import OBSOLETE, unknown_name
from ascend_session.config.option import Option, option_fields, part_of
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules.rule import FlatOptions as Options
from ascend_session.config.run_config import NO_ARGUMENT, find_ruined_options
from ascend_session.findings import ERROR, Place


def look_at_construction(made: Construction, book: Book) -> None:
    """Adds what there is to say of single arguments of one call."""
    known = _arguments(made.name)
    model: Type[BaseModel] = MODELS.get(made.name, AdapterOptions)
    for name, value in made.arguments.items():
        place = made.places.get(name, made.place)
        if name not in known:
            _unknown(made.name, name, value, place, book)
            continue
        option = known[name]
        if isinstance(value, Known) and value.value is None:
            continue  # which is as good as not said
        look_at_status(option.key, place, book)
        if not isinstance(value, Known):
            continue
        given = _lenient(option, value.value)
        if option.field is not None:
            for problem in argument_problems(model, {name: given}):
                book.add("value-not-allowed", ERROR, place, problem.message, problem.hint)
        look_at_path(option.key, given, place, book)


def _arguments(name: str) -> Dict[str, Option]:
    """The arguments of a class of the vendor's."""
    model: Type[BaseModel] = MODELS.get(name, AdapterOptions)
    return {
        option.name: option
        for option in option_fields(model)
        if "." not in option.path and not (model is AdapterOptions and option.name in NO_ARGUMENT)
    }


def _unknown(owner: str, name: str, value: Any, place: Place, book: Book) -> None:
    if name in OBSOLETE:
        hint = OBSOLETE[name][:1].upper() + OBSOLETE[name][1:]
    elif name in NO_ARGUMENT:
        hint = "It is a key of the entry for raw sessions only."
    elif name in _arguments("NPURunConfig"):
        hint = "It is an argument of NPURunConfig."
    else:
        problem = unknown_name(name, getattr(value, "value", "..."), AscendConfig)
        hint = problem.hint or problem.message
        if hint.startswith("AscendConfig has no option"):
            hint = f"It belongs there: {hint.partition('belongs there: ')[2]}"
    said = f"{owner} has no argument {name!r}; Python ends the script with a TypeError."
    book.add("unknown-argument", ERROR, place, said, hint)


def _lenient(option: Option, value: Any) -> Any:
    """``value`` as protobuf takes it: 1 is a bool there, and True an int."""
    if option.field == "b" and isinstance(value, (int, float)):
        return bool(value)
    if option.field == "i" and isinstance(value, bool):
        return int(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def look_between_arguments(made: Construction, book: Book) -> None:
    """Adds what the rules between options say of an NPURunConfig and its parts together."""
    if made.name != "NPURunConfig":
        return
    values: Dict[str, Any] = {"enable_data_pre_proc": True}  # what NPURunConfig writes unasked
    unreadable: Set[str] = set()
    places: Dict[str, Place] = {}
    for option, value, place in _flat(made, "", made.place):
        places[option.key] = place
        if isinstance(value, Known) and value.value is not None:
            values[option.key] = _lenient(option, value.value)
        elif not isinstance(value, Known):
            unreadable.add(option.key)
            values.pop(option.key, None)
    for name, value in list(values.items()):
        if isinstance(value, (list, tuple, dict)):
            unreadable.add(name)
            del values[name]
    for problem in find_ruined_options(values):
        place = places.get(problem.option or "", made.place)
        book.add("option-conflict", ERROR, place, problem.message, problem.hint)
    for found in _sayable(values, unreadable):
        place = places.get(found.key or "", made.place)
        if found.key == "enable_data_pre_proc" and "enable_data_pre_proc" not in places:
            continue
        book.add(found.rule, found.severity, place, found.said, found.hint, not made.opaque)


def _sayable(values: Dict[str, Any], unreadable: Set[str]) -> List[Any]:
    """What the rules find in values that are right, each by itself."""
    right: Dict[str, Any] = {}
    for option in option_fields(AdapterOptions):
        if option.key in values and part_of(option.annotation) is None:
            if option.field and _is_wrong(option, values[option.key]):
                unreadable.add(option.key)
            else:
                right[option.key] = values[option.key]
    return rule_findings(Options(right, unreadable))  # what is not known may be None


def _is_wrong(option: Option, value: Any) -> bool:
    try:
        return bool(value_problems(option.key, value))
    except TypeError:  # not hashable
        return True


def _flat(made: Construction, prefix: str, place: Place) -> Iterator[Tuple[Option, Any, Place]]:
    """The arguments of an NPURunConfig and of its parts, as far as they are known."""
    known = {option.path: option for option in option_fields(AdapterOptions)}
    for name, value in made.arguments.items():
        option = known.get(f"{prefix}{name}")
        if option is None:
            continue
        where = made.places.get(name, place)
        if part_of(option.annotation) is None:
            yield option, value, where
        elif isinstance(value, Construction):
            yield from _flat(value, f"{prefix}{name}.", where)
        elif not (isinstance(value, Known) and value.value is None):
            for inner in known.values():  # a part that is not known may say anything
                if inner.path.startswith(f"{prefix}{name}."):
                    yield inner, UNKNOWN, where
