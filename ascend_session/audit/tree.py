"""The way up in a syntax tree, which Python's own nodes do not have."""

import ast
from typing import Any, Dict, Iterator, Optional

__all__ = ["Parents"]


class Parents:
    """The parents of the nodes below ``root``.

    Args:
        root: A syntax tree.
    """

    def __init__(self, root: Any) -> None:
        self._above: Dict[int, ast.AST] = {}
        for node in ast.walk(root):
            for child in ast.iter_child_nodes(node):
                self._above[id(child)] = node

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
