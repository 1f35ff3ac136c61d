"""The types of option values: their check and their JSON schema.

A type is Literal, bool, int, float or str, which are checked strictly (1 is not True, "1" is not
1), `object`, a part of the configuration, or text with a `Grammar`. Errors are sentences about the
option.
"""

import re
from dataclasses import dataclass
from numbers import Real
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, Union

import attr
from typing_extensions import Annotated, Literal, get_args, get_origin

from ascend_session.config.grammars import Grammar, show_value
from ascend_session.config.hints import find_meant_value
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.spelling import Message, code, option, template_of
from ascend_session.text import did_you_mean, is_writable


@dataclass(frozen=True)
class Range:
    """The numbers that an option takes, as in ``Annotated[int, Range(0, 7)]``; None is no limit.

    Attributes:
        low: The smallest number.
        high: The largest number.
        above: What every number is above.
    """

    low: Optional[int] = None
    high: Optional[int] = None
    above: Optional[float] = None

    def schema(self) -> Dict[str, Any]:
        """Return the keywords of a JSON schema."""
        limits = {"exclusiveMinimum": self.above, "maximum": self.high, "minimum": self.low}
        return {word: limit for word, limit in limits.items() if limit is not None}


_ANY_NUMBER = Range()


@dataclass(frozen=True)
class ValueType:
    """The type of an option, taken apart.

    Attributes:
        kind: The Python type: bool, int, float, str, object, a part, or a Literal.
        allowed: The values of a Literal.
        grammar: The grammar of the value, if the type has one.
        range: The limits of a number.
    """

    kind: Any
    allowed: Tuple[Any, ...] = ()
    grammar: Optional[Grammar] = None
    range: Range = _ANY_NUMBER

    @classmethod
    def from_annotation(cls, annotation: Any) -> "ValueType":
        """Make it from an annotation, without ``Optional[...]`` and ``Annotated[...]``."""
        extras: List[Any] = []
        while True:
            members = get_args(annotation)
            if get_origin(annotation) is Annotated:
                annotation = members[0]
                extras += members[1:]
            elif get_origin(annotation) is Union and type(None) in members:
                annotation = Union[tuple(each for each in members if each is not type(None))]
            else:
                break
        grammars = (each for each in extras if isinstance(each, Grammar))
        ranges = (each for each in extras if isinstance(each, Range))
        return cls(
            kind=annotation,
            allowed=get_args(annotation) if get_origin(annotation) is Literal else (),
            grammar=next(grammars, None),
            range=next(ranges, _ANY_NUMBER),
        )

    @property
    def part(self) -> Optional[Type[Any]]:
        """The config class, if the option is a part of the configuration; else None."""
        is_part = isinstance(self.kind, type) and attr.has(self.kind)
        return self.kind if is_part and self.grammar is None else None

    def schema(self) -> Dict[str, Any]:
        """Return the JSON schema of what may be written; empty for a Python object."""
        if self.grammar is not None:
            return dict(self.grammar.schema)
        if self.allowed:
            kind = {"type": JSON_TYPES[type(self.allowed[0])]}
            if len(self.allowed) == 1:
                return {"const": self.allowed[0], **kind}
            return {"enum": list(self.allowed), **kind}
        if self.kind in JSON_TYPES:
            return {**self.range.schema(), "type": JSON_TYPES[self.kind]}
        return {}


UNKNOWN = ValueType(None)

JSON_TYPES = {str: "string", int: "integer", bool: "boolean", float: "number"}
"""The words of a JSON schema for the plain types."""

_IN_WORDS = {
    str: "text (str)",
    int: "a whole number (int)",
    bool: code("True or False (bool)", "true or false"),
    float: "a number",
}


class RefusedValueError(Exception):
    """A value that an option does not take.

    Attributes:
        problems: The findings; several if it is a part of the configuration.
    """

    def __init__(self, *problems: Finding) -> None:
        super().__init__(*problems)
        self.problems = problems


def read_value(name: str, value: Any, value_type: ValueType) -> Any:
    """Check a ``value`` for the option ``name``, and return it as the adapter gets it.

    Raises:
        RefusedValueError: If the option does not accept it.
    """
    if value_type.grammar is not None:
        try:
            read = value_type.grammar(value)
        except ConfigError as error:  # a file that the option points to, as fields
            raise RefusedValueError(*_problems_inside(name, error)) from None
        except ValueError as error:
            raise RefusedValueError(Finding(ERROR, f"{name}: {error}", option=name)) from None
    elif value_type.part is not None:
        read = _read_part(name, value, value_type.part)
    elif value_type.allowed:
        read = _read_allowed(name, value, value_type.allowed)
    elif value_type.kind is object:
        return value
    else:
        read = _read_plain(name, value, value_type.kind)
        _check_range(name, value, value_type.range)
    if isinstance(read, str):
        _check_text(name, read)
        return str.__str__(read)  # of exactly this type
    return read


