"""Evaluates expressions of a script: what they are worth, which configurations they change.

Calls are followed that build configurations, and those of the script itself.
"""

import ast
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Type

from pydantic import BaseModel

from ascend_session.audit.objects import (
    UNKNOWN,
    Branch,
    Class,
    Construction,
    Entry,
    EnvironmentText,
    Function,
    Instance,
    Known,
    Part,
    Proto,
    Scope,
    Setting,
    Toggle,
    binary,
    called,
    dotted,
    either,
    is_object,
    let_go,
)
from ascend_session.audit.source import Source, Tree
from ascend_session.config.parts import (
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
)
from ascend_session.config.proto import REMAPPER

_PARTS: List[Type[BaseModel]] = [
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
]
MODELS: Dict[str, Type[BaseModel]] = {each.__name__: each for each in _PARTS}
"""The parts of NPURunConfig, under the vendor's names."""

CLASSES: Dict[str, List[str]] = {
    "NPURunConfig": ["iterations_per_loop", "profiling_config", "model_dir"],
    **{name: list(model.model_fields) for name, model in MODELS.items()},
}
"""Class -> its first arguments in their order (npu_config.py)."""

_PACKAGES = ("npu_bridge", "npu_device")


def is_vendor_module(name: str) -> bool:
    """Whether a module is the vendor's."""
    return name.split(".")[0] in _PACKAGES


def vendor_classes(tree: Tree) -> Set[str]:
    """The classes of `CLASSES` that mean the vendor's in this script.

    NPURunConfig has a name of its own; the others are called like classes of other packages, and
    count where they are imported from the vendor's, or everything is.
    """
    found: Set[str] = set()
    own: Set[str] = {node.name for node in tree.kind(ast.ClassDef)}
    for node in tree.kind(ast.ImportFrom):
        names = {alias.asname or alias.name for alias in node.names}
        if is_vendor_module(node.module or ""):
            found |= set(CLASSES) if names & {"*", "npu_config"} else names
        else:
            own |= names
    for node in tree.kind(ast.Import):
        if any(is_vendor_module(alias.name) for alias in node.names):
            found |= set(CLASSES)
    own -= {"NPURunConfig"} & found
    found.add("NPURunConfig")
    return {name for name in found if name in CLASSES} - own


LITERALS = ("Constant", "Str", "Num", "Bytes", "NameConstant")
_INTO = ("graph_options", "rewrite_options", "custom_optimizers")


_TOGGLES = ("remapping", "memory_optimization")
# Functions of the vendor's npu_init that complete a configuration and return or use it; they set
# remapping to OFF, and memory_optimization only where they add the entry (npu_init.py).
_COMPLETING = ("npu_config_proto", "set_keras_session_npu_config", "init_resource")
# They make a session with a configuration, and leave it as it is.
_OPENING = (
    "ChiefSessionCreator",
    "Estimator",
    "InteractiveSession",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "NPUEstimator",
    "RunConfig",
    "Server",
    "Session",
    "Supervisor",
    "WorkerSessionCreator",
    "managed_session",
    "prepare_or_wait_for_session",
)
_READING = ("hasattr", "isinstance", "len", "print", "set_session", "str", "type")
_ENVIRONMENT = ("os.getenv", "os.environ.get", "getenv", "environ.get")

_Arguments = Tuple[List[Any], Dict[str, Any], bool]


