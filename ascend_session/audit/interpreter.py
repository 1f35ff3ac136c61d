"""Follows a script from top to bottom, statement by statement, without running any of it.

What is followed: names, attributes of objects, functions and methods of the script itself (their
calls too), loops over constants, both arms of each ``if``. What is not known stays unknown. What a
script may not come to, or may change without that being seen, is not known either. Only so much of
a script is followed, whatever its loops and calls come to.
"""

import ast
import contextlib
from functools import reduce
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from ascend_session.audit.configurations import (
    ONLY_READING,
    CallArguments,
    Configurations,
    TooLongError,
    assigned_word,
)
from ascend_session.audit.objects import (
    UNKNOWN,
    AttributePath,
    Class,
    Function,
    Instance,
    Known,
    OneOf,
    OptimizerEntry,
    Proto,
    Scope,
    apply_operator,
    dotted_name,
    either,
    is_object,
    limit_size,
    mark_shared,
)
from ascend_session.audit.options import POSITIONAL, find_vendor_classes
from ascend_session.audit.source import Script, SyntaxTree, is_vendor_module

_DEEPEST_CALLS = 6  # calls within calls that are followed
_MOST_CALLS = 400  # of one script
_SHORT = 6  # statements of a function whose constants are followed too
_MOST_TURNS = 64  # of a loop over constants
_MOST_STEPS = 400_000  # expressions and statements, each time they are followed
_DEEPEST_NESTING = 100  # and expressions, within each other
_MOST_ENDS = 100  # arms that end, on the way to a statement

# The names that configurations are built with.
_BUILDING = {
    *("ConfigProto", "NPURunConfig", "RewriterConfig", "custom_optimizers", "graph_options"),
    *("npu_config_proto", "parameter_map", "rewrite_options"),
}
_INTO = ("graph_options", "rewrite_options", "custom_optimizers")
_LITERALS = ("Constant", "Str", "Num", "Bytes", "NameConstant")  # the last four up to Python 3.7

# Decorators that leave what a function returns as it is.
_PLAIN_DECORATORS = ("staticmethod", "classmethod", "abstractmethod", "lru_cache", "cache")
# What changes no list and no dict, and gives none back that is not followed: functions by their
# whole name, methods and functions of modules by their last.
_READING_BUILTINS = {
    *("all", "any", "bool", "float", "format", "getattr", "hash", "id", "int", "range", "repr"),
    *("sum", "callable", "bytes"),
}
_READING = {
    *("count", "index", "items", "keys", "values", "deepcopy", "format", "join", "encode"),
    *("dump", "dumps", "pformat", "pprint"),
    *("critical", "debug", "error", "exception", "info", "log", "warn", "warning"),
    *ONLY_READING,
}
# What changes none either, but gives back the lists and dicts that stand in another.
_PICKING_BUILTINS = {
    *("dict", "enumerate", "filter", "frozenset", "iter", "list", "map", "max", "min", "next"),
    *("reversed", "set", "sorted", "tuple", "zip"),
}
_PICKING = {"copy", "get"}
_PASSING_ON = (
    *(ast.Await, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.ListComp, ast.Yield),
    ast.YieldFrom,
)
_CHANGING = {
    *("append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault"),
    *("sort", "update"),
}

_NOT_SEEN = CallArguments([], {}, True)