def _read_part(name: str, value: Any, part: Type[Any]) -> Any:
    if isinstance(value, part):
        return value
    if isinstance(value, Mapping):
        try:
            return part(**value)
        except ConfigError as error:
            raise RefusedValueError(*_problems_inside(name, error)) from None
    written = code(f"{name}={part.__name__}(...)", f"{name}: {{...}}")
    needed = code(part.__name__, "mapping")
    message = f"{name}: this must be a {needed}, not {type(value).__name__}."
    raise RefusedValueError(Finding(ERROR, message, f"Write {written}.", option=name))


def _problems_inside(name: str, error: ConfigError) -> List[Finding]:
    """Prefix findings about a part with the name of the option."""
    return [
        problem._replace(message=Message(f"{name}: {template_of(problem.message)}"))
        if problem.option == name
        else problem._replace(option=f"{name}.{problem.option}")
        for problem in error.problems
    ]


def _read_allowed(name: str, value: Any, allowed: Tuple[Any, ...]) -> Any:
    # True, 1.0 and the numbers of NumPy equal 1, but are not.
    for each in allowed:
        if type(value) is type(each) and value == each:
            return each
    if isinstance(value, str) and isinstance(allowed[0], str):
        _check_text(name, value)
    raise RefusedValueError(_not_allowed(name, value, allowed))


def _read_plain(name: str, value: Any, kind: Type[Any]) -> Any:
    """Check the type strictly; return a value of exactly that type."""
    takes: Any = Real if kind is float else kind
    if not isinstance(value, takes) or (isinstance(value, bool) and kind is not bool):
        message = (
            f"{_write_value(name, value)}: this must be {_IN_WORDS[kind]}, not {_class(value)}."
        )
        raise RefusedValueError(
            Finding(ERROR, message, _conversion(name, value, kind), option=name)
        )
    return value if kind is str else kind(value)


def _check_range(name: str, value: Any, limits: Range) -> None:
    if limits.above is not None and not value > limits.above:
        problem = f"it must be above {limits.above:g}"
    elif limits.low is not None and value < limits.low:
        problem = f"the smallest value is {limits.low}"
    elif limits.high is not None and value > limits.high:
        problem = f"the largest value is {limits.high}"
    else:
        return
    raise RefusedValueError(Finding(ERROR, f"{_write_value(name, value)}: {problem}.", option=name))


def _check_text(name: str, value: str) -> None:
    """Refuse text with half a surrogate pair, which no protobuf can hold."""
    if not is_writable(value, strict=True):
        message = f"{_write_value(name, value)}: this is not UTF-8 text (half a surrogate pair)."
        raise RefusedValueError(Finding(ERROR, message, option=name))


def _not_allowed(name: str, given: Any, allowed: Tuple[Any, ...]) -> Finding:
    listed = ", ".join(repr(value) for value in allowed)
    kind = "" if type(given) in {type(value) for value in allowed} else f" ({_class(given)})"
    text = show_value(given, str)
    message = f"{_write_value(name, given)}{kind} is not one of {listed}."
    twin = next((v for v in allowed if str(v).lower() == text.lower()), None)
    if isinstance(given, bool):
        twin = next((v for v in (twin, int(given), str(int(given))) if v in allowed), None)
    near = twin
    if near is None and isinstance(given, str):
        near = find_meant_value(given, allowed)
    if near is None and isinstance(given, str):
        near = did_you_mean(text, [each for each in allowed if isinstance(each, str)])
    hint = None if near is None else f"Write {option(name, near)}."
    return Finding(ERROR, message, hint, option=name)


_TRUTHS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
_INTEGER = r"\s*-?[0-9]{1,20}\s*"


def convert_value(given: Any, kind: Type[Any]) -> Any:
    """Return what a value of another type means as a bool, int or str; None if that is unclear."""
    text = show_value(given, str)
    if kind is bool:
        return _TRUTHS.get(text.lower())
    if kind is int:
        text = str(int(given)) if isinstance(given, bool) else text
        return int(text) if re.fullmatch(_INTEGER, text) else None
    return text


def _conversion(name: str, given: Any, kind: Type[Any]) -> Optional[str]:
    text = show_value(given, str)
    meant = convert_value(given, kind)
    if kind is bool and meant is not None:
        return f"Write {option(name, meant)}."
    if kind is int and isinstance(given, str) and meant is not None:
        return f"Write {option(name, meant)}, without quotes."
    if kind is str and isinstance(given, bytes):
        return f"Decode it: {option(name, given.decode(errors='replace'))}."
    if kind is str and isinstance(given, (int, float)):
        written = option(name, text, write='"{}"'.format)
        return f"Write {written}."
    return None


def _write_value(name: str, value: Any) -> str:
    return option(name, value, write=show_value)


def _class(value: Any) -> str:
    return type(value).__name__
