"""Follows calls: those that build configurations, those of the script itself, and all others."""

import ast
from typing import Any, Dict, List, Optional, Tuple

from ascend_session.audit.expressions import Expressions
from ascend_session.audit.objects import (
    Construction,
    Entry,
    Instance,
    Part,
    Proto,
    Setting,
    Toggle,
)
from ascend_session.audit.scopes import Class, Function, Scope, dotted, let_go
from ascend_session.audit.source import Source
from ascend_session.audit.values import UNKNOWN, EnvironmentText, Known, called
from ascend_session.audit.vendor_names import CLASSES, vendor_classes
from ascend_session.config.entry_words import REMAPPER

__all__ = ["Calls"]

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


class Calls(Expressions):
    """The reader's part that follows calls."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.constructions: Dict[int, Construction] = {}
        self._vendor = vendor_classes(source.tree)

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