class ScriptInterpreter(ast.NodeVisitor):
    """Follows one script; see `follow`.

    Args:
        script: The script.
    """

    def __init__(self, script: Script) -> None:
        self._built = Configurations(script)
        self._script = script
        self._vendor_classes = find_vendor_classes(script.tree)
        self._stack: List[Any] = []  # the functions that are being followed
        self._returns: List[List[Any]] = []
        self._call_count = 0
        self._functions: List[Function] = []
        self._classes: List[Class] = []
        self._followed: Set[int] = set()
        self._step_count = self._depth = 0
        # Lists and dicts, by id: those that may hold anything by now, lists whose items may stand
        # elsewhere in them, and those that stand in another and do not grow.
        self._forgotten: Dict[int, Any] = {}
        self._grown: Dict[int, Any] = {}
        self._held: Dict[int, Any] = {}
        self._apart = 0  # within how many blocks and expressions that may not run to their end
        self._leaving: List[List[Dict[str, Any]]] = []  # of loops: names where a turn ends early
        changed = _find_changed_names(script.tree)
        self._building = script.tree.definitions_using({*_BUILDING, *POSITIONAL, *changed})
        self._scope = Scope()

    def follow(self) -> Configurations:
        """Follow the module, and then the functions and classes that nothing in it calls.

        Returns:
            What the script builds.
        """
        try:
            self._follow_module()
        except TooLongError:
            self._built.is_cut_short = True
        return self._built

    def visit(self, node: ast.AST) -> Any:
        """Follow a statement, or evaluate an expression.

        Raises:
            TooLongError: If so much of the script was followed that it is enough.
        """
        self._step_count += 1
        if self._step_count > _MOST_STEPS:
            raise TooLongError
        if self._depth > _DEEPEST_NESTING:
            # Some thousand texts joined by + are deeper than Python counts, and tell nothing.
            self._built.is_cut_short |= isinstance(node, ast.stmt)
            return UNKNOWN
        self._depth += 1
        value = super().visit(node)
        self._depth -= 1
        is_forgotten = isinstance(value, Known) and id(value.value) in self._forgotten
        return UNKNOWN if is_forgotten else value

    def _follow_module(self) -> None:
        module, tree = self._scope, self._script.tree
        self._block(getattr(tree.root, "body", []))
        held = {name for name, value in module.names.items() if is_object(value)}
        self._building |= tree.definitions_using(held)  # a function may hand them to a session
        while self._functions or self._classes:
            functions, self._functions = self._functions, []
            classes, self._classes = self._classes, []
            for each in classes:
                if id(each.node) in self._building:
                    instance = each.instance or self._instantiate(each, _NOT_SEEN)
                    for method in list(each.scope.names.values()):
                        if isinstance(method, Function):
                            self._follow_uncalled(method, instance)
            for function in functions:
                if id(function.node) in self._building:
                    self._follow_uncalled(function, None)

    def _follow_uncalled(self, function: Function, instance: Optional[Instance]) -> None:
        """Follow a function that nothing here calls; what calls it gets what it returns."""
        if id(function.node) in self._followed:
            return
        self._call_count = 0
        self._built.branch = ((id(function.node), 0),)  # a run of the script need not pass it
        self._scope.begin_arm()
        mark_shared(self._run(function, _NOT_SEEN, instance, always=True))
        self._scope.join_arms({}, self._scope.end_arm())
        self._built.branch = ()

    # Functions and classes of the script

    def _run(
        self,
        function: Function,
        arguments: CallArguments,
        instance: Optional[Instance] = None,
        always: bool = False,
    ) -> Any:
        """Follow the body of a function once more, and give what this call of it returns.

        A function that can tell nothing is left out, unless it is ``always`` followed.
        """
        node = function.node
        self._call_count += 1
        is_deep = len(self._stack) >= _DEEPEST_CALLS or node in self._stack
        can_tell = always or len(node.body) <= _SHORT or id(node) in self._building
        can_tell = can_tell or instance is not None or any(map(is_object, arguments.values))
        can_tell = can_tell or any(map(_parts, arguments.values))
        if is_deep or self._call_count > _MOST_CALLS or not can_tell:
            for value in arguments.values:
                mark_shared(value)
            self._forget(*arguments.values, instance)
            return UNKNOWN
        self._followed.add(id(node))
        kept = self._built.branch, self._built.loops
        self._stack.append(node)
        self._returns.append([])
        try:
            with self._in_scope(function.scope):
                scope = self._bind_parameters(function, arguments, instance)
            with self._in_scope(scope):
                self._block(node.body)
        finally:
            self._built.branch, self._built.loops = kept
            self._stack.pop()
            values = self._returns.pop()
        returned = reduce(either, values) if values else UNKNOWN
        called = [getattr(each, "func", each) for each in node.decorator_list]
        decorators = {dotted_name(each).rpartition(".")[2] for each in called}
        return returned if is_object(returned) or decorators <= {*_PLAIN_DECORATORS} else UNKNOWN

    @contextlib.contextmanager
    def _in_scope(self, scope: Scope) -> Iterator[None]:
        kept, self._scope = self._scope, scope
        try:
            yield
        finally:
            self._scope = kept

    def _bind_parameters(
        self, function: Function, arguments: CallArguments, instance: Optional[Instance]
    ) -> Scope:
        """Make the scope of a call; defaults are evaluated where the function was defined."""
        parameters = function.node.args
        positional_only = getattr(parameters, "posonlyargs", [])  # since Python 3.8
        names = [each.arg for each in (*positional_only, *parameters.args)]
        keyword_only = [each.arg for each in parameters.kwonlyargs]
        defaults = dict(zip(names[len(names) - len(parameters.defaults) :], parameters.defaults))
        defaults.update(zip(keyword_only, parameters.kw_defaults))  # None where there is none
        positional = arguments.positional
        decorators = {dotted_name(each) for each in function.node.decorator_list}
        if instance is not None and "staticmethod" not in decorators:
            positional = [instance, *positional]
        given = {**dict(zip(names, positional)), **arguments.named}
        scope = Scope(function.scope)
        for name in (*names, *keyword_only):
            default = None if arguments.opaque else defaults.get(name)
            scope.names[name] = given[name] if name in given else self._value(default)
        self._forget(*arguments.spread, *positional[len(names) :])
        self._forget(*(given[name] for name in given if name not in scope.names))
        for rest in (parameters.vararg, parameters.kwarg):
            if rest is not None:
                scope.names[rest.arg] = UNKNOWN
        return scope

    def _instantiate(self, of: Class, arguments: CallArguments) -> Instance:
        instance = Instance(of)
        of.instance = of.instance or instance
        init = of.scope.names.get("__init__")
        if isinstance(init, Function):
            self._run(init, arguments, instance, always=True)
        else:
            self._forget(*arguments.values)
        return instance

    # Statements

    def _block(self, statements: List[ast.stmt]) -> None:
        kept = self._built.branch
        for statement in statements:
            self.visit(statement)
        self._built.branch = kept

    def generic_visit(self, node: ast.AST) -> Any:
        """Evaluate what is in an expression or statement that has no meaning of its own here.

        The objects in an expression are marked as shared.
        """
        if isinstance(node, (ast.expr, ast.comprehension, ast.keyword)):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.expr, ast.comprehension, ast.keyword)):
                    value = self.visit(child)
                    mark_shared(value)
                    if isinstance(node, _PASSING_ON):
                        self._forget(value)
            return UNKNOWN
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.visit(child)
        return None

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self._assign(target, value, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self.visit(node.value), node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self._forget(self.visit(node.target))
        self._assign(node.target, UNKNOWN, node.value)

    def visit_NamedExpr(self, node: Any) -> Any:
        value = self.visit(node.value)
        self._assign(node.target, value, node.value)
        return value

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            value = self.visit(target)
            if isinstance(value, AttributePath) and isinstance(value.owner, OptimizerEntry):
                value.owner.opaque = True
            if isinstance(target, ast.Subscript):
                self._remove_item(self.visit(target.value), self._index(target))
            else:
                self._assign(target, UNKNOWN, target)

    def visit_Import(self, node: Any) -> None:
        for alias in node.names:
            if alias.name != "*":
                self._scope.bind(alias.asname or alias.name.partition(".")[0], UNKNOWN)
            elif not is_vendor_module(node.module or ""):
                for name, value in list(self._scope.names.items()):
                    if not is_object(value) and not isinstance(value, (Function, Class)):
                        self._scope.bind(name, UNKNOWN)

    visit_ImportFrom = visit_Import

    def visit_Return(self, node: ast.Return) -> None:
        value = Known(None) if node.value is None else self.visit(node.value)
        if self._returns:
            self._returns[-1].append(value)

    def visit_FunctionDef(self, node: Any) -> None:
        for each in (*node.decorator_list, *node.args.defaults):
            self.visit(each)
        function = Function(node, self._scope)
        self._scope.bind(node.name, function)
        self._functions.append(function)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer = self._scope
        of = Class(node, outer)
        outer.bind(node.name, of)
        self._classes.append(of)
        kept, self._functions = self._functions, []
        with self._in_scope(of.scope):
            self._block(node.body)
        self._functions = kept
        for name, value in of.scope.names.items():
            if isinstance(value, Function):  # a method sees the names around its class, not in it
                of.scope.names[name] = Function(value.node, outer)

    def visit_Global(self, node: ast.Global) -> None:
        module = self._scope
        while module.parent is not None:
            module = module.parent
        if module is not self._scope:
            self._scope.outer_names.update(dict.fromkeys(node.names, module))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            outer = self._scope.parent
            while outer is not None and (name not in outer.names or outer.is_class):
                outer = outer.parent
            if outer is not None:
                self._scope.outer_names[name] = outer

    def visit_If(self, node: ast.If) -> None:
        """Follow all arms, also of ``elif``; what comes after one that ends is in the others."""
        arms: List[Tuple[List[ast.stmt], Sequence[str]]] = []
        rest: List[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            each = rest[0]
            test = self.visit(each.test)
            is_literal = isinstance(test, Known) and type(each.test).__name__ in _LITERALS
            is_main = (
                isinstance(each.test, ast.Compare) and dotted_name(each.test.left) == "__name__"
            )
            if is_literal or is_main:
                rest = each.body if is_main or test.value else each.orelse
                break
            arms.append((each.body, ()))
            rest = each.orelse
        if arms:
            self._follow_arms(node, [*arms, (rest, ())])
        else:
            self._block(rest)

    def visit_Match(self, node: Any) -> None:
        """Follow each case, and the way past all of them, as the arms of an ``if``."""
        self.visit(node.subject)
        arms: List[Tuple[List[ast.stmt], Sequence[str]]] = []
        for case in node.cases:
            parts = list(ast.walk(case.pattern))
            names = [getattr(part, "name", None) or getattr(part, "rest", None) for part in parts]
            arms.append((case.body, [name for name in names if name]))
        self._follow_arms(node, [*arms, ([], ())])

    def _follow_arms(
        self, node: ast.stmt, arms: List[Tuple[List[ast.stmt], Sequence[str]]]
    ) -> None:
        """Follow blocks of which a run passes one, each with the names that it binds by itself."""
        bound: Dict[int, Dict[str, Any]] = {}  # of the arms that go on
        for arm, (body, unknown) in enumerate(arms):
            names = self._follow_arm(node, arm, body, unknown)
            if not _ends(body):
                bound[arm] = names
        self._scope.join_arms(*bound.values())
        if len(bound) == 1:
            # Of very many ends the last ones are left out: what follows then depends on more.
            outer = self._built.branch[:_MOST_ENDS]
            self._built.branch = (*outer, (id(node), min(bound)))

    def _follow_arm(
        self, node: ast.stmt, arm: int, body: List[ast.stmt], unknown: Sequence[str] = ()
    ) -> Dict[str, Any]:
        """Follow a block that a run need not pass; return what it binds, which is undone."""
        outer = self._built.branch
        self._built.branch = (*outer, (id(node), arm))
        names = self._follow_apart(body, unknown)
        self._built.branch = outer
        if self._leaving and body and isinstance(body[-1], (ast.Break, ast.Continue)):
            self._leaving[-1].append(names)
        return names

    def _follow_apart(self, body: List[ast.stmt], unknown: Sequence[str] = ()) -> Dict[str, Any]:
        """Follow a block; return what it binds, which is undone."""
        self._scope.begin_arm()
        for name in unknown:
            self._scope.bind(name, UNKNOWN)
        self._apart += 1
        self._block(body)
        self._apart -= 1
        return self._scope.end_arm()

    def visit_For(self, node: Any) -> None:
        turns = self.visit(node.iter)
        items = turns.value if isinstance(turns, Known) else None
        if isinstance(items, dict):
            items = [Known(key) for key in items]
        if isinstance(items, (list, tuple)) and len(items) <= _MOST_TURNS:
            self._follow_loop(node, list(items), True)
        else:
            self._forget(*_parts(turns))
            self._follow_loop(node, [UNKNOWN], False)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._follow_loop(node, [UNKNOWN], False)

    def _follow_loop(self, node: Any, items: Sequence[Any], is_known: bool) -> None:
        """Follow the turns of a loop; if they are not known, there may be none."""
        self._built.loops += 1
        self._leaving.append([])
        self._scope.begin_arm()
        for item in items:
            if not isinstance(node, ast.While):
                self._assign(node.target, item, node.iter)
            self._block(node.body)
            self._scope.join_arms({}, *self._leaving[-1])
        names = self._scope.end_arm()
        arms = [names] if is_known else [names, {}]
        self._scope.join_arms(*arms)
        self._leaving.pop()
        self._built.loops -= 1
        self._block(node.orelse)

    def visit_With(self, node: Any) -> None:
        for item in node.items:
            value = self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value, item.context_expr)
        self._block(node.body)

    visit_AsyncWith = visit_With

    def visit_Try(self, node: Any) -> None:
        bound = [self._follow_apart(node.body)]
        self._scope.join_arms({}, bound[0])  # a handler is come to from anywhere in the body
        for arm, handler in enumerate(node.handlers, 1):
            name = [handler.name] if handler.name else []
            names = self._follow_arm(node, arm, handler.body, name)
            if not _ends(handler.body):
                bound.append(names)
        self._scope.join_arms(*bound)
        self._block(node.orelse)
        self._block(node.finalbody)

    visit_TryStar = visit_Try

    # Assignments

    def _assign(self, target: ast.AST, value: Any, written: ast.AST) -> None:
        """Give ``target`` the ``value``, which stands in the script as ``written``."""
        if isinstance(value, Proto):
            is_plain = isinstance(target, ast.Name) and target.id not in self._scope.outer_names
            is_plain = is_plain and not self._scope.is_class  # its names are seen as attributes
            function = self._stack[-1] if self._stack else self._script.tree.root
            value.names.append((dotted_name(target), function if is_plain else None))
        if isinstance(target, ast.Name):
            self._scope.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            inner = value.value if isinstance(value, Known) else None
            parts = list(inner) if isinstance(inner, (list, tuple)) else []
            has_rest = any(isinstance(each, ast.Starred) for each in target.elts)
            if has_rest or len(parts) != len(target.elts):
                mark_shared(value)
                self._forget(*_parts(value))
                parts = [UNKNOWN] * len(target.elts)
            for each, part in zip(target.elts, parts):
                self._assign(each, part, written)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value, written)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, value, written)
        elif isinstance(target, ast.Subscript):
            mark_shared(value)
            self._set_item(self.visit(target.value), self._index(target), value)

    def _set_item(self, owner: Any, index: Any, value: Any) -> None:
        """Note ``owner[index] = value``; if the index is not known, all items may be others."""
        content = owner.value if isinstance(owner, Known) else None
        value = self._as_item(value)
        is_known = _is_key(index) and id(content) not in self._grown
        is_there = isinstance(content, dict) and is_known and index.value in content
        if isinstance(content, list) and is_known and isinstance(index.value, int):
            is_there = -len(content) <= index.value < len(content)
        is_new = isinstance(content, dict) and is_known and self._may_grow(content)
        if not isinstance(content, (list, dict)) or not (is_there or is_new):
            self._forget(owner)
        elif self._surely_runs():
            content[index.value] = value
        else:
            old = content[index.value] if is_there else UNKNOWN
            content[index.value] = either(self._as_item(old), value)

    def _append_item(self, owner: Known, value: Any) -> None:
        """Note ``owner.append(value)`` of a list."""
        content, value = owner.value, self._as_item(value)
        if not self._may_grow(content):
            self._forget(owner)
        elif self._surely_runs():
            content.append(value)
        else:
            content.append(UNKNOWN)
            self._grown[id(content)] = content

    def _as_item(self, value: Any) -> Any:
        """Give what is followed of an item: no lists and dicts, so that none holds itself."""
        is_nested = isinstance(value, Known) and not _is_key(value)
        if is_nested or isinstance(value, OneOf):
            self._forget(value)
        return UNKNOWN if is_nested else value

    def _remove_item(self, owner: Any, index: Any) -> None:
        """Note ``del owner[index]``."""
        content = owner.value if isinstance(owner, Known) else None
        if isinstance(content, dict) and _is_key(index) and self._surely_runs():
            self._forget(content.pop(index.value, UNKNOWN))
        else:
            self._forget(owner)

    def _surely_runs(self) -> bool:
        """Whether what is being followed runs in any case, and once."""
        return not (self._built.branch or self._built.loops or self._apart)

    def _may_grow(self, content: Any) -> bool:
        return id(content) not in self._held and len(content) < _MOST_TURNS

    def _forget(self, *values: Any) -> None:
        """Note that lists and dicts may be changed, and all that stand in them.

        Under whatever names they are known: their content is not known any more.
        """
        seen: Set[int] = set()
        left = list(values)
        for value in left:  # grows while it is walked
            content = value.value if isinstance(value, Known) else value
            if id(content) in seen or id(content) in self._forgotten:
                continue
            seen.add(id(content))
            if isinstance(content, (list, dict)):
                self._forgotten[id(content)] = content
            left += _parts(value)
        self._step_count += len(left) // 4  # these are much faster than other steps

    def _assign_attribute(self, target: ast.Attribute, value: Any, written: ast.AST) -> None:
        owner = self.visit(target.value)
        path: Tuple[Any, ...] = (target.attr,)
        if isinstance(owner, AttributePath):
            path, owner = (*owner.path, target.attr), owner.owner
        if isinstance(owner, OptimizerEntry):
            self._built.set_option(target, owner, path, value)
        elif isinstance(owner, Proto):
            self._built.set_toggle(target, owner, path[-1], assigned_word(written, value))
            if path[-1] in ("graph_options", "rewrite_options"):
                mark_shared(owner)
        elif isinstance(owner, Instance):
            owner.assign(target.attr, value)
        elif isinstance(owner, Class):
            owner.scope.bind(target.attr, value)
        else:
            if is_object(value):
                mark_shared(value)
            if not dotted_name(target):
                self._forget(value)
            else:
                self._scope.bind(dotted_name(target), value)

    # Expressions

    def _value(self, node: Optional[ast.AST]) -> Any:
        return UNKNOWN if node is None else self.visit(node)

    def visit_Constant(self, node: ast.AST) -> Any:
        constant = ast.literal_eval(node)
        return UNKNOWN if constant is Ellipsis else limit_size(constant)

    # Before Python 3.8 these are constants, too.
    visit_Str = visit_Num = visit_Bytes = visit_NameConstant = visit_Constant

    def visit_Name(self, node: ast.Name) -> Any:
        return self._scope.find(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.visit(node.value)
        if isinstance(owner, Instance):
            return owner.find(node.attr)
        if isinstance(owner, Class):
            return owner.scope.names.get(node.attr, UNKNOWN)
        if isinstance(owner, OptimizerEntry) and node.attr == "list":
            return UNKNOWN
        if isinstance(owner, (Proto, OptimizerEntry)):
            return AttributePath(owner, (node.attr,))
        if isinstance(owner, AttributePath):
            return owner._replace(path=(*owner.path, node.attr))
        value = self._scope.find(dotted_name(node)) if dotted_name(node) else UNKNOWN
        if value is not UNKNOWN:
            return value
        if node.attr == "parameter_map" and self._script.is_npu:
            entry = self._built.new_entry(node.value, None)
            if dotted_name(node.value):
                self._bind_found(node.value, entry)
            return AttributePath(entry, ("parameter_map",))
        if node.attr in ("custom_optimizers", "rewrite_options"):
            return self._part_of_found_proto(node)
        return UNKNOWN

    def _part_of_found_proto(self, node: ast.Attribute) -> Any:
        """See a configuration for the first time: ``x`` of ``x.graph_options.rewrite_options``."""
        root: ast.AST = node
        while isinstance(root, ast.Attribute) and root.attr in _INTO:
            root = root.value
        if not dotted_name(root):
            return UNKNOWN
        proto = self._built.new_proto(node, own=False)
        self._bind_found(root, proto)
        return AttributePath(proto, (node.attr,))

    def _bind_found(self, node: ast.AST, value: Any) -> None:
        """Bind the name, or attribute of an object, that was found to be a configuration."""
        if isinstance(node, ast.Attribute):
            owner = self.visit(node.value)
            if isinstance(owner, Instance):
                owner.assign(node.attr, value)
                return
        self._scope.bind(dotted_name(node), value)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner, index = self.visit(node.value), self._index(node)
        if isinstance(owner, AttributePath):
            if owner.path[-1] == "parameter_map":
                key = index.value if isinstance(index, Known) else None
                return AttributePath(
                    owner.owner, (*owner.path, key if isinstance(key, str) else None)
                )
            if owner.path[-1] == "custom_optimizers" and isinstance(owner.owner, Proto):
                return owner.owner.entries[0] if owner.owner.entries else UNKNOWN
        elif isinstance(owner, Known):
            if isinstance(index, Known) and id(owner.value) not in self._grown:
                with contextlib.suppress(KeyError, IndexError, TypeError):
                    item = owner.value[index.value]
                    return Known(item) if isinstance(item, (str, int, bytes)) else item
            self._forget(*_parts(owner))  # it may be any of them
        return UNKNOWN

    def _index(self, node: ast.Subscript) -> Any:
        between: Any = node.slice
        if type(between).__name__ == "Index":  # before Python 3.9
            between = between.value
        return self.visit(between)

    def visit_Dict(self, node: ast.Dict) -> Any:
        items: Dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values):
            key, value = self._value(key_node), self.visit(value_node)
            mark_shared(value)
            if not isinstance(key, Known) or isinstance(key.value, (list, tuple, dict)):
                self._forget(*items.values(), *([value] if key_node else _parts(value)))
                return UNKNOWN
            items[key.value] = value
        self._hold(items.values())
        return limit_size(items, items.values())

    def _hold(self, parts: Iterable[Any]) -> None:
        """Note what stands in a list or dict, whose size is counted once."""
        for part in parts:
            if isinstance(part, Known) and isinstance(part.value, (list, dict)):
                self._held[id(part.value)] = part.value

    def visit_List(self, node: Any) -> Any:
        if any(isinstance(each, ast.Starred) for each in node.elts):
            for each in node.elts:
                is_spread = isinstance(each, ast.Starred)
                value = self.visit(each.value if is_spread else each)
                mark_shared(value)
                self._forget(*(_parts(value) if is_spread else [value]))
            return UNKNOWN
        parts = [self.visit(each) for each in node.elts]
        self._hold(parts)
        return limit_size(parts if isinstance(node, ast.List) else tuple(parts), parts)

    visit_Tuple = visit_List

    def visit_ListComp(self, node: Any) -> Any:
        """Evaluate a comprehension or a lambda, whose own names hide those around it."""
        with self._in_scope(Scope(self._scope)):
            for generator in getattr(node, "generators", ()):
                self._assign(generator.target, UNKNOWN, generator.iter)
            for each in ast.walk(node.args) if isinstance(node, ast.Lambda) else ():
                if isinstance(each, ast.arg):
                    self._scope.bind(each.arg, UNKNOWN)
            self._apart += 1
            self.generic_visit(node)
            self._apart -= 1
        return UNKNOWN

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda = visit_ListComp

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.visit(node.left), self.visit(node.right)
        return apply_operator(node.op, left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        number: Any = getattr(self.visit(node.operand), "value", None)
        is_negative = isinstance(node.op, ast.USub) and isinstance(number, (int, float))
        return Known(-number) if is_negative else UNKNOWN

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.visit(node.test)
        self._apart += 1
        first, second = self.visit(node.body), self.visit(node.orelse)
        self._apart -= 1
        if is_object(first) or is_object(second):
            mark_shared(first)
            mark_shared(second)
        return either(first, second)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self.visit(node.values[0])]
        self._apart += 1
        values += [self.visit(each) for each in node.values[1:]]
        self._apart -= 1
        return next((value for value in values if is_object(value)), UNKNOWN)

    # Calls

    def visit_Call(self, node: ast.Call) -> Any:
        """Give a configuration, what a function of the script returns, or a constant."""
        name = dotted_name(node.func)
        last, owner = name.rpartition(".")[2], UNKNOWN
        if isinstance(node.func, ast.Attribute):
            last, owner = node.func.attr, self.visit(node.func.value)
        function = self._scope.find(name) if "." not in name else UNKNOWN
        arguments = self._arguments(node)
        if isinstance(function, Function):
            return self._run(function, arguments)
        if isinstance(function, Class):
            return self._instantiate(function, arguments)
        if isinstance(owner, (Proto, OptimizerEntry, AttributePath)):
            return self._built.call_on_object(node, owner, last, arguments)
        if isinstance(owner, Instance):
            method = owner.find(last)
            if isinstance(method, Function):
                return self._run(method, arguments, owner)
        if name == "setattr" and len(arguments.positional) == 3:
            return self._set_attribute(node, arguments.positional)
        if last == "add" and name.endswith("custom_optimizers.add"):
            return UNKNOWN
        if last in ("ConfigProto", "GraphOptions", "RewriterConfig"):
            return self._built.make_proto(node, last, arguments)
        if last in self._vendor_classes:
            return self._built.make_run_config(node, last, arguments)
        is_list_or_dict = isinstance(owner, Known) and isinstance(owner.value, (list, dict))
        if is_list_or_dict and last in _CHANGING:
            return self._change_content(owner, last, arguments)
        self._let_escape(node, name, last, owner, arguments)
        return self._built.call_function(node, name, last, owner, arguments)

    def _change_content(self, owner: Any, method: str, arguments: CallArguments) -> Any:
        """Call a method that changes a list or dict; if it is not known how, that is forgotten."""
        positional, named = arguments.positional, arguments.named
        is_dict = isinstance(owner.value, dict)
        for value in arguments.values:
            mark_shared(value)
        if arguments.opaque:
            self._forget(owner, *arguments.values)
        elif method == "append" and not is_dict and len(positional) == 1:
            self._append_item(owner, positional[0])
        elif method == "setdefault" and is_dict and positional:
            key = positional[0]
            if _is_key(key) and key.value in owner.value:
                self._forget(owner.value[key.value])  # which it gives back
            else:
                self._set_item(owner, key, [*positional, Known(None)][1])
        elif method == "pop" and is_dict and positional:
            self._remove_item(owner, positional[0])
        elif method == "update" and is_dict and all(map(_is_dict, positional)):
            given = {key: value for each in positional for key, value in each.value.items()}
            for key, value in {**given, **named}.items():
                self._set_item(owner, Known(key), value)
        else:
            self._forget(owner, *arguments.values)
        return UNKNOWN

    def _let_escape(
        self, node: ast.Call, name: str, last: str, owner: Any, arguments: CallArguments
    ) -> None:
        """Forget the lists and dicts that a call of other code may change."""
        if name in _READING_BUILTINS or last in _READING:
            return
        values = [owner, *arguments.values]
        if name in _PICKING_BUILTINS or last in _PICKING:
            values = [part for value in values for part in _parts(value)]
        self._forget(*values)
        for each in (node.func, *node.args, *(keyword.value for keyword in node.keywords)):
            self._forget(*self._scope.find_members(dotted_name(each).partition(".")[0]))

    def _set_attribute(self, node: ast.Call, positional: List[Any]) -> Any:
        """Call ``setattr``, which is another way to write an assignment."""
        part, field, value = positional
        if isinstance(field, Known) and isinstance(field.value, str):
            target = ast.Attribute(node.args[0], field.value, ast.Store())
            self._assign_attribute(ast.copy_location(target, node), value, node.args[2])
        elif isinstance(part, AttributePath) and isinstance(part.owner, OptimizerEntry):
            part.owner.opaque = True
        else:
            mark_shared(part)
            self._forget(value)
        return UNKNOWN

    def _arguments(self, node: ast.Call) -> CallArguments:
        opaque = False
        spread: List[Any] = []
        positional: List[Any] = []
        named: Dict[str, Any] = {}
        for each in node.args:
            if isinstance(each, ast.Starred):
                spread.append(self.visit(each.value))
                mark_shared(spread[-1])
                opaque = True
            else:
                positional.append(self.visit(each))
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            if keyword.arg is not None:
                named[keyword.arg] = value
                continue
            inner = value.value if isinstance(value, Known) else None
            if isinstance(inner, dict) and all(isinstance(key, str) for key in inner):
                named.update(inner)
            else:
                spread.append(value)
                opaque = True
        return CallArguments(positional, named, opaque, tuple(spread))


