"""What a script builds and names, as the reader sees it.

Constants as far as the text tells them, for nothing is ever guessed; configurations, entries,
arguments and operations; the names of a scope, and the functions and classes that are followed.
"""

import ast
import os.path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from ascend_session.findings import Place

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


Branch = Tuple[Tuple[int, int], ...]
"""The arms of ``if`` statements on the way to a place: (statement, arm) from outside in."""


def compatible(first: Branch, second: Branch) -> bool:
    """Whether one run of the script may pass both places."""
    arms = dict(first)
    return all(arms.get(statement, arm) == arm for statement, arm in second)


def implied(outer: Branch, inner: Branch) -> bool:
    """Whether a run that passes ``inner`` surely passes ``outer`` too."""
    return set(outer) <= set(inner)


class Setting(NamedTuple):
    """``entry.parameter_map[key].field = value``."""

    key: str
    field: str
    value: Any
    place: Place
    branch: Branch


class Toggle(NamedTuple):
    """``rewrite_options.remapping = value`` or the same of memory_optimization."""

    name: str
    value: Any
    place: Place
    branch: Branch


class Proto:
    """A ``tf.ConfigProto``.

    Attributes:
        place: Where it is made, or first seen.
        own: Whether this file makes it; False for arguments and what other code returns.
        shared: Whether code that the reader cannot see may add to it.
        entries: Its entries of custom_optimizers.
        toggles: Its rewriter options.
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
        self.entries: List[Entry] = []
        self.toggles: List[Toggle] = []
        self.to_run_config: Optional[Place] = None
        self.to_session = False
        self.completed: Optional[Branch] = None
        self.names: List[Tuple[str, Any]] = []


class Entry:
    """One entry of ``custom_optimizers``.

    Attributes:
        place: Where it is added, or first seen.
        own: Whether this file adds it; False if it is an argument, say.
        shared: Whether code that the reader cannot see may write into it.
        branch: The arms on the way to where it is added.
        in_loop: Whether it is added in a loop.
        names: What its name is set to, with the places.
        settings: What is written into its parameter_map.
        opaque: Whether keys are written that the reader does not know.
        proto: The configuration it is in, None if it is not known.
    """

    def __init__(self, place: Place, own: bool, branch: Branch, in_loop: bool) -> None:
        self.place = place
        self.own = own
        self.shared = not own
        self.branch = branch
        self.in_loop = in_loop
        self.names: List[Tuple[Any, Place]] = []
        self.settings: List[Setting] = []
        self.opaque = False
        self.proto: Optional[Proto] = None


class Part(NamedTuple):
    """Something inside a configuration: the attributes on the way to it."""

    owner: Any  # Proto or Entry
    path: Tuple[Optional[str], ...]  # None for a key that is not known


class Instance:
    """An object of a class of the script: its attributes."""

    def __init__(self, of: Any = None) -> None:
        self.of = of
        self.attributes: Dict[str, Any] = {}


class Construction(NamedTuple):
    """A call of NPURunConfig or of one of its parts.

    Attributes:
        name: The class.
        arguments: Keyword -> value, in order.
        places: Keyword -> where it stands.
        place: Where the call stands.
        opaque: Whether arguments come by ``**``.
    """

    name: str
    arguments: Dict[str, Any]
    places: Dict[str, Place]
    place: Place
    opaque: bool


class Operation(NamedTuple):
    """The operation that initialize_system() or shutdown_system() returns."""

    name: str
    place: Place


_ABSENT = object()


class Scope:
    """The names of a module, a class, or one call of a function."""

    def __init__(self, parent: Optional["Scope"] = None) -> None:
        self.parent = parent
        self.names: Dict[str, Any] = {}
        self.is_class = False
        self.outside: Set[str] = set()
        self._changes: List[Dict[str, Any]] = []

    def find(self, name: str) -> Any:
        """What ``name`` (dotted names too) stands for; UNKNOWN if nobody says."""
        scope: Optional[Scope] = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return UNKNOWN

    def bind(self, name: str, value: Any) -> None:
        """Says what ``name`` stands for from here on."""
        scope = self
        if name in self.outside:
            while scope.parent is not None:
                scope = scope.parent
        if scope._changes:
            scope._changes[-1].setdefault(name, scope.names.get(name, _ABSENT))
        scope.names[name] = value

    def begin(self) -> None:
        """Remembers from here on what is bound, until `end`."""
        self._changes.append({})

    def end(self) -> Dict[str, Any]:
        """What was bound since `begin`, with the last values; the names are as they were then."""
        changes = self._changes.pop()
        after = {name: self.names[name] for name in changes}
        for name, before in changes.items():
            if before is _ABSENT:
                del self.names[name]
            else:
                self.names[name] = before
        return after

    def join(self, *ways: Dict[str, Any]) -> None:
        """Binds what several ways may have left, each as `end` returned it."""
        for name in dict.fromkeys(name for way in ways for name in way):
            values = [way.get(name, self.names.get(name, _ABSENT)) for way in ways]
            left = [value for value in values if value is not _ABSENT]
            found = left[0]
            for value in left[1:]:
                found = _one(found, value)
            self.bind(name, found)


class Function:
    """A function of the script, with the scope it was defined in."""

    def __init__(self, node: Any, scope: Scope, of: Optional["Class"] = None) -> None:
        self.node = node
        self.scope = scope
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and other.node is self.node

    def __hash__(self) -> int:
        return id(self.node)


class Class:
    """A class of the script: its methods and attributes, and the first object made of it."""

    def __init__(self, node: ast.ClassDef, scope: Scope) -> None:
        self.node = node
        self.scope = Scope(scope)
        self.scope.is_class = True
        self.instance: Optional[Instance] = None


def dotted(node: Optional[ast.AST]) -> str:
    """``a.b.c`` for names and attributes of names; empty for anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))


def is_object(value: Any) -> bool:
    """Whether ``value`` is something that a script changes, and not a constant."""
    return isinstance(value, (Proto, Entry, Part, Instance))


def let_go(value: Any) -> None:
    """Says that code which is not followed gets ``value``, and may write into it."""
    if isinstance(value, Known):
        inner = value.value.values() if isinstance(value.value, dict) else value.value
        for each in inner if isinstance(inner, (list, tuple, type({}.values()))) else ():
            let_go(each)
        return
    if isinstance(value, Part):
        value = value.owner
    if isinstance(value, (Proto, Entry)):
        value.shared = True
    if isinstance(value, Proto):
        for entry in value.entries:
            entry.shared = True


def _one(first: Any, second: Any) -> Any:
    if first is second:
        return first
    if is_object(first) and is_object(second):
        let_go(first)  # what follows is written into one of them
        let_go(second)
        return first
    if is_object(first) or is_object(second):
        return first if is_object(first) else second
    return either(first, second)