class Evaluator:
    """Evaluates expressions; ``protos``, ``entries`` and ``constructions`` are what they build.

    Args:
        source: The script.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.protos: Dict[int, Proto] = {}
        self.entries: Dict[int, Entry] = {}
        self.branch: Branch = ()
        self.loops = 0
        self.constructions: Dict[int, Construction] = {}
        self._vendor = vendor_classes(source.tree)
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
        return next((each for each in values if is_object(each)), UNKNOWN)

    def run(self, function: Function, arguments: "_Arguments", instance: Optional[Instance]) -> Any:
        """Follows a call of a function of the script; see `reader.Reader`."""
        raise NotImplementedError

    def instance_of(self, of: Class, arguments: Optional["_Arguments"]) -> Instance:
        """An object of a class of the script; see `reader.Reader`."""
        raise NotImplementedError

    def call(self, node: ast.Call, scope: Scope) -> Any:
        """What a call gives: a configuration, what a function of the script returns, a constant."""
        name = dotted(node.func)
        last = name.rpartition(".")[2]
        owner = UNKNOWN
        if isinstance(node.func, ast.Attribute):
            last = node.func.attr
            owner = self.value(node.func.value, scope)
        function = scope.find(name) if "." not in name else UNKNOWN
        arguments = self._arguments(node, scope)
        if isinstance(function, Function):
            return self.run(function, arguments, None)
        if isinstance(function, Class):
            return self.instance_of(function, arguments)
        if isinstance(owner, (Proto, Entry, Part)):
            return self._on_object(node, owner, last, arguments)
        if isinstance(owner, Instance):
            method = self._of_instance(owner, last)
            if isinstance(method, Function):
                return self.run(method, arguments, owner)
        if last == "add" and name.endswith("custom_optimizers.add"):
            return UNKNOWN
        if last in ("ConfigProto", "GraphOptions", "RewriterConfig"):
            return self._proto(node, last, arguments)
        if last in CLASSES and last in self._vendor:
            return self._construction(node, last, arguments)
        return self._other(node, name, last, owner, arguments)

    def _arguments(self, node: ast.Call, scope: Scope) -> _Arguments:
        opaque = False
        positional: List[Any] = []
        named: Dict[str, Any] = {}
        for each in node.args:
            if isinstance(each, ast.Starred):
                let_go(self.value(each.value, scope))
                opaque = True
            else:
                positional.append(self.value(each, scope))
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is not None:
                named[keyword.arg] = value
                continue
            inner = value.value if isinstance(value, Known) else None
            if isinstance(inner, dict) and all(isinstance(key, str) for key in inner):
                named.update(inner)
            else:
                opaque = True
        return positional, named, opaque

    def _on_object(self, node: ast.Call, owner: Any, method: str, arguments: _Arguments) -> Any:
        whole = owner.owner if isinstance(owner, Part) else owner
        path = owner.path if isinstance(owner, Part) else ()
        if isinstance(whole, Proto):
            if path and path[-1] == "custom_optimizers" and method == "add":
                entry = self.new_entry(node, whole)
                if "name" in arguments[1]:
                    entry.names.append((arguments[1]["name"], entry.place))
                return entry
            if path and path[-1] == "optimizers" and method in ("append", "extend"):
                self._listed(node, whole, arguments[0])
                return UNKNOWN
            if method not in ("SerializeToString", "HasField", "WhichOneof", "__str__"):
                let_go(whole)
            return UNKNOWN
        if isinstance(whole, Entry):
            if len(path) > 2 and path[0] == "parameter_map":
                self.set_option(node, whole, (path[0], path[1], "list"), UNKNOWN)
            elif path:
                whole.opaque = True
        return UNKNOWN

    def set_option(self, node: ast.AST, entry: Entry, path: Tuple[Any, ...], value: Any) -> None:
        """Notes ``entry.parameter_map[key].field = value``, or the name."""
        if path == ("name",):
            entry.names.append((value, self.source.place(node)))
        elif len(path) == 3 and path[0] == "parameter_map" and path[1] is not None:
            setting = Setting(path[1], path[2], value, self.source.place(node), self.branch)
            entry.settings.append(setting)
        else:
            entry.opaque = True

    def set_toggle(self, node: ast.AST, proto: Proto, path: Tuple[Any, ...], value: Any) -> None:
        """Notes ``rewrite_options.remapping = value``, and the like of memory_optimization."""
        if path and path[-1] in _TOGGLES:
            toggle = Toggle(path[-1], value, self.source.place(node), self.branch)
            proto.toggles.append(toggle)

    def _listed(self, node: ast.Call, proto: Proto, given: List[Any]) -> None:
        """A list of optimizers stands for all the switches (`entry_words.left_on`)."""
        value = getattr(given[0], "value", None) if given else None
        names = value if isinstance(value, tuple) else tuple(given)
        is_known = all(isinstance(name, Known) for name in names)
        remapping = "ON" if Known(REMAPPER) in names else "OFF" if is_known else UNKNOWN
        for name, word in (("memory_optimization", "OFF"), ("remapping", remapping)):
            proto.toggles.append(Toggle(name, word, self.source.place(node), self.branch))

    def _proto(self, node: ast.Call, name: str, arguments: _Arguments) -> Any:
        """A ConfigProto, or the parts of one, which are followed as the whole."""
        _, named, opaque = arguments
        inner = named.get("graph_options", named.get("rewrite_options"))
        if isinstance(inner, Part):
            inner = inner.owner
        proto = inner if isinstance(inner, Proto) else self.new_proto(node, own=True)
        if opaque or (inner is not None and not isinstance(inner, Proto)):
            proto.shared = True
        for toggle in _TOGGLES:
            if name == "RewriterConfig" and toggle in named:
                written = next(k.value for k in node.keywords if k.arg == toggle)
                proto.toggles.append(
                    Toggle(toggle, word_of(written, named[toggle]), proto.place, self.branch)
                )
        return proto

    def _construction(self, node: ast.Call, name: str, arguments: _Arguments) -> Any:
        positional, named, opaque = arguments
        places = {k.arg: self.source.place(k.value) for k in node.keywords if k.arg}
        values = dict(named)
        for keyword, value in zip(CLASSES[name], positional):
            values.setdefault(keyword, value)
            places.setdefault(keyword, self.source.place(node))
        made = Construction(name, values, places, self.source.place(node), opaque)
        self.constructions[id(node)] = made
        proto = values.get("session_config")
        if name == "NPURunConfig" and isinstance(proto, Proto):
            proto.to_run_config = made.place
            proto.to_session = True
        return made

    def _other(
        self, node: ast.Call, name: str, last: str, owner: Any, arguments: _Arguments
    ) -> Any:
        positional, named, _ = arguments
        if name in _ENVIRONMENT:
            alone = len(positional) == 1 and not named
            variable = positional[0] if positional else UNKNOWN
            if alone and isinstance(variable, Known):
                return EnvironmentText(str(variable.value))
            return UNKNOWN
        if last == "as_bytes" and positional and isinstance(positional[0], EnvironmentText):
            return positional[0]
        if isinstance(owner, Known):
            return _method(owner.value, last, positional)
        everything = [*positional, *named.values()]
        objects = [each for each in everything if isinstance(each, (Proto, Entry))]
        if last in _COMPLETING:
            proto = self._completed(node, objects)
            return proto if last == "npu_config_proto" else UNKNOWN
        if last == "setattr" and len(positional) == 3:
            return self._setattr(node, positional)
        if last in _OPENING:
            for value in objects:
                if isinstance(value, Proto):
                    value.to_session = True
        elif last not in _READING:
            for value in everything:
                let_go(value)
            if len(objects) == 1 and last[:1].islower():
                return objects[0]  # a function that adds something and gives it back
        return called(name, positional)

    def _completed(self, node: ast.Call, objects: List[Any]) -> Any:
        protos = [each for each in objects if isinstance(each, Proto)]
        proto = protos[0] if protos else self.new_proto(node, own=True)
        proto.to_session = True
        self.set_toggle(node, proto, ("remapping",), "OFF")
        if proto.own and not proto.shared and not proto.entries and proto.completed is None:
            self.set_toggle(node, proto, ("memory_optimization",), "OFF")
            proto.completed = self.branch
        return proto

    def _setattr(self, node: ast.Call, positional: List[Any]) -> Any:
        owner, field, value = positional
        if isinstance(owner, Part) and isinstance(owner.owner, Entry):
            if isinstance(field, Known):
                self.set_option(node, owner.owner, (*owner.path, field.value), value)
            else:
                owner.owner.opaque = True
        return UNKNOWN


def key_of(node: ast.Subscript) -> ast.AST:
    """The expression between the brackets, on every Python."""
    inner: Any = node.slice
    found: ast.AST = inner.value if type(inner).__name__ == "Index" else inner
    return found


def word_of(node: ast.AST, value: Any) -> Any:
    """What a toggle is set to: ``OFF`` of RewriterConfig.OFF, a number, or UNKNOWN."""
    if isinstance(value, Known):
        return value.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return UNKNOWN


def _method(value: Any, name: str, arguments: List[Any]) -> Any:
    """What a method of a constant gives."""
    if isinstance(value, str) and name in ("encode", "strip", "lower", "upper") and not arguments:
        return Known(getattr(value, name)())
    if isinstance(value, str) and name == "encode":
        return Known(value.encode())
    if isinstance(value, bytes) and name == "decode":
        return Known(value.decode(errors="replace"))
    if isinstance(value, dict) and name == "items":
        return Known(tuple(Known((Known(key), each)) for key, each in value.items()))
    if isinstance(value, dict) and name in ("keys", "values"):
        found = value.values() if name == "values" else (Known(key) for key in value)
        return Known(tuple(found))
    return UNKNOWN
