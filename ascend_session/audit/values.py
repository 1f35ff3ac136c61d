"""Constants of a script, as far as its text tells them; nothing is ever guessed."""

import ast
import os.path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

_MOST_ALTERNATIVES = 4
_LONGEST = 100_000  # characters of a text that is put together


class Unknown(NamedTuple):
    """A value that the text does not tell."""


class Known(NamedTuple):
    """A constant: None, bool, int, float, str, bytes, or a list, tuple or dict of values."""

    value: Any


class OneOf(NamedTuple):
    """One of several constants; which of them is decided when the script runs."""

    values: Tuple[Known, ...]


class EnvironmentText(NamedTuple):
    """The text of an environment variable, or None if it is not set."""

    name: str


UNKNOWN = Unknown()


def as_python(value: Any) -> Any:
    """Give a value as the script has it, also what stands in a list, tuple or dict.

    Raises:
        LookupError: If part of it is not known.
    """
    if not isinstance(value, Known):
        raise LookupError(value)
    inner = value.value
    if isinstance(inner, dict):
        return {key: as_python(each) for key, each in inner.items()}
    if isinstance(inner, (list, tuple)):
        return type(inner)(as_python(each) for each in inner)
    return inner


def either(first: Any, second: Any) -> Any:
    """Give what is known of a value that is one or the other."""
    if first == second:
        return first
    alternatives: List[Known] = []
    for value in (first, second):
        if isinstance(value, Known):
            alternatives.append(value)
        elif isinstance(value, OneOf):
            alternatives += value.values
        else:
            return UNKNOWN
    return OneOf(tuple(alternatives)) if len(alternatives) <= _MOST_ALTERNATIVES else UNKNOWN


_OPERATORS: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def apply_operator(operator: ast.AST, left: Any, right: Any) -> Any:
    """Compute ``left operator right``, for texts and numbers."""
    compute = _OPERATORS.get(type(operator))
    if compute is None or not isinstance(left, Known) or not isinstance(right, Known):
        return UNKNOWN
    if isinstance(right.value, (list, tuple, dict)):
        return UNKNOWN  # these hold values, not constants
    numbers = isinstance(left.value, (int, float)) and isinstance(right.value, (int, float))
    if isinstance(operator, ast.Mult) and not numbers:
        return UNKNOWN  # a text or list times a number may be huge
    try:
        value = compute(left.value, right.value)
    except Exception:  # whatever the script would raise there
        return UNKNOWN
    return Known(value) if len(repr(value)) < _LONGEST else UNKNOWN


def call_builtin(name: str, arguments: List[Any]) -> Any:
    """Give what a function of Python or TensorFlow makes of constants; UNKNOWN for any other."""
    if name == "os.path.join" and arguments:
        parts = [part.value if isinstance(part, Known) else None for part in arguments]
        texts = [part for part in parts if isinstance(part, str)]
        return Known(os.path.join(*texts)) if len(texts) == len(parts) else UNKNOWN
    convert = _CONVERSIONS.get(name.rpartition(".")[2])
    if convert is None or not arguments:
        return UNKNOWN
    value = arguments[0]
    if isinstance(value, OneOf):
        converted = [_convert(convert, known.value) for known in value.values]
        return OneOf(tuple(converted)) if UNKNOWN not in converted else UNKNOWN
    return _convert(convert, value.value) if isinstance(value, Known) else UNKNOWN


def _convert(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return Known(convert(value))
    except (TypeError, ValueError, OverflowError):  # of text that cannot be decoded, too
        return UNKNOWN


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(value)


def _to_text(value: Any) -> str:
    if isinstance(value, (str, int, float, type(None))):
        return str(value)
    raise TypeError(value)


def _decode(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


_CONVERSIONS: Dict[str, Callable[[Any], Any]] = {
    "as_bytes": _to_bytes,
    "bytes": _to_bytes,
    "as_text": _decode,
    "as_str": _decode,
    "as_str_any": _to_text,
    "str": _to_text,
    "int": int,
    "float": float,
}


def call_method(value: Any, name: str, arguments: List[Any]) -> Any:
    """Give what a method of a constant gives."""
    if isinstance(value, str):
        if name == "encode":
            return Known(value.encode())
        if name in ("strip", "lower", "upper") and not arguments:
            return Known(getattr(value, name)())
    if isinstance(value, bytes) and name == "decode":
        return Known(value.decode(errors="replace"))
    if isinstance(value, dict):
        if name == "items":
            return Known(tuple(Known((Known(key), each)) for key, each in value.items()))
        if name == "keys":
            return Known(tuple(Known(key) for key in value))
        if name == "values":
            return Known(tuple(value.values()))
    return UNKNOWN
