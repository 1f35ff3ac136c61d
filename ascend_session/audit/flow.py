"""How statements end, and what calls of functions come to."""

import ast
from typing import Any, List

from ascend_session.audit.scopes import is_object, let_go
from ascend_session.audit.values import UNKNOWN, either

__all__ = ["ends", "is_main", "returned"]


def returned(values: List[Any]) -> Any:
    """What a function gives whose ``return`` statements give ``values``."""
    objects = [each for each in values if is_object(each)]
    if objects:
        for other in objects[1:]:
            if other is not objects[0]:
                let_go(other)
        return objects[0]
    if not values:
        return UNKNOWN
    found = values[0]
    for value in values[1:]:
        found = either(found, value)
    return found


def is_main(test: ast.AST) -> bool:
    """Whether this is the test of ``if __name__ == "__main__"``."""
    return isinstance(test, ast.Compare) and dotted(test.left) == "__name__"


def ends(body: List[ast.stmt]) -> bool:
    """Whether nothing after this block runs."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return dotted(last.value.func) in ("exit", "quit", "sys.exit", "os._exit")
    return isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break))
