"""Follows a script from top to bottom, statement by statement, without running any of it.

What is followed: names, attributes of objects, functions and methods of the script itself (their
calls too), loops over constants, both arms of each ``if``. What is not known stays unknown.
"""

import ast
import contextlib
from typing import Any, Dict, List, Optional, Tuple

from ascend_session.audit.expressions import CLASSES, LITERALS, Evaluator, word_of
from ascend_session.audit.objects import (
    UNKNOWN,
    Class,
    Entry,
    Function,
    Instance,
    Known,
    Part,
    Proto,
    Scope,
    dotted,
    either,
    is_object,
    let_go,
)
from ascend_session.audit.source import Source


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


_DEEPEST = 6  # calls within calls that are followed
_MOST_CALLS = 400  # of one script
_SHORT = 6  # statements of a function whose constants are followed too
_MOST_TURNS = 64  # of a loop over constants

_Arguments = Tuple[List[Any], Dict[str, Any], bool]


class Reader(Evaluator):
    """Reads one script; ``protos``, ``entries`` and ``constructions`` then say what it builds.

    Args:
        source: The script.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.stack: List[Any] = []  # the functions that are being followed
        self.module = Scope()
        self._calls = 0
        self._returns: List[List[Any]] = []
        self._functions: List[Function] = []
        self._classes: List[Class] = []
        self._followed: set = set()  # type: ignore[type-arg]
        self._telling = source.tree.around({*TELLING, *CLASSES})

    def read(self) -> "Reader":
        """Follows the module, and then the functions and classes that nothing in it calls."""
        self.block(getattr(self.source.tree.root, "body", []), self.module)
        held = {name for name, value in self.module.names.items() if is_object(value)}
        self._telling |= self.source.tree.around(held)  # a function may hand them to a session
        while self._functions or self._classes:
            functions, self._functions = self._functions, []
            classes, self._classes = self._classes, []
            for each in classes:
                if id(each.node) in self._telling:
                    self._whole_class(each)
            for function in functions:
                is_new = id(function.node) not in self._followed and function.of is None
                if is_new and id(function.node) in self._telling:
                    self._alone(function, None)
        return self

    def _whole_class(self, of: Class) -> None:
        instance = of.instance or self.instance_of(of, None)
        for method in list(of.scope.names.values()):
            if isinstance(method, Function) and id(method.node) not in self._followed:
                self._alone(method, instance)

    def _alone(self, function: Function, instance: Optional[Instance]) -> None:
        """Follows a function that nobody calls here; whoever calls it gets what it returns."""
        self._calls = 0
        self.branch = ((id(function.node), 0),)  # a run of the script need not pass it
        let_go(self.run(function, ([], {}, True), instance, alone=True))
        self.branch = ()

    def instance_of(self, of: Class, arguments: Optional[_Arguments]) -> Instance:
        """An object of a class of the script; None for arguments that nobody says."""
        instance = Instance(of)
        if of.instance is None:
            of.instance = instance
        start = of.scope.names.get("__init__")
        if isinstance(start, Function):
            self.run(start, arguments or ([], {}, True), instance, alone=True)
        return instance

    def run(
        self,
        function: Function,
        arguments: _Arguments,
        instance: Optional[Instance],
        alone: bool = False,
    ) -> Any:
        """What a call of a function of the script gives; its body is followed once more."""
        node = function.node
        self._calls += 1
        given = [*arguments[0], *arguments[1].values()]
        deep = len(self.stack) >= _DEEPEST or self._calls > _MOST_CALLS or node in self.stack
        if deep or not (alone or any(map(is_object, given)) or self._matters(node)):
            for value in given:
                let_go(value)
            return UNKNOWN
        self._followed.add(id(node))
        scope = Scope(function.scope)
        self._bind(node.args, arguments, instance, scope, function)
        kept = self.branch, self.loops
        self.stack.append(node)
        self._returns.append([])
        self.block(node.body, scope)
        self.branch, self.loops = kept
        self.stack.pop()
        return returned(self._returns.pop())

    def _bind(
        self,
        parameters: ast.arguments,
        arguments: _Arguments,
        instance: Optional[Instance],
        scope: Scope,
        function: Function,
    ) -> None:
        names = [each.arg for each in parameters.args]
        positional, named, opaque = arguments
        marks = {dotted(each) for each in function.node.decorator_list}
        if instance is not None and "staticmethod" not in marks:
            positional = [instance, *positional]
        defaults = defaults_of(parameters)
        given = {**dict(zip(names, positional)), **named}
        for name in (*names, *(each.arg for each in parameters.kwonlyargs)):
            if name in given:
                scope.names[name] = given[name]
            elif name in defaults and not opaque:
                scope.names[name] = self.value(defaults[name], function.scope)
            else:
                scope.names[name] = UNKNOWN
        for rest in (parameters.vararg, parameters.kwarg):
            if rest is not None:
                scope.names[rest.arg] = UNKNOWN

    def _matters(self, node: Any) -> bool:
        """Whether a call can tell anything: the function is short, or builds a configuration."""
        return len(node.body) <= _SHORT or id(node) in self._telling

    def block(self, statements: List[ast.stmt], scope: Scope) -> None:
        """Follows statements in their order."""
        kept = self.branch
        for statement in statements:
            # Some thousand texts joined by + are deeper than Python counts, and tell nothing.
            with contextlib.suppress(RecursionError):
                if isinstance(statement, ast.If):
                    self._if(statement, scope)
                else:
                    self._statement(statement, scope)
        self.branch = kept

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        if isinstance(node, ast.Assign):
            value = self.value(node.value, scope)
            for target in node.targets:
                self.assign(target, value, node.value, scope)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self.value(node.value, scope), node.value, scope)
        elif isinstance(node, ast.AugAssign):
            self.value(node.value, scope)
            self.assign(node.target, UNKNOWN, node.value, scope)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._define(node, scope)
        elif isinstance(node, ast.ClassDef):
            self._define_class(node, scope)
        elif isinstance(node, ast.Return):
            value = self.value(node.value, scope) if node.value is not None else Known(None)
            if self._returns:
                self._returns[-1].append(value)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._for(node, scope)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            self._with(node, scope)
        elif isinstance(node, ast.Try):
            self._try(node, scope)
        elif isinstance(node, ast.Global):
            scope.outside |= set(node.names)
        else:
            self._any(node, scope)

    def _any(self, node: ast.AST, scope: Scope) -> None:
        """A statement without a meaning of its own here: its expressions, then its blocks."""
        for _, part in ast.iter_fields(node):
            if isinstance(part, ast.expr):
                self.value(part, scope)
            elif isinstance(part, list) and part and isinstance(part[0], ast.stmt):
                self.loops += 1
                self.block(part, scope)
                self.loops -= 1
            elif isinstance(part, list):
                for each in part:
                    if isinstance(each, ast.AST):
                        self._any(each, scope)

    def _define(self, node: Any, scope: Scope) -> None:
        for each in (*node.decorator_list, *node.args.defaults):
            self.value(each, scope)
        function = Function(node, scope)
        scope.bind(node.name, function)
        self._functions.append(function)

    def _define_class(self, node: ast.ClassDef, scope: Scope) -> None:
        of = Class(node, scope)
        scope.bind(node.name, of)
        self._classes.append(of)
        kept, self._functions = self._functions, []
        self.block(node.body, of.scope)
        self._functions = kept
        for name, value in of.scope.names.items():
            if isinstance(value, Function):  # a method sees the names around its class, not in it
                of.scope.names[name] = Function(value.node, scope, of)

    def _if(self, node: ast.If, scope: Scope) -> None:
        """Both arms; what follows an arm that ends is in the other arm."""
        test = self.value(node.test, scope)
        is_constant = isinstance(test, Known) and type(node.test).__name__ in LITERALS
        if is_constant or is_main(node.test):
            self.block(node.body if not is_constant or test.value else node.orelse, scope)
            return
        outer = self.branch
        left: List[Dict[str, Any]] = []
        going_on: List[int] = []
        for arm, body in enumerate((node.body, node.orelse)):
            self.branch = (*outer, (id(node), arm))
            scope.begin()
            self.block(body, scope)
            names = scope.end()
            if not ends(body):
                left.append(names)
                going_on.append(arm)
        scope.join(*left)
        self.branch = (*outer, (id(node), going_on[0])) if len(going_on) == 1 else outer

    def _for(self, node: Any, scope: Scope) -> None:
        turns = self.value(node.iter, scope)
        items = turns.value if isinstance(turns, Known) else None
        if isinstance(items, dict):
            items = [Known(key) for key in items]
        if not isinstance(items, (list, tuple)) or len(items) > _MOST_TURNS:
            items = [UNKNOWN]
        self.loops += 1
        for item in items:
            self.assign(node.target, item, node.iter, scope)
            self.block(node.body, scope)
        self.loops -= 1
        self.block(node.orelse, scope)

    def _with(self, node: Any, scope: Scope) -> None:
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, item.context_expr, scope)
        self.block(node.body, scope)

    def _try(self, node: ast.Try, scope: Scope) -> None:
        outer = self.branch
        self.block(node.body, scope)
        for number, handler in enumerate(node.handlers, 1):
            scope.begin()
            self.branch = (*outer, (id(node), number))
            self.block(handler.body, scope)
            names = scope.end()
            if not ends(handler.body):
                scope.join({}, names)
        self.branch = outer
        self.block(node.orelse, scope)
        self.block(node.finalbody, scope)

    def assign(self, target: ast.AST, value: Any, written: ast.AST, scope: Scope) -> None:
        """Gives ``target`` the ``value``, which is ``written`` so."""
        if isinstance(value, Proto):
            self._note_name(value, target, scope)
        if isinstance(target, ast.Name):
            scope.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            inner = value.value if isinstance(value, Known) else None
            parts = list(inner) if isinstance(inner, (list, tuple)) else []
            if len(parts) != len(target.elts):
                let_go(value)
                parts = [UNKNOWN] * len(target.elts)
            for each, part in zip(target.elts, parts):
                self.assign(each, part, written, scope)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value, written, scope)
        elif isinstance(target, ast.Subscript):
            self.value(target.value, scope)
            let_go(value)

    def _note_name(self, proto: Proto, target: ast.AST, scope: Scope) -> None:
        """Notes the name, and the function it belongs to; None for one that others may see."""
        function = self.stack[-1] if self.stack else self.source.tree.root
        is_plain = isinstance(target, ast.Name) and target.id not in scope.outside
        is_plain = is_plain and not scope.is_class  # its names are seen as attributes
        proto.names.append((dotted(target), function if is_plain else None))

    def _set_attribute(
        self, target: ast.Attribute, value: Any, written: ast.AST, scope: Scope
    ) -> None:
        owner = self.value(target.value, scope)
        path: Tuple[Any, ...] = (target.attr,)
        if isinstance(owner, Part):
            path, owner = (*owner.path, target.attr), owner.owner
        if isinstance(owner, Entry):
            self.set_option(target, owner, path, value)
        elif isinstance(owner, Proto):
            self.set_toggle(target, owner, path, word_of(written, value))
            if path[-1] in ("graph_options", "rewrite_options"):
                let_go(owner)
        elif isinstance(owner, Instance):
            self.assign_dotted(target, dotted(target), value, scope)
        else:
            if is_object(value):
                let_go(value)
            if dotted(target):
                scope.bind(dotted(target), value)
