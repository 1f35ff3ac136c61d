"""Names of a script and what they stand for; functions and classes that are followed."""

import ast
from typing import Any, Dict, Optional, Set

from ascend_session.audit.objects import Entry, Instance, Part, Proto
from ascend_session.audit.values import UNKNOWN, either

__all__ = ["Class", "Function", "Scope", "dotted", "is_object", "let_go", "merged"]


class Scope:
    """The names of a module or of one call of a function."""

    def __init__(self, parent: Optional["Scope"] = None) -> None:
        self.parent = parent
        self.names: Dict[str, Any] = {}
        self.outside: Set[str] = set()

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
        scope.names[name] = value


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
    if isinstance(value, Part):
        value = value.owner
    if isinstance(value, (Proto, Entry)):
        value.shared = True
    if isinstance(value, Proto):
        for entry in value.entries:
            entry.shared = True


def merged(first: Dict[str, Any], second: Dict[str, Any]) -> Dict[str, Any]:
    """The names after an ``if``, of what each arm left."""
    names = dict(first)
    for name, value in second.items():
        names[name] = _one(names[name], value) if name in names else value
    return names


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
