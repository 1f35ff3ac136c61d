"""Follow what a script writes into configurations.

One pass over the statements: of the module, then of each function, as if it were called once. No
calls, loops or branches are followed, and nothing is evaluated. Assignments in an arm of an ``if``,
and objects that other code may change, are marked as such.
"""

import ast
from collections import Counter, deque
from typing import AbstractSet, Any, Deque, Dict, List, NamedTuple, Optional, Tuple

from ascend_session.audit.constants import Constants
from ascend_session.audit.objects import (
    UNKNOWN,
    Assignment,
    Branch,
    Known,
    OptimizerEntry,
    Proto,
    RunConfigCall,
    dotted_name,
    mark_shared,
)
from ascend_session.audit.option_rules import POSITIONAL, find_vendor_classes
from ascend_session.audit.syntax import FUNCTIONS, Script, last_name
from ascend_session.config.proto import REMAPPER
from ascend_session.findings import Place

# Functions of the vendor's npu_init that complete a configuration and return or use it; they set
# remapping to OFF, and memory_optimization only where they add the entry (npu_init.py).
_COMPLETING = ("npu_config_proto", "set_keras_session_npu_config", "init_resource")
# They make a session with a configuration, and leave it as it is.
_OPENING = (
    *("ChiefSessionCreator", "Estimator", "InteractiveSession", "MonitoredSession"),
    *("MonitoredTrainingSession", "NPUEstimator", "RunConfig", "Server", "Session", "Supervisor"),
    *("WorkerSessionCreator", "managed_session", "prepare_or_wait_for_session"),
)
_MAKING = ("ConfigProto", "GraphOptions", "RewriterConfig")
_ONLY_READING = (
    *("hasattr", "isinstance", "len", "print", "set_session", "str", "type"),
    *("SerializeToString", "HasField", "WhichOneof", "__str__"),
)
_INTO = ("graph_options", "rewrite_options", "custom_optimizers")
_TOGGLES = ("remapping", "memory_optimization")
_PASSING_ON = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.Yield, ast.Lambda)
_MOST_ARMS = 40  # on the way to a place; further ones are not distinguished


class Part(NamedTuple):
    """A configuration, an entry or a call of NPURunConfig, or something inside of one."""

    owner: Any
    path: Tuple[str, ...] = ()  # the attributes on the way to it


class _Scope(NamedTuple):
    """A module, a function, or the body of a class.

    Attributes:
        node: Its syntax tree.
        parts: The objects that its names are bound to, dotted names too.
        names: Its local names, which hide those of outer scopes.
        outer: The scope around it.
    """

    node: Any
    parts: Dict[str, Part]
    names: AbstractSet[str]
    outer: Optional["_Scope"] = None

    def find(self, name: str) -> Optional[Part]:
        """Return the object that a name is bound to."""
        scope: Optional[_Scope] = self
        first, _, rest = name.partition(".")
        while scope is not None:
            if name in scope.parts:
                return scope.parts[name]
            if first in scope.names and not (first == "self" and rest):
                return None
            scope = scope.outer
        return None


