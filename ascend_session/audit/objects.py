"""What a script builds and computes, as far as its text tells; nothing is ever guessed.

Constants; configurations, entries and their options; scopes, functions and classes.
"""

import ast
import os.path
import re
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ascend_session.findings import Place

_MOST_ALTERNATIVES = 4
_LONGEST = 100_000  # characters of a text
_MOST_VALUES = 20_000  # the size of a list or dict
_MOST_BITS = 1024  # of a whole number


class Unknown(NamedTuple):
    """A value that the text does not tell."""


class Known(NamedTuple):
    """A constant: None, bool, int, float, str, bytes, or a list, tuple or dict of values.

    Attributes:
        value: The constant.
        size: How much it takes to look at all that it consists of.
    """

    value: Any
    size: int = 1


class OneOf(NamedTuple):
    """One of several constants; which of them is decided when the script runs."""

    values: Tuple[Known, ...]


class EnvironmentText(NamedTuple):
    """The text of an environment variable, or None if it is not set."""

    name: str


UNKNOWN = Unknown()


def limit_size(value: Any, parts: Iterable[Any] = ()) -> Any:
    """Give a constant that consists of ``parts``; UNKNOWN for one that is too large to follow."""
    # Twice, so that lists in lists are not deep either.
    size = 1 + 2 * sum(part.size if isinstance(part, Known) else 1 for part in parts)
    is_large = size > _MOST_VALUES
    if isinstance(value, (str, bytes)):
        is_large = len(value) > _LONGEST
    elif isinstance(value, int):
        is_large = value.bit_length() > _MOST_BITS
    return UNKNOWN if is_large else Known(value, size)


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
    """Give what is known of a value that is one or the other.

    Of two objects it is the first, and both are shared, for what follows is written into one of
    them; of an object and a constant it is the object.
    """
    if first is second:
        return first
    if is_object(first) or is_object(second):
        if is_object(first) and is_object(second):
            mark_shared(first)
            mark_shared(second)
        return first if is_object(first) else second
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


_WIDTH = re.compile(r"%[^a-zA-Z]*([0-9]{4}|\*)")

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
    if isinstance(operator, ast.Mod) and not numbers and _WIDTH.search(repr(left.value)):
        return UNKNOWN  # and so may be "%999999999d"
    try:
        return limit_size(compute(left.value, right.value))
    except Exception:  # whatever the script would raise there
        return UNKNOWN


def call_builtin(name: str, arguments: List[Any]) -> Any:
    """Give what a function of Python or TensorFlow makes of constants; UNKNOWN for any other."""
    if name == "os.path.join" and arguments:
        known = [part.value for part in arguments if isinstance(part, Known)]
        texts = [text for text in known if isinstance(text, str)]
        return Known(os.path.join(*texts)) if len(texts) == len(arguments) else UNKNOWN
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
        return limit_size(convert(value))
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
            return _convert(str.encode, value)
        if name in ("strip", "lower", "upper") and not arguments:
            return Known(getattr(value, name)())
    if isinstance(value, bytes) and name == "decode":
        return Known(value.decode(errors="replace"))
    if isinstance(value, dict):
        if name == "items":
            return Known([Known((Known(key), each)) for key, each in value.items()])
        if name == "keys":
            return Known([Known(key) for key in value])
        if name == "values":
            return Known(list(value.values()))
    return UNKNOWN


Branch = Tuple[Tuple[int, int], ...]
"""The arms of ``if`` statements on the way to a place: (statement, arm) from outside in."""


def compatible(first: Branch, second: Branch) -> bool:
    """Whether one run of the script may pass both places."""
    arms = dict(first)
    return all(arms.get(statement, arm) == arm for statement, arm in second)


def implied(outer: Branch, inner: Branch) -> bool:
    """Whether a run that passes ``inner`` surely passes ``outer`` too."""
    return set(outer) <= set(inner)


def extend_branch(arms: Dict[int, int], branch: Branch) -> bool:
    """Add the arms of ``branch`` if one run may pass them besides ``arms``; else return False."""
    may_pass = all(arms.get(statement, arm) == arm for statement, arm in branch)
    if may_pass:
        arms.update(branch)
    return may_pass


class Assignment(NamedTuple):
    """``parameter_map[key].field = value`` of an entry, or ``rewrite_options.field = value``."""

    key: str  # empty in the second case
    field: str
    value: Any
    place: Place
    branch: Branch


class Proto:
    """A ``tf.ConfigProto``.

    Attributes:
        place: Where it is made, or first seen.
        own: Whether this file makes it; False for arguments and what other code returns.
        shared: Whether code that is not seen may add to it.
        entries: Its entries of custom_optimizers.
        toggles: What is assigned to its rewriter options.
        to_run_config: Where it is given to an NPURunConfig as session_config, or None.
        to_session: Whether a session, or what makes one, gets it here.
        completed: The arms on the way to where npu_init adds the first entry, or None.
        names: What it is called, each with the syntax tree of the function (or module) whose
            name that is, or None if other code may see it.
    """

    def __init__(self, place: Place, own: bool) -> None:
        self.place = place
        self.own = own
        self.shared = not own
        self.entries: List[OptimizerEntry] = []
        self.toggles: List[Assignment] = []
        self.to_run_config: Optional[Place] = None
        self.to_session = False
        self.completed: Optional[Branch] = None
        self.names: List[Tuple[str, Any]] = []


