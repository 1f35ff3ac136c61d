"""Evaluate constant expressions of a script, through names that are assigned once.

Nothing of the script is evaluated: literals are read, and the few operations that people write on
them (a product of small numbers, a sum of texts, as_bytes, os.path.join) are done here.
"""

import ast
import os.path
from typing import AbstractSet, Any, Dict, Iterator, List, Optional, Set, Tuple

from ascend_session.audit.objects import UNKNOWN, EnvironmentText, Known, OneOf, dotted_name
from ascend_session.audit.syntax import FUNCTIONS, SyntaxTree, is_vendor_module, last_name

_DEEPEST = 40  # expressions and names within each other
_LONGEST = 4096  # characters of a text that is put together
_MOST_BITS = 64  # of a number that is computed, or compared
_LITERALS = ("Constant", "Str", "Num", "Bytes", "NameConstant")  # the last four up to Python 3.7
_ENVIRONMENT = ("os.getenv", "os.environ.get", "getenv", "environ.get")


class Constants:
    """The constants of one script.

    Args:
        tree: Its syntax tree.

    Attributes:
        moving: The names that a scope assigns for another one.
    """

    def __init__(self, tree: SyntaxTree) -> None:
        self._tree = tree
        self._values: Dict[int, Any] = {}  # of expressions, by id
        # What each scope binds: the one expression that a name is assigned, or None.
        self._names: Dict[int, Dict[str, Optional[ast.AST]]] = {}
        self.moving: Set[str] = set()
        self._read_names()

    def _read_names(self) -> None:
        for node in self._tree.nodes(ast.Name):
            if not isinstance(node.ctx, ast.Load):
                parent = self._tree.parent(node)
                is_plain = isinstance(parent, ast.Assign) or (
                    isinstance(parent, ast.AnnAssign) and parent.value is not None
                )
                if is_plain or not isinstance(parent, ast.AnnAssign):
                    self._bind(node, node.id, getattr(parent, "value", None) if is_plain else None)
        for node, name in self._other_names():
            self._bind(node, name, None)
        for node in self._tree.nodes(ast.Global, ast.Nonlocal):
            self.moving.update(node.names)
        for node in self._tree.nodes(ast.ImportFrom):
            if node.names[0].name == "*" and not is_vendor_module(node.module or ""):
                scope = self._names.get(id(self._tree.definition(node) or self._tree.root), {})
                for name, value in scope.items():  # another file may bind what was bound before
                    if value is not None and getattr(value, "lineno", 0) < node.lineno:
                        scope[name] = None

    def _other_names(self) -> Iterator[Tuple[ast.AST, str]]:
        """Yield statements that bind a name without an assignment, and the name."""
        for node in self._tree.nodes(ast.arg):
            yield node, node.arg
        for node in self._tree.nodes(ast.Import, ast.ImportFrom):
            for alias in node.names:
                yield node, (alias.asname or alias.name).partition(".")[0]
        for node in self._tree.nodes(*FUNCTIONS, ast.ClassDef, ast.ExceptHandler):
            yield node, node.name
        for kind in ("MatchAs", "MatchStar"):  # of Python 3.10
            for node in self._tree.nodes(getattr(ast, kind, type(None))):
                yield node, node.name

    def _bind(self, node: ast.AST, name: str, value: Optional[ast.AST]) -> None:
        scope = self._names.setdefault(id(self._tree.definition(node) or self._tree.root), {})
        scope[name] = value if name not in scope else None

    def names_of(self, scope: ast.AST) -> AbstractSet[str]:
        """Return the local names of a function or class."""
        return set(self._names.get(id(scope), ())) - self.moving

    def assigned(self, node: ast.AST) -> ast.AST:
        """Return the expression that a name stands for; ``node`` itself if it is no such name."""
        for _ in range(_DEEPEST):
            value = self._assigned_once(node) if isinstance(node, ast.Name) else None
            if value is None:
                break
            node = value
        return node

    def _assigned_once(self, node: ast.Name) -> Optional[ast.AST]:
        if node.id in self.moving:
            return None
        around = list(self._tree.definitions_around(node))
        for number, scope in enumerate([*around, self._tree.root]):
            is_seen = number == 0 or not isinstance(scope, ast.ClassDef)
            if is_seen and node.id in self._names.get(id(scope), {}):
                return self._names[id(scope)][node.id]
        return None

    def value(self, node: ast.AST, depth: int = _DEEPEST) -> Any:
        """Return the value of an expression, as far as known."""
        if id(node) not in self._values:
            self._values[id(node)] = UNKNOWN  # for a name that is assigned what it is part of
            if depth:
                self._values[id(node)] = self._read(node, depth - 1)
        return self._values[id(node)]

    def _read(self, node: ast.AST, depth: int) -> Any:
        if type(node).__name__ in _LITERALS:
            return _read_literal(node)
        if isinstance(node, ast.Name):
            value = self._assigned_once(node)
            result: Any = UNKNOWN if value is None else self.value(value, depth)
            is_container = isinstance(getattr(result, "value", None), (list, tuple, dict))
            return UNKNOWN if is_container else result  # it may have been changed since
        if isinstance(node, (ast.List, ast.Tuple)):
            items = self._items(node.elts, depth)
            kind = list if isinstance(node, ast.List) else tuple
            return UNKNOWN if items is None else Known(kind(items))
        if isinstance(node, ast.Dict):
            keys, items = self._items(node.keys, depth), self._items(node.values, depth)
            if (
                keys is None
                or items is None
                or any(isinstance(k, (list, dict, tuple)) for k in keys)
            ):
                return UNKNOWN
            return Known(dict(zip(keys, items)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = getattr(self.value(node.operand, depth), "value", None)
            return Known(-number) if isinstance(number, (int, float)) else UNKNOWN
        if isinstance(node, ast.BinOp):
            return _compute(node.op, self.value(node.left, depth), self.value(node.right, depth))
        if isinstance(node, ast.IfExp):
            arms = self.value(node.body, depth), self.value(node.orelse, depth)
            if arms[0] == arms[1]:
                return arms[0]
            return OneOf(arms) if all(isinstance(each, Known) for each in arms) else UNKNOWN
        return self._read_call(node, depth) if isinstance(node, ast.Call) else UNKNOWN

    def _items(self, nodes: List[Any], depth: int) -> Optional[List[Any]]:
        """List constants; None if one of them is not known."""
        values: List[Any] = [UNKNOWN if node is None else self.value(node, depth) for node in nodes]
        are_constant = all(isinstance(value, Known) for value in values)
        return [value.value for value in values] if are_constant else None

    def _read_call(self, node: ast.Call, depth: int) -> Any:
        name, last = dotted_name(node.func), last_name(node.func)
        if last == "encode" and isinstance(node.func, ast.Attribute):
            return _convert("as_bytes", self.value(node.func.value, depth))
        if node.keywords or not node.args:
            return UNKNOWN
        if name == "os.path.join":
            parts = self._items(node.args, depth)
            is_text = parts is not None and all(isinstance(part, str) for part in parts)
            return Known(os.path.join(*parts)) if parts and is_text else UNKNOWN
        if len(node.args) > 1 and last not in ("bytes", "as_bytes", "as_str", "as_text"):
            return UNKNOWN
        value = self.value(node.args[0], depth)
        if name in _ENVIRONMENT:
            return EnvironmentText(str(value.value)) if isinstance(value, Known) else UNKNOWN
        return _convert(last, value)


def _read_literal(node: ast.AST) -> Any:
    value = next(getattr(node, each) for each in ("value", "s", "n") if hasattr(node, each))
    if not isinstance(value, (str, bytes, int, float, type(None))):
        return UNKNOWN
    is_large = isinstance(value, int) and value.bit_length() > _MOST_BITS
    return UNKNOWN if is_large else Known(value)


def _compute(operator: ast.AST, left: Any, right: Any) -> Any:
    """Add two short texts, or compute with two small whole numbers."""
    if not isinstance(left, Known) or not isinstance(right, Known):
        return UNKNOWN
    first, second = left.value, right.value
    if isinstance(operator, ast.Add) and type(first) is type(second) in (str, bytes):
        return Known(first + second) if len(first) + len(second) <= _LONGEST else UNKNOWN
    if type(first) is not int or type(second) is not int:
        return UNKNOWN
    if isinstance(operator, ast.Mult):
        result = first * second
    elif isinstance(operator, (ast.Add, ast.Sub)):
        result = first + second if isinstance(operator, ast.Add) else first - second
    else:
        return UNKNOWN
    return Known(result) if result.bit_length() <= _MOST_BITS else UNKNOWN


def _convert(name: str, value: Any) -> Any:
    """Return the result of a known function for one constant."""
    if isinstance(value, OneOf):
        arms = tuple(_convert(name, each) for each in value.values)
        return UNKNOWN if UNKNOWN in arms else OneOf(arms)
    if isinstance(value, EnvironmentText):
        return value if name == "as_bytes" else UNKNOWN
    if not isinstance(value, Known):
        return UNKNOWN
    constant = value.value
    try:
        if name in ("as_bytes", "bytes") and isinstance(constant, (str, bytes)):
            return Known(constant.encode() if isinstance(constant, str) else constant)
        if name in ("as_str", "as_text") and isinstance(constant, (str, bytes)):
            return Known(constant.decode() if isinstance(constant, bytes) else constant)
        if name in ("str", "as_str_any") and isinstance(constant, (str, int, float, type(None))):
            return Known(str(constant))
        if name == "int" and isinstance(constant, (str, int)) and len(str(constant)) < 20:
            return Known(int(constant))
    except ValueError:  # text that is no number, or cannot be encoded or decoded
        pass
    return UNKNOWN
