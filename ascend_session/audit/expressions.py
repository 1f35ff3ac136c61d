"""Follows expressions: what they are worth, and which configurations they change."""

import ast
from typing import Any, Callable, Dict, Optional

from ascend_session.audit.objects import Branch, Entry, Instance, Part, Proto
from ascend_session.audit.scopes import Class, Scope, dotted, is_object, let_go
from ascend_session.audit.source import Source
from ascend_session.audit.values import UNKNOWN, EnvironmentText, Known, binary, either

__all__ = ["LITERALS", "Expressions", "key_of"]

LITERALS = ("Constant", "Str", "Num", "Bytes", "NameConstant")
_INTO = ("graph_options", "rewrite_options", "custom_optimizers")


class Expressions:
    """The reader's part that follows expressions.

    Args:
        source: The script.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.protos: Dict[int, Proto] = {}
        self.entries: Dict[int, Entry] = {}
        self.branch: Branch = ()
        self.loops = 0
        self._kinds: Dict[type, Callable[[Any, Scope], Any]] = {
            ast.Name: lambda node, scope: scope.find(node.id),
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self.call,
            ast.Dict: self._dict,
            ast.List: self._sequence,
            ast.Tuple: self._sequence,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.IfExp: self._if_else,
            ast.BoolOp: self._bool,
        }

    def value(self, node: Optional[ast.AST], scope: Scope) -> Any:
        """What ``node`` is worth; what it holds that is not followed is let go."""
        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return UNKNOWN if node.value is Ellipsis else Known(node.value)
        if type(node).__name__ in LITERALS:  # before Python 3.8
            constant = ast.literal_eval(node)
            return UNKNOWN if constant is Ellipsis else Known(constant)
        follow = self._kinds.get(type(node))
        if follow is not None:
            return follow(node, scope)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.expr, ast.comprehension, ast.keyword)):
                let_go(self.value(child, scope))
        return UNKNOWN

    def call(self, node: ast.Call, scope: Scope) -> Any:
        """What a call gives; see `calls.Calls`."""
        raise NotImplementedError

    def new_proto(self, node: ast.AST, own: bool) -> Proto:
        """A configuration that is made, or first seen, at ``node``."""
        proto = Proto(self.source.place(node), own)
        self.protos[id(proto)] = proto
        return proto

    def new_entry(self, node: ast.AST, proto: Optional[Proto]) -> Entry:
        """An entry that is added, or first seen, at ``node``."""
        entry = Entry(self.source.place(node), proto is not None, self.branch, self.loops > 0)
        entry.proto = proto
        if proto is not None:
            entry.shared = proto.shared and proto.own
            proto.entries.append(entry)
        self.entries[id(entry)] = entry
        return entry

    def foreign_proto(self, node: ast.AST, scope: Scope) -> Any:
        """The configuration at the root of ``x.graph_options.rewrite_options``, first seen here."""
        root = node
        while isinstance(root, ast.Attribute) and root.attr in _INTO:
            root = root.value
        name = dotted(root)
        if root is node or not name:
            return UNKNOWN
        proto = self.new_proto(node, own=False)
        self.assign_dotted(root, name, proto, scope)
        return proto

    def foreign_entry(self, node: ast.AST, scope: Scope) -> Any:
        """The entry in ``x`` of ``x.parameter_map``, first seen here."""
        name = dotted(node)
        entry = self.new_entry(node, None)
        if name:
            self.assign_dotted(node, name, entry, scope)
        return entry

    def assign_dotted(self, node: ast.AST, name: str, value: Any, scope: Scope) -> None:
        """Binds a name, or an attribute of an object that is followed."""
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value, scope)
            if isinstance(owner, Instance):
                before = owner.attributes.get(node.attr)
                if before is not value:
                    let_go(before)  # what follows may have been meant for it, in another branch
                owner.attributes[node.attr] = value
                return
        scope.bind(name, value)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        owner = self.value(node.value, scope)
        if isinstance(owner, Instance):
            return self._of_instance(owner, node.attr)
        if isinstance(owner, Class):
            return owner.scope.names.get(node.attr, UNKNOWN)
        if isinstance(owner, Entry) and node.attr == "list":
            return UNKNOWN
        if isinstance(owner, (Proto, Entry)):
            return Part(owner, (node.attr,))
        if isinstance(owner, Part):
            return owner._replace(path=(*owner.path, node.attr))
        found = scope.find(dotted(node)) if dotted(node) else UNKNOWN
        if found is not UNKNOWN:
            return found
        if node.attr == "parameter_map" and self.source.is_npu:
            return Part(self.foreign_entry(node.value, scope), ("parameter_map",))
        if node.attr in ("custom_optimizers", "rewrite_options"):
            proto = self.foreign_proto(node, scope)
            return Part(proto, (node.attr,)) if isinstance(proto, Proto) else UNKNOWN
        return UNKNOWN

    def _of_instance(self, owner: Instance, name: str) -> Any:
        if name in owner.attributes:
            return owner.attributes[name]
        if isinstance(owner.of, Class):
            return owner.of.scope.names.get(name, UNKNOWN)
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        owner = self.value(node.value, scope)
        index = self.value(key_of(node), scope)
        if isinstance(owner, Part):
            if owner.path[-1] == "parameter_map":
                key = index.value if isinstance(index, Known) else None
                return Part(owner.owner, (*owner.path, key if isinstance(key, str) else None))
            if owner.path[-1] == "custom_optimizers" and isinstance(owner.owner, Proto):
                entries = owner.owner.entries
                return entries[0] if entries else UNKNOWN
            return UNKNOWN
        if isinstance(owner, Known) and isinstance(index, Known):
            try:
                found = owner.value[index.value]
            except (KeyError, IndexError, TypeError):
                return UNKNOWN
            return found if not isinstance(found, (str, int, bytes)) else Known(found)
        return UNKNOWN

    def _dict(self, node: ast.Dict, scope: Scope) -> Any:
        found: Dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values):
            key, value = self.value(key_node, scope), self.value(value_node, scope)
            let_go(value)
            if not isinstance(key, Known) or isinstance(key.value, (list, tuple, dict)):
                return UNKNOWN
            found[key.value] = value
        return Known(found)

    def _sequence(self, node: Any, scope: Scope) -> Any:
        if any(isinstance(each, ast.Starred) for each in node.elts):
            for each in node.elts:
                let_go(self.value(each, scope))
            return UNKNOWN
        return Known(tuple(self.value(each, scope) for each in node.elts))

    def _binary(self, node: ast.BinOp, scope: Scope) -> Any:
        return binary(node.op, self.value(node.left, scope), self.value(node.right, scope))

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        number = value.value if isinstance(value, Known) else None
        if isinstance(node.op, ast.USub) and isinstance(number, (int, float)):
            return Known(-number)
        return UNKNOWN

    def _if_else(self, node: ast.IfExp, scope: Scope) -> Any:
        self.value(node.test, scope)
        first, second = self.value(node.body, scope), self.value(node.orelse, scope)
        if is_object(first) or is_object(second):
            let_go(first)
            let_go(second)
            return first if is_object(first) else second
        return either(first, second)

    def _bool(self, node: ast.BoolOp, scope: Scope) -> Any:
        values = [self.value(each, scope) for each in node.values]
        objects = [each for each in values if is_object(each)]
        if objects:
            return objects[0]
        if isinstance(values[0], EnvironmentText):
            return UNKNOWN  # the other value stands in where the variable is not set
        return UNKNOWN


def key_of(node: ast.Subscript) -> ast.AST:
    """The expression between the brackets, on every Python."""
    inner: Any = node.slice
    found: ast.AST = inner.value if type(inner).__name__ == "Index" else inner
    return found