class OptimizerEntry:
    """One entry of ``custom_optimizers``.

    Attributes:
        place: Where it is added, or first seen.
        own: Whether this file adds it; False if it is an argument, say.
        shared: Whether code that is not seen may write into it.
        branch: The arms on the way to where it is added.
        in_loop: Whether it is added in a loop.
        names: What its name is set to, with the places.
        settings: What is written into its parameter_map.
        opaque: Whether keys are written that the text does not tell.
    """

    def __init__(self, place: Place, proto: Optional[Proto], branch: Branch, in_loop: bool) -> None:
        self.place = place
        self.own = proto is not None
        self.shared = proto is None or (proto.shared and proto.own)
        self.branch = branch
        self.in_loop = in_loop
        self.names: List[Tuple[Any, Place]] = []
        self.settings: List[Assignment] = []
        self.opaque = False


class AttributePath(NamedTuple):
    """Something inside a configuration or an entry: the attributes on the way to it."""

    owner: Any  # Proto or OptimizerEntry
    path: Tuple[Optional[str], ...]  # None for a key that is not known


class RunConfigCall(NamedTuple):
    """A call of NPURunConfig or of one of its parts.

    Attributes:
        name: The class.
        arguments: The values by keyword, in order.
        places: Where each stands.
        place: Where the call stands.
        opaque: Whether arguments come by ``**``.
    """

    name: str
    arguments: Dict[str, Any]
    places: Dict[str, Place]
    place: Place
    opaque: bool


_ABSENT = object()
_MOST_PARTS = 20  # of a name with dots


class Scope:
    """The names of a module, a class, or one call of a function."""

    def __init__(self, parent: Optional["Scope"] = None, is_class: bool = False) -> None:
        self.parent = parent
        self.is_class = is_class
        self.names: Dict[str, Any] = {}
        self.outer_names: Dict[str, Scope] = {}  # by global and nonlocal
        self._members: Dict[str, Set[str]] = {}  # names with dots, by their first part
        self._changes: List[Dict[str, Any]] = []

    def find(self, name: str) -> Any:
        """Give what ``name`` (dotted names too) stands for; UNKNOWN if the text does not tell."""
        scope: Optional[Scope] = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return UNKNOWN

    def bind(self, name: str, value: Any) -> None:
        """Have ``name`` stand for ``value`` from here on."""
        scope = self
        if name in self.outer_names:
            scope = self.outer_names[name]
            if self._changes and name in scope.names:  # it is bound in one arm only
                value = either(scope.names[name], value)
        if scope._changes:
            scope._changes[-1].setdefault(name, scope.names.get(name, _ABSENT))
        scope.names[name] = value
        owner = name.partition(".")[0]
        if owner != name:
            scope._members.setdefault(owner, set()).add(name)
        for member in scope._members.get(name, ()):  # of what the name stood for before
            scope.bind(member, UNKNOWN)

    def find_members(self, name: str) -> List[Any]:
        """List what is known of the attributes of ``name``, an object that is not followed."""
        found: List[Any] = []
        scope: Optional[Scope] = self
        while scope is not None:
            found += [scope.names.get(member) for member in scope._members.get(name, ())]
            scope = scope.parent
        return found

    def begin_arm(self) -> None:
        """Remember what is bound from here on, until `end_arm`."""
        self._changes.append({})

    def end_arm(self) -> Dict[str, Any]:
        """Undo what was bound since `begin_arm`, and return it with the last values."""
        changes = self._changes.pop()
        bound = {name: self.names[name] for name in changes if name in self.names}
        for name, before in changes.items():
            if before is _ABSENT:
                self.names.pop(name, None)
            else:
                self.names[name] = before
        return bound

    def join_arms(self, *arms: Dict[str, Any]) -> None:
        """Bind what several arms may have left, each as `end_arm` returned it."""
        bound: Dict[str, List[Any]] = {}
        for arm in arms:
            for name, value in arm.items():
                bound.setdefault(name, []).append(value)
        for name, values in bound.items():
            if len(values) < len(arms) and name in self.names:
                values.insert(len(values) if name in arms[0] else 0, self.names[name])
            self.bind(name, reduce(either, values))


@dataclass(frozen=True)
class Function:
    """A function of the script, with the scope that it was defined in."""

    node: Any
    scope: Scope = field(compare=False)


class Class:
    """A class of the script: its methods and attributes, and the first object made of it."""

    def __init__(self, node: ast.ClassDef, scope: Scope) -> None:
        self.node = node
        self.scope = Scope(scope, is_class=True)
        self.instance: Optional[Instance] = None


class Instance:
    """An object of a class of the script: its attributes."""

    def __init__(self, of: Class) -> None:
        self.of = of
        self.attributes: Dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """Give an attribute of the object or of its class; UNKNOWN if it has none."""
        return self.attributes.get(name, self.of.scope.names.get(name, UNKNOWN))

    def assign(self, name: str, value: Any) -> None:
        """Give the object an attribute."""
        before = self.attributes.get(name)
        if before is not value:
            mark_shared(before)  # what follows may have been meant for it, in another branch
        self.attributes[name] = value


def dotted_name(node: Optional[ast.AST]) -> str:
    """Give ``a.b.c`` for names and attributes of names; an empty text for anything else."""
    parts: List[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _MOST_PARTS:
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))


def is_object(value: Any) -> bool:
    """Whether ``value`` is something that a script changes, and not a constant."""
    return isinstance(value, (Proto, OptimizerEntry, AttributePath, Instance))


def mark_shared(value: Any) -> None:
    """Note that code which is not followed gets ``value``, and may write into it."""
    if isinstance(value, Known):
        inner = list(value.value.values()) if isinstance(value.value, dict) else value.value
        for each in inner if isinstance(inner, (list, tuple)) else ():
            mark_shared(each)
        return
    if isinstance(value, AttributePath):
        value = value.owner
    if isinstance(value, (Proto, OptimizerEntry)):
        value.shared = True
    if isinstance(value, Proto):
        for entry in value.entries:
            entry.shared = True
