"""A syntax tree that was walked once: its nodes by kind, and the way up that Python's lack."""

import ast
from typing import AbstractSet, Any, Dict, Iterator, List, Optional, Set

__all__ = ["Tree"]

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Tree:
    """A syntax tree.

    Args:
        root: The module, as Python's parser returns it.

    Attributes:
        root: The module.
        nodes: All nodes.
    """

    def __init__(self, root: ast.AST) -> None:
        self.root = root
        self.nodes: List[ast.AST] = [root]
        self._above: Dict[int, ast.AST] = {}
        self._kinds: Dict[type, List[Any]] = {}
        above, kinds = self._above, self._kinds
        for node in self.nodes:  # grows while it is walked
            kinds.setdefault(type(node), []).append(node)
            for field in node._fields:
                value = getattr(node, field, None)
                if isinstance(value, ast.AST):
                    if value._fields:  # else it is Load or Add or the like, one for all places
                        above[id(value)] = node
                        self.nodes.append(value)
                elif isinstance(value, list):
                    for each in value:
                        if isinstance(each, ast.AST):
                            above[id(each)] = node
                            self.nodes.append(each)

    def kind(self, *kinds: type) -> List[Any]:
        """The nodes of these kinds."""
        return [node for kind in kinds for node in self._kinds.get(kind, ())]

    def around(self, names: AbstractSet[str]) -> Set[int]:
        """The functions and classes, by id, that name any of ``names``, or one that does."""
        by_name: Dict[str, List[ast.AST]] = {}
        for node in self.kind(ast.Name):
            by_name.setdefault(node.id, []).append(node)
        for node in self.kind(ast.Attribute):
            by_name.setdefault(node.attr, []).append(node)
        found: Set[int] = set()
        left = list(names)
        while left:
            for node in by_name.pop(left.pop(), ()):
                for above in self.all_of(node):
                    is_named = isinstance(
                        above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
                    )
                    if is_named and id(above) not in found:
                        found.add(id(above))
                        left.append(above.name)  # type: ignore[attr-defined]
        return found

    def of(self, node: ast.AST) -> Optional[ast.AST]:
        """The node around ``node``; None at the root."""
        return self._above.get(id(node))

    def all_of(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, from inside out."""
        above = self.of(node)
        while above is not None:
            yield above
            above = self.of(above)

    def function_of(self, node: ast.AST) -> Optional[Any]:
        """The function that ``node`` stands in; None in none."""
        for above in self.all_of(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return above
        return None
