"""What an expression of a script is worth, as far as its text says; nothing is ever guessed."""

import ast
import os.path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

__all__ = [
    "NOTHING",
    "UNKNOWN",
    "EnvironmentText",
    "Known",
    "OneOf",
    "Unknown",
    "binary",
    "called",
    "either",
]

_MOST = 4  # alternatives that are followed
_LONGEST = 100_000  # characters of a text that is put together


class Unknown(NamedTuple):
    """A value that the text does not tell."""


class Known(NamedTuple):
    """A constant: None, bool, int, float, str, bytes, or a list, tuple or dict of values."""

    value: Any


class OneOf(NamedTuple):
    """One of several constants, which of them is decided when the script runs."""

    values: Tuple[Known, ...]


class EnvironmentText(NamedTuple):
    """What an environment variable says, or None if it is not set."""

    name: str


UNKNOWN = Unknown()
NOTHING = Known(None)

_BINARY: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def either(first: Any, second: Any) -> Any:
    """One value or the other: what is known of both together."""
    if first == second:
        return first
    found: List[Known] = []
    for value in (first, second):
        if isinstance(value, Known):
            found.append(value)
        elif isinstance(value, OneOf):
            found += value.values
        else:
            return UNKNOWN
    return OneOf(tuple(found)) if len(found) <= _MOST else UNKNOWN


def binary(operator: ast.AST, left: Any, right: Any) -> Any:
    """``left operator right``, for texts and numbers."""
    compute = _BINARY.get(type(operator))
    if compute is None or not isinstance(left, Known):
        return UNKNOWN
    number = isinstance(right, Known) and isinstance(right.value, (int, float))
    if isinstance(operator, ast.Mult) and not (number and isinstance(left.value, (int, float))):
        return UNKNOWN  # a text or list times a number may be huge
    if not isinstance(right, Known) or _has_unknown(right.value):
        return UNKNOWN
    try:
        value = compute(left.value, right.value)
    except Exception:  # whatever the script would raise there
        return UNKNOWN
    return Known(value) if len(repr(value)) < _LONGEST else UNKNOWN


def called(name: str, arguments: List[Any]) -> Any:
    """What a function of Python or TensorFlow makes of constants; UNKNOWN if it is no such."""
    last = name.rpartition(".")[2]
    if last in ("as_bytes", "as_text", "as_str", "as_str_any", "str", "bytes", "int", "float"):
        if arguments and isinstance(arguments[0], OneOf):
            each = [called(name, [value, *arguments[1:]]) for value in arguments[0].values]
            return OneOf(tuple(each)) if all(isinstance(e, Known) for e in each) else UNKNOWN
        if arguments and isinstance(arguments[0], Known):
            return _converted(last, arguments[0].value)
        return UNKNOWN
    if name == "os.path.join" and arguments:
        parts = [each.value if isinstance(each, Known) else None for each in arguments]
        texts = [part for part in parts if isinstance(part, str)]
        return Known(os.path.join(*texts)) if len(texts) == len(parts) else UNKNOWN
    return UNKNOWN


def _converted(name: str, value: Any) -> Any:
    try:
        if name in ("as_bytes", "bytes"):
            if isinstance(value, str):
                return Known(value.encode())
            return Known(value) if isinstance(value, bytes) else UNKNOWN
        if name in ("as_text", "as_str"):
            return Known(value.decode() if isinstance(value, bytes) else value)
        if name in ("as_str_any", "str"):
            is_plain = isinstance(value, (str, int, float, type(None)))
            return Known(str(value)) if is_plain else UNKNOWN
        return Known(int(value) if name == "int" else float(value))
    except (TypeError, ValueError, UnicodeDecodeError):
        return UNKNOWN


def plain(value: Any) -> Optional[Any]:
    """The Python value in a Known, with lists and dicts opened; None if a part is not known."""
    inner = value.value if isinstance(value, Known) else None
    if isinstance(inner, dict):
        return {key: plain(each) for key, each in inner.items()}
    if isinstance(inner, (list, tuple)):
        return [plain(each) for each in inner]
    return inner


def _has_unknown(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return True  # holds values, not constants
    return isinstance(value, dict)
