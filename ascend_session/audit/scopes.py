"""Names of a script and what they stand for; functions and classes that are followed."""

import ast
from typing import Any, Dict, List, Optional, Set

from ascend_session.audit.objects import Entry, Instance, Part, Proto
from ascend_session.audit.values import UNKNOWN, Known, either

__all__ = ["Class", "Function", "Scope", "dotted", "is_object", "let_go"]


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
