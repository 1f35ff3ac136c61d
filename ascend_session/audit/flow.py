"""How statements end, and what calls of functions come to."""

import ast
from typing import Any, Dict, List

from ascend_session.audit.scopes import dotted, is_object, let_go
from ascend_session.audit.values import UNKNOWN, either

__all__ = ["TELLING", "defaults_of", "ends", "is_main", "returned"]


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


TELLING = {
    "ConfigProto",
    "NPURunConfig",
    "RewriterConfig",
    "custom_optimizers",
    "graph_options",
    "npu_config_proto",
    "parameter_map",
    "rewrite_options",
}
"""The names that configurations are built with."""


def defaults_of(parameters: ast.arguments) -> Dict[str, ast.expr]:
    """The defaults of a function's parameters."""
    names = [each.arg for each in parameters.args]
    last = parameters.defaults
    found = dict(zip(names[len(names) - len(last) :], last))
    for each, value in zip(parameters.kwonlyargs, parameters.kw_defaults):
        if value is not None:
            found[each.arg] = value
    return found