def _is_dict(value: Any) -> bool:
    return isinstance(value, Known) and isinstance(value.value, dict)


def _is_key(value: Any) -> bool:
    """Whether a value is known, and no list, tuple or dict."""
    return isinstance(value, Known) and not isinstance(value.value, (list, tuple, dict))


def _parts(value: Any) -> List[Any]:
    """List what stands in a list, tuple or dict, or in an object of a class of the script."""
    if isinstance(value, OneOf):
        return list(value.values)
    content = value.value if isinstance(value, Known) else getattr(value, "attributes", None)
    if isinstance(content, dict):
        return list(content.values())
    return list(content) if isinstance(content, (list, tuple)) else []


def _find_changed_names(tree: SyntaxTree) -> Set[str]:
    """Find names of which functions change what others see: what they stand for, or its content."""
    names = {name for node in tree.nodes(ast.Global, ast.Nonlocal) for name in node.names}
    own = {(tree.definition(node), node.arg) for node in tree.nodes(ast.arg)}
    for node in tree.nodes(ast.Name):
        if isinstance(node.ctx, ast.Store):
            own.add((tree.definition(node), node.id))
    changed = [
        node.value for node in tree.nodes(ast.Subscript) if not isinstance(node.ctx, ast.Load)
    ]
    methods = [node.func for node in tree.nodes(ast.Call) if isinstance(node.func, ast.Attribute)]
    changed += [method.value for method in methods if method.attr in _CHANGING]
    for node in changed:
        around = tree.definition(node)
        if isinstance(node, ast.Name) and around is not None and (around, node.id) not in own:
            names.add(node.id)
    return names


def _ends(body: List[ast.stmt]) -> bool:
    """Whether nothing after this block runs."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return dotted_name(last.value.func) in ("exit", "quit", "sys.exit", "os._exit")
    return isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break))