class Engine:
    """The configurations of one script.

    Args:
        script: The script.

    Attributes:
        protos: The configurations that it builds or receives.
        entries: Their entries, and those that it receives.
        run_configs: Its calls of NPURunConfig and of its parts.
    """

    def __init__(self, script: Script) -> None:
        self.protos: List[Proto] = []
        self.entries: List[OptimizerEntry] = []
        self.run_configs: List[RunConfigCall] = []
        self._script = script
        self._constants = Constants(script.tree)
        self._vendor_classes = find_vendor_classes(script.tree)
        self._expressions: Dict[int, Optional[Part]] = {}  # the value of each, by its id
        self._functions: Deque[_Scope] = deque()
        self._module = self._scope = _Scope(script.tree.root, {}, set())
        self._branch: Branch = ()
        self._loops = 0
        self._writing = self._count_writing()
        self._read_block(self._scope.node.body)
        while self._functions:
            self._scope = self._functions.popleft()
            self._branch = ((id(self._scope.node), 0),)  # a run of the script need not pass it
            self._read_block(self._scope.node.body)

    # Statements

    def _read_block(self, body: List[ast.stmt]) -> None:
        kept = self._branch
        for statement in body:
            if isinstance(statement, FUNCTIONS):
                self._functions.append(self._inner_scope(statement))
            elif isinstance(statement, ast.ClassDef):
                around, self._scope = self._scope, self._inner_scope(statement)
                self._read_block(statement.body)
                self._scope = around
            elif isinstance(statement, ast.If):
                self._read_if(statement)
            else:
                self._read_statement(statement)
        self._branch = kept

    def _inner_scope(self, node: ast.AST) -> _Scope:
        return _Scope(node, {}, self._constants.names_of(node), self._scope)

    def _read_if(self, statement: ast.If) -> None:
        """Read a chain of ``if`` and ``elif`` as the arms of one statement."""
        before = self._branch
        arms, body = [], [statement]  # type: List[List[ast.stmt]], List[Any]
        while len(body) == 1 and isinstance(body[0], ast.If):
            self._read_expressions(body[0].test)
            arms.append(body[0].body)
            body = body[0].orelse
        arms += [body] if body else []
        ends = [_ends(arm) for arm in arms]
        for number, arm in enumerate(arms):
            self._branch = self._extend(before, (id(statement), number))
            if any(ends):
                self._branch = self._extend(self._branch, (-id(statement), not ends[number]))
            self._read_block(arm)
        self._branch = before
        if any(ends):  # the runs that end there do not reach the statements below
            self._branch = self._extend(before, (-id(statement), True))

    @staticmethod
    def _extend(branch: Branch, arm: Tuple[int, int]) -> Branch:
        return (*branch[: _MOST_ARMS - 1], arm)

    def _read_statement(self, statement: Any) -> None:
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        handlers = getattr(statement, "handlers", [])
        cases = getattr(statement, "cases", [])  # of match
        is_loop = isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, (ast.expr, ast.withitem)):
                self._read_expressions(child)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._assign(target, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(statement.target, statement.value)
        elif isinstance(statement, (ast.Return, ast.Expr)) and statement.value is not None:
            self._hand_over(statement)
        elif is_loop and hasattr(statement, "target"):
            self._forget(statement.target)
        for item in getattr(statement, "items", []):
            if item.optional_vars is not None:
                self._forget(item.optional_vars)
        self._loops += is_loop
        for block in blocks:
            self._read_block(block)
        self._loops -= is_loop
        before = self._branch
        for number, arm in enumerate((*handlers, *cases)):
            self._branch = self._extend(before, (id(statement), number))
            self._read_block(arm.body)
        self._branch = before

    def _hand_over(self, statement: Any) -> None:
        """Record that a function returns a configuration."""
        value = statement.value if isinstance(statement, ast.Return) else None
        part = self._part(value) if value is not None else None
        if part is not None and not (part.path or self._is_only_read(self._scope.node)):
            mark_shared(part.owner)

    def _is_only_read(self, function: Any) -> bool:
        """Return whether this script only reads the result of ``function``."""
        is_here = self._writing.get(id(function)) == self._writing[id(self._module.node)]
        return is_here and bool(self._script.tree.uses(getattr(function, "name", "")))

    def _count_writing(self) -> Dict[int, int]:
        """Count, by definition, the places that write into configurations."""
        tree = self._script.tree
        writing = [node for name in (*_INTO, "parameter_map") for node in tree.uses(name)]
        around = (each for node in writing for each in tree.definitions_around(node))
        counts = Counter(id(each) for each in around)
        counts[id(tree.root)] = len(writing)
        return counts

    def _forget(self, target: ast.AST) -> None:
        for node in ast.walk(target):
            self._scope.parts.pop(dotted_name(node), None)

    def _assign(self, target: Any, value: ast.AST) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            if len(values) != len(target.elts):
                self._forget(target)
                return
            for each, item in zip(target.elts, values):
                self._assign(each, item)
            return
        if isinstance(target, ast.Attribute):
            is_part = (
                isinstance(target.value, ast.Subscript) or self._part(target.value) is not None
            )
            if is_part:
                self._set(target, target.value, target.attr, value)
                return
        name, part = dotted_name(target), self._part(value)
        if name and part is None:
            self._home(name).pop(name, None)
        elif name and part is not None:
            self._home(name)[name] = part
            if isinstance(part.owner, Proto) and not part.path:
                is_local = "." not in name and not isinstance(self._scope.node, ast.ClassDef)
                is_local = is_local and name not in self._constants.moving
                part.owner.names.append((name, self._scope.node if is_local else None))
                kind = last_name(value.func) if isinstance(value, ast.Call) else ""
                if kind in _MAKING:
                    part.owner.kinds[name] = kind
        elif part is not None:
            mark_shared(part.owner)

    def _home(self, name: str) -> Dict[str, Part]:
        """Return the scope of a name: attributes of ``self`` are shared by all methods."""
        outer = self._scope.outer
        if name in self._constants.moving:
            return self._module.parts
        is_of_object = name.startswith("self.") and outer is not None
        is_of_object = is_of_object and isinstance(self._scope.node, FUNCTIONS)
        return outer.parts if outer is not None and is_of_object else self._scope.parts

    # Assignments to a configuration

    def _set(self, node: ast.AST, target: Any, attribute: str, value: ast.AST) -> None:
        """Record ``target.attribute = value``, if the target is part of a tracked object."""
        place = self._script.place(node)
        if isinstance(target, ast.Subscript):
            self._set_option(node, target, attribute, value)
            return
        owner, path = self._part(target) or Part(None)
        if isinstance(owner, OptimizerEntry):
            if not path and attribute == "name":
                self._name_entry(owner, value, place)
            else:
                owner.opaque = True
        elif isinstance(owner, Proto) and attribute in _TOGGLES:
            self._set_toggle(node, owner, attribute, self._word(value))

    def _name_entry(self, entry: OptimizerEntry, value: ast.AST, place: Place) -> None:
        constant = self._constants.value(value)
        entry.names.append(Assignment("", "name", constant, place, self._branch))

    def _set_option(self, node: ast.AST, target: Any, field: str, value: ast.AST) -> None:
        """Record ``entry.parameter_map[key].field = value``."""
        part = self._part(target.value)
        if part is None and isinstance(target.value, ast.Attribute):
            if target.value.attr != "parameter_map":
                return
            entry = self._add_entry(node, None)
            part = Part(entry, ("parameter_map",))
            name = dotted_name(target.value.value)
            if name:
                self._home(name)[name] = Part(entry)
        if part is None or not isinstance(part.owner, OptimizerEntry):
            return
        index: Any = target.slice
        index = index.value if type(index).__name__ == "Index" else index  # up to Python 3.8
        key = self._constants.value(index)
        is_text = isinstance(key, Known) and isinstance(key.value, str)
        if part.path == ("parameter_map",) and is_text:
            constant = self._constants.value(value)
            place = self._script.place(node)
            part.owner.settings.append(Assignment(key.value, field, constant, place, self._branch))
        else:
            part.owner.opaque = True

    def _set_toggle(self, node: ast.AST, proto: Proto, name: str, word: Any) -> None:
        place = self._script.place(node)
        proto.toggles.append(Assignment("", name, word, place, self._branch))

    def _word(self, value: ast.AST) -> Any:
        """Return the value of a switch: ``OFF`` for RewriterConfig.OFF, a number, or UNKNOWN."""
        node = self._constants.assigned(value)
        if isinstance(node, ast.Attribute):
            return node.attr if last_name(node.value) == "RewriterConfig" else UNKNOWN
        constant = self._constants.value(node)
        return constant.value if isinstance(constant, Known) else UNKNOWN

    def _add_proto(self, node: ast.AST, is_local: bool) -> Proto:
        proto = Proto(self._script.place(node), is_local)
        self.protos.append(proto)
        return proto

    def _add_entry(self, node: ast.AST, proto: Optional[Proto]) -> OptimizerEntry:
        place = self._script.place(node)
        entry = OptimizerEntry(place, proto, self._branch, self._loops > 0)
        self.entries.append(entry)
        if proto is not None:
            proto.entries.append(entry)
        return entry

    # Expressions

    def _read_expressions(self, node: ast.AST) -> None:
        """Read the calls of an expression, from inside out."""
        nodes = [each for each in ast.walk(node) if isinstance(each, (ast.Call, *_PASSING_ON))]
        for each in reversed(nodes):
            if isinstance(each, ast.Call):
                self._expressions[id(each)] = self._call(each)
            elif not self._is_of_pairs(each):
                for child in ast.iter_child_nodes(each):
                    part = self._part(child)
                    if part is not None:
                        mark_shared(part.owner)

    def _is_of_pairs(self, node: ast.AST) -> bool:
        """Return whether a tuple is a side of ``a, b = c, d``, which is read item by item."""
        above = self._script.tree.parent(node)
        return isinstance(above, ast.Assign) and isinstance(above.targets[0], (ast.Tuple, ast.List))

    def _part(self, node: ast.AST) -> Optional[Part]:
        """Return the tracked object that an expression evaluates to; None for anything else."""
        attributes: List[str] = []
        into: Optional[ast.Attribute] = None  # where a configuration is entered
        while True:
            name = dotted_name(node)
            part = self._scope.find(name) if name else self._expressions.get(id(node))
            if isinstance(node, ast.Subscript) and part is None:
                part = self._listed_entry(node)
            if part is not None or not isinstance(node, ast.Attribute):
                break
            attributes.append(node.attr)
            into = node if node.attr in _INTO else into
            node = node.value
        if part is None and into is not None:
            part = self._unseen_proto(into.value, _MAKING[_INTO.index(into.attr)])
            attributes = attributes[: len(attributes) - _depth(into.value)]
        return part and Part(part.owner, (*part.path, *reversed(attributes)))

    def _listed_entry(self, node: ast.Subscript) -> Optional[Part]:
        """Return an entry of ``custom_optimizers[0]``."""
        part = self._part(node.value)
        if part is None or part.path[-1:] != ("custom_optimizers",):
            return None
        self._expressions[id(node)] = Part(self._add_entry(node, None))
        return self._expressions[id(node)]

    def _unseen_proto(self, node: ast.AST, kind: str) -> Part:
        """Record a configuration that comes from elsewhere, or a part of it."""
        proto, name = self._add_proto(node, False), dotted_name(node)
        if name:
            proto.names.append((name, None))
            proto.kinds[name] = kind
            self._home(name)[name] = Part(proto)
        else:
            self._expressions[id(node)] = Part(proto)
        return Part(proto)

    def _call(self, node: ast.Call) -> Optional[Part]:
        """Return the tracked object that a call makes, and record its effect on configurations."""
        last = last_name(node.func)
        of = self._part(node.func.value) if isinstance(node.func, ast.Attribute) else None
        if of is not None and isinstance(of.owner, (Proto, OptimizerEntry)):
            return self._call_method(node, of, last)
        named = {each.arg: each.value for each in node.keywords if each.arg}
        arguments = [*node.args, *(each.value for each in node.keywords)]
        parts = [part for part in map(self._part, arguments) if part is not None]
        protos = [part.owner for part in parts if isinstance(part.owner, Proto)]
        if last in _MAKING:
            return self._make_proto(node, last, named)
        if last in self._vendor_classes:
            return self._make_run_config(node, last, named)
        if last in _COMPLETING:
            part = self._complete_proto(node, protos)
            return part if last == "npu_config_proto" else None
        if last == "setattr" and len(node.args) == 3:
            attribute = self._constants.value(node.args[1])
            if isinstance(attribute, Known) and isinstance(attribute.value, str):
                self._set(node, node.args[0], attribute.value, node.args[2])
                return None
        for part in parts:
            if last not in (*_OPENING, *_ONLY_READING):
                mark_shared(part.owner)
            elif last in _OPENING and isinstance(part.owner, Proto):
                part.owner.to_session = True
        is_passed_on = len(parts) == 1 and not parts[0].path and last[:1].islower()
        is_passed_on = is_passed_on and last not in (*_OPENING, *_ONLY_READING)
        # Such a function changes its argument and returns it.
        return parts[0] if is_passed_on else None

    def _call_method(self, node: ast.Call, of: Part, method: str) -> Optional[Part]:
        proto = of.owner
        if isinstance(proto, OptimizerEntry):
            proto.opaque = True
        elif of.path[-1:] == ("custom_optimizers",) and method == "add":
            entry = self._add_entry(node, proto)
            for each in node.keywords:
                if each.arg == "name":
                    self._name_entry(entry, each.value, entry.place)
            return Part(entry)
        elif of.path[-1:] == ("optimizers",) and method in ("append", "extend"):
            self._list_optimizers(node, proto)
        elif method not in _ONLY_READING and (not of.path or of.path[0] in _INTO):
            mark_shared(proto)
        return None

    def _list_optimizers(self, node: ast.Call, proto: Proto) -> None:
        """Record a list of optimizers, which replaces all the switches (`proto.explain_switch`)."""
        values = [self._constants.value(each) for each in node.args]
        given = [each.value if isinstance(each, Known) else None for each in values]
        names = given[0] if given and isinstance(given[0], (list, tuple)) else given
        remapping = "ON" if REMAPPER in names else UNKNOWN if None in names else "OFF"
        self._set_toggle(node, proto, "memory_optimization", "OFF")
        self._set_toggle(node, proto, "remapping", remapping)

    def _make_proto(self, node: ast.Call, name: str, named: Dict[str, ast.expr]) -> Part:
        """Record a new ConfigProto; a GraphOptions or RewriterConfig counts as the whole."""
        written = named.get("graph_options", named.get("rewrite_options"))
        inner = self._part(written) if written is not None else None
        is_proto = inner is not None and isinstance(inner.owner, Proto)
        proto = inner.owner if inner is not None and is_proto else self._add_proto(node, True)
        if len(named) < len(node.keywords) or (written is not None and not is_proto):
            mark_shared(proto)
        for toggle in _TOGGLES:
            if name == "RewriterConfig" and toggle in named:
                self._set_toggle(node, proto, toggle, self._word(named[toggle]))
        return Part(proto)

    def _make_run_config(self, node: ast.Call, name: str, named: Dict[str, ast.expr]) -> Part:
        """Record a call of NPURunConfig, or of one of its parts."""
        place = self._script.place(node)
        places = {keyword: self._script.place(value) for keyword, value in named.items()}
        for keyword, argument in zip(POSITIONAL[name], node.args):
            named.setdefault(keyword, argument)
            places.setdefault(keyword, place)
        values: Dict[str, Any] = {}
        for keyword, argument in named.items():
            part = self._part(argument)
            is_call = part is not None and isinstance(part.owner, RunConfigCall)
            values[keyword] = part.owner if part and is_call else self._constants.value(argument)
            is_session = name == "NPURunConfig" and keyword == "session_config"
            if is_session and part is not None and isinstance(part.owner, Proto):
                part.owner.to_run_config, part.owner.to_session = place, True
        is_opaque = any(each.arg is None for each in node.keywords)
        is_opaque = is_opaque or any(isinstance(each, ast.Starred) for each in node.args)
        call = RunConfigCall(name, values, places, place, is_opaque)
        self.run_configs.append(call)
        return Part(call)

    def _complete_proto(self, node: ast.Call, protos: List[Proto]) -> Part:
        proto = protos[0] if protos else self._add_proto(node, True)
        proto.to_session = True
        self._set_toggle(node, proto, "remapping", "OFF")
        if proto.is_local and not proto.shared and not proto.entries and proto.completed is None:
            self._set_toggle(node, proto, "memory_optimization", "OFF")
            proto.completed = self._branch
        return Part(proto)


def _depth(node: ast.AST) -> int:
    """Count the attributes that a name has."""
    depth = 0
    while isinstance(node, ast.Attribute):
        depth, node = depth + 1, node.value
    return depth


def _ends(body: List[ast.stmt]) -> bool:
    """Return whether a block ends with a jump, so that the statements after it are not reached."""
    last: Any = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return last_name(last.value.func) in ("exit", "_exit")
    return isinstance(last, (ast.Return, ast.Continue, ast.Break))
