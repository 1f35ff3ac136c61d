"""What the configurations of a script become: their entries, options, switches and sessions.

`interpreter` follows the script; what calls of TensorFlow and of the vendor's packages build is
noted here.
"""

import ast
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ascend_session.audit.objects import (
    UNKNOWN,
    Assignment,
    AttributePath,
    Branch,
    EnvironmentText,
    Known,
    OptimizerEntry,
    Proto,
    RunConfigCall,
    call_builtin,
    call_method,
    mark_shared,
)
from ascend_session.audit.options import POSITIONAL
from ascend_session.audit.source import Script
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
ONLY_READING = ("hasattr", "isinstance", "len", "print", "set_session", "str", "type")
_METHODS_ONLY_READING = ("SerializeToString", "HasField", "WhichOneof", "__str__")
_ENVIRONMENT = ("os.getenv", "os.environ.get", "getenv", "environ.get")
_TOGGLES = ("remapping", "memory_optimization")


_MOST_NOTED = 600  # places of configurations, entries, options and switches in a script
_MOST_TIMES = 6000  # that something is noted there, by all calls and loops


class TooLongError(Exception):
    """A script is followed no further."""


class CallArguments(NamedTuple):
    """The values of a call's arguments.

    Attributes:
        positional: Those by position.
        named: Those by name.
        opaque: Whether there are more, which are not known one by one.
        spread: What those stand in, behind ``*`` and ``**``.
    """

    positional: List[Any]
    named: Dict[str, Any]
    opaque: bool
    spread: Tuple[Any, ...] = ()

    @property
    def values(self) -> List[Any]:
        """All of them."""
        return [*self.positional, *self.named.values(), *self.spread]


class Configurations:
    """The configurations of one script.

    Args:
        script: The script.

    Attributes:
        protos: The configurations that it builds, or that are first seen in it.
        entries: Their entries, and those that it gets from elsewhere.
        run_configs: Its calls of NPURunConfig and of its parts, the last one of each place.
        branch: The arms on the way to the statement that is being followed.
        loops: In how many loops that statement stands.
        is_cut_short: Whether the script was not followed to its end.
    """

    def __init__(self, script: Script) -> None:
        self.protos: List[Proto] = []
        self.entries: List[OptimizerEntry] = []
        self.run_configs: Dict[int, RunConfigCall] = {}
        self.branch: Branch = ()
        self.loops = 0
        self.is_cut_short = False
        self._script = script
        self._noted: Set[int] = set()  # the nodes where something is noted, by id
        self._times_noted = 0

    def new_proto(self, node: ast.AST, own: bool) -> Proto:
        """Note a configuration that is made, or first seen, at ``node``."""
        proto = Proto(self._place(node), own)
        self.protos.append(proto)
        return proto

    def _place(self, node: ast.AST) -> Place:
        """Give the place of something that is noted; enough is enough."""
        self._noted.add(id(node))
        self._times_noted += 1
        if len(self._noted) > _MOST_NOTED or self._times_noted > _MOST_TIMES:
            raise TooLongError
        return self._script.place(node)

    def new_entry(self, node: ast.AST, proto: Optional[Proto]) -> OptimizerEntry:
        """Note an entry that is added to a configuration, or first seen, at ``node``."""
        entry = OptimizerEntry(self._place(node), proto, self.branch, self.loops > 0)
        if proto is not None:
            proto.entries.append(entry)
        self.entries.append(entry)
        return entry

    def set_option(
        self, node: ast.AST, entry: OptimizerEntry, path: Tuple[Any, ...], value: Any
    ) -> None:
        """Note ``entry.parameter_map[key].field = value``, or the entry's name."""
        place = self._place(node)
        if path == ("name",):
            entry.names.append((value, place))
        elif len(path) == 3 and path[0] == "parameter_map" and path[1] is not None:
            _, key, field = path
            entry.settings.append(Assignment(key, field, value, place, self.branch))
        else:
            entry.opaque = True

    def set_toggle(self, node: ast.AST, proto: Proto, name: str, value: Any) -> None:
        """Note ``rewrite_options.remapping = value``, and the like of memory_optimization."""
        if name in _TOGGLES:
            place = self._place(node)
            proto.toggles.append(Assignment("", name, value, place, self.branch))

    def call_on_object(
        self, node: ast.Call, owner: Any, method: str, arguments: CallArguments
    ) -> Any:
        """Call a method of a configuration, an entry, or of something inside one."""
        whole, path = (owner.owner, owner.path) if isinstance(owner, AttributePath) else (owner, ())
        if isinstance(whole, OptimizerEntry):
            if len(path) > 2 and path[0] == "parameter_map":
                self.set_option(node, whole, (path[0], path[1], "list"), UNKNOWN)
            elif path:
                whole.opaque = True
        elif path and path[-1] == "custom_optimizers" and method == "add":
            entry = self.new_entry(node, whole)
            if "name" in arguments.named:
                entry.names.append((arguments.named["name"], entry.place))
            return entry
        elif path and path[-1] == "optimizers" and method in ("append", "extend"):
            self._list_optimizers(node, whole, arguments.positional)
        elif method not in _METHODS_ONLY_READING:
            mark_shared(whole)
        return UNKNOWN

    def _list_optimizers(self, node: ast.Call, proto: Proto, given: List[Any]) -> None:
        """Note a list of optimizers, which stands for all the switches (`proto.left_on`)."""
        value = getattr(given[0], "value", None) if given else None
        names = value if isinstance(value, (list, tuple)) else given
        is_known = all(isinstance(name, Known) for name in names)
        remapping = "ON" if Known(REMAPPER) in names else "OFF" if is_known else UNKNOWN
        self.set_toggle(node, proto, "memory_optimization", "OFF")
        self.set_toggle(node, proto, "remapping", remapping)

    def make_proto(self, node: ast.Call, name: str, arguments: CallArguments) -> Any:
        """Make a ConfigProto; the parts of one are followed as the whole."""
        named = arguments.named
        inner = named.get("graph_options", named.get("rewrite_options"))
        if isinstance(inner, AttributePath):
            inner = inner.owner
        proto = inner if isinstance(inner, Proto) else self.new_proto(node, own=True)
        if arguments.opaque or (inner is not None and not isinstance(inner, Proto)):
            proto.shared = True
        for toggle in _TOGGLES:
            if name == "RewriterConfig" and toggle in named:
                written = [each.value for each in node.keywords if each.arg == toggle]
                value = assigned_word(written[0] if written else node, named[toggle])
                proto.toggles.append(Assignment("", toggle, value, proto.place, self.branch))
        return proto

    def make_run_config(self, node: ast.Call, name: str, arguments: CallArguments) -> Any:
        """Note a call of NPURunConfig, or of one of its parts."""
        place = self._place(node)
        places = {each.arg: self._place(each.value) for each in node.keywords if each.arg}
        values = dict(arguments.named)
        for keyword, value in zip(POSITIONAL[name], arguments.positional):
            values.setdefault(keyword, value)
            places.setdefault(keyword, place)
        call = RunConfigCall(name, values, places, place, arguments.opaque)
        self.run_configs[id(node)] = call
        proto = values.get("session_config")
        if name == "NPURunConfig" and isinstance(proto, Proto):
            proto.to_run_config = place
            proto.to_session = True
        return call

    def call_function(
        self, node: ast.Call, name: str, last: str, owner: Any, arguments: CallArguments
    ) -> Any:
        """Call what is none of the script's: Python's, TensorFlow's, the vendor's, or unknown."""
        positional = arguments.positional
        if name in _ENVIRONMENT:
            variable = positional[0] if positional else UNKNOWN
            has_default = len(positional) != 1 or arguments.named
            if has_default or not isinstance(variable, Known):
                return UNKNOWN
            return EnvironmentText(str(variable.value))
        if last == "as_bytes" and positional and isinstance(positional[0], EnvironmentText):
            return positional[0]
        if isinstance(owner, Known):
            return call_method(owner.value, last, positional)
        if last in _COMPLETING:
            proto = self._complete_proto(node, arguments)
            return proto if last == "npu_config_proto" else UNKNOWN
        objects = [v for v in arguments.values if isinstance(v, (Proto, OptimizerEntry))]
        if last in _OPENING:
            for value in objects:
                if isinstance(value, Proto):
                    value.to_session = True
        elif last not in ONLY_READING:
            for value in arguments.values:
                mark_shared(value)
            if len(objects) == 1 and last[:1].islower():
                return objects[0]  # a function that adds something and gives it back
        return call_builtin(name, positional)

    def _complete_proto(self, node: ast.Call, arguments: CallArguments) -> Proto:
        protos = [value for value in arguments.values if isinstance(value, Proto)]
        proto = protos[0] if protos else self.new_proto(node, own=True)
        proto.to_session = True
        self.set_toggle(node, proto, "remapping", "OFF")
        if proto.own and not proto.shared and not proto.entries and proto.completed is None:
            self.set_toggle(node, proto, "memory_optimization", "OFF")
            proto.completed = self.branch
        return proto


def assigned_word(node: ast.AST, value: Any) -> Any:
    """Give what a toggle is set to: ``OFF`` of RewriterConfig.OFF, a number, or UNKNOWN."""
    if isinstance(value, Known):
        return value.value
    return node.attr if isinstance(node, ast.Attribute) else UNKNOWN
