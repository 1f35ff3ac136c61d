"""Rules about scripts of this package: what AscendConfig refuses, and ranks that never average.

The configuration's own classes and rules judge, so that there is no second edition of them here.
Only what the text shows is given to them: constants, and parts that are made of constants.
"""

import ast
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Type

from ascend_session.audit.constants import Constants
from ascend_session.audit.objects import UNKNOWN, Known, dotted_name
from ascend_session.audit.option_rules import PART_MODELS
from ascend_session.audit.syntax import FUNCTIONS, Script, SyntaxTree, last_name
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.entry import flatten
from ascend_session.config.names import unknown_name
from ascend_session.config.option import adapter_options, options_of
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules import RULES
from ascend_session.config.rules.rule import FlatOptions, apply_rules
from ascend_session.errors import ConfigError
from ascend_session.findings import WARNING, Finding, Place, errors_of

_PACKAGE = "ascend_session"
_MODELS: Dict[str, Type[Any]] = {"AscendConfig": AdapterOptions, **PART_MODELS}
_MOST_CHANGES = 10  # calls of replace() on the way to a configuration


class _Arguments(NamedTuple):
    """The arguments of a configuration.

    Attributes:
        values: By keyword: `Known`, a call of a part's class, or UNKNOWN.
        places: The place of each.
        is_open: Whether there may be others.
    """

    values: Dict[str, Any]
    places: Dict[str, Place]
    is_open: bool


class _PackageNames:
    """The names that a script has from this package."""

    def __init__(self, tree: SyntaxTree) -> None:
        self._names: Dict[str, str] = {}  # what is imported, by its name in the script
        self._modules: Set[str] = set()
        others = {node.name for node in tree.nodes(*FUNCTIONS, ast.ClassDef)}
        for node in tree.nodes(ast.ImportFrom):
            is_package = node.level == 0 and (node.module or "").split(".")[0] == _PACKAGE
            for alias in node.names:
                if is_package and alias.name == "*":
                    self._names.update({name: name for name in _MODELS})
                elif is_package:
                    self._names[alias.asname or alias.name] = alias.name
                else:
                    others.add(alias.asname or alias.name)
        for node in tree.nodes(ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == _PACKAGE:
                    self._modules.add(alias.asname or _PACKAGE)
        for name in others & set(self._names):
            del self._names[name]

    def __bool__(self) -> bool:
        return bool(self._names or self._modules)

    def of_call(self, node: ast.AST) -> str:
        """Return the name in this package of what is called; empty for anything else."""
        name = dotted_name(node.func) if isinstance(node, ast.Call) else ""
        owner, _, last = name.rpartition(".")
        return last if owner in self._modules else self._names.get(name, "")


def check_package_api(script: Script) -> Iterator[Finding]:
    """Report what is wrong with a script that uses this package."""
    names = _PackageNames(script.tree)
    if names:
        constants = Constants(script.tree)
        configurations = _Configurations(script, names, constants)
        for call in script.tree.nodes(ast.Call):
            yield from configurations.check(call)
        yield from _check_average(script, constants)


class _Configurations:
    """The configurations that a script makes of constants."""

    def __init__(self, script: Script, names: _PackageNames, constants: Constants) -> None:
        self._script = script
        self._names = names
        self._constants = constants

    def check(self, call: ast.Call) -> Iterator[Finding]:
        """Report why a configuration that is made here would be refused."""
        model = _MODELS.get(self._names.of_call(call), AdapterOptions)
        arguments = self._read(call)
        if arguments is None or self._is_caught(call):
            return
        before: List[Finding] = []
        if self._is_replacing(call):
            earlier = self._read(self._constants.assigned(call.func.value))  # type: ignore[attr-defined]
            before = [] if earlier is None else list(self._judge(AdapterOptions, earlier, call))
        for finding in self._judge(model, arguments, call):
            if all(finding.message != each.message for each in before):
                yield finding

    def _is_caught(self, call: ast.Call) -> bool:
        """Return whether the script expects an exception here."""
        below: ast.AST = call
        for above in self._script.tree.ancestors(call):
            if isinstance(above, ast.Try) and above.handlers and below in above.body:
                return True
            if isinstance(above, (ast.With, ast.AsyncWith)) and any(
                isinstance(item.context_expr, ast.Call)
                and last_name(item.context_expr.func) in ("raises", "assertRaises", "suppress")
                for item in above.items
            ):
                return True
            below = above
        return False

    def _is_replacing(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "replace"
        )

    def _read(self, node: Any, depth: int = _MOST_CHANGES) -> Optional[_Arguments]:
        """Return what an expression gives to a configuration class; None for anything else."""
        if self._names.of_call(node) in _MODELS:
            return self._read_call(node, self._names.of_call(node))
        if not depth or not self._is_replacing(node):
            return None
        before = self._read(self._constants.assigned(node.func.value), depth - 1)
        if before is None:
            return None
        changes = self._read_call(node, "AscendConfig")
        return _Arguments(
            {**before.values, **changes.values},
            {**dict.fromkeys(before.places, self._script.place(node)), **changes.places},
            before.is_open or changes.is_open,
        )

    def _read_call(self, call: ast.Call, name: str) -> _Arguments:
        positional = zip(options_of(_MODELS[name]), call.args) if name in PART_MODELS else ()
        given = {**dict(positional), **{each.arg: each.value for each in call.keywords if each.arg}}
        values: Dict[str, Any] = {}
        for keyword, node in given.items():
            part = self._constants.assigned(node)
            is_part = self._names.of_call(part) in PART_MODELS
            values[keyword] = part if is_part else self._constants.value(node)
        places = {keyword: self._script.place(node) for keyword, node in given.items()}
        is_open = any(each.arg is None for each in call.keywords)
        is_open = is_open or any(isinstance(each, ast.Starred) for each in call.args)
        return _Arguments(values, places, is_open)

    def _judge(self, model: Type[Any], arguments: _Arguments, call: ast.Call) -> Iterator[Finding]:
        """Report what the configuration's own checks say of constants."""
        place = self._script.place(call)
        right: Dict[str, Any] = {}
        unknown: Set[str] = set()  # options of which nothing is known, or which are refused
        for name, value in arguments.values.items():
            where = arguments.places[name]
            if name not in options_of(model):
                written = value.value if isinstance(value, Known) else "..."
                kind = model
                if model is AdapterOptions:
                    kind = AscendConfig
                yield unknown_name(name, written, kind)._replace(
                    rule="unknown-argument", place=where
                )
                continue
            if isinstance(value, ast.Call):
                inner = self._read(value)
                if inner is not None:
                    value = self._build_part(name, value, inner, unknown)
            if value is UNKNOWN or not isinstance(value, Known):
                unknown.add(name)
                continue
            try:
                model(**{name: value.value})
                right[name] = value.value
            except ConfigError as error:
                unknown.add(name)
                for problem in error.problems:
                    yield problem._replace(rule="value-not-allowed", place=where)
        if model is AdapterOptions:
            options = AdapterOptions(**right)
            values = flatten(options)
            hidden = {
                option.key
                for option in adapter_options(AdapterOptions)
                if option.path in unknown
                or option.path.split(".")[0] in unknown
                or (arguments.is_open and option.key not in values)
            }
            entry = FlatOptions(values, unknown=hidden)
            for problem in errors_of(apply_rules(RULES, entry)):
                first = (problem.option or "").split(".")[0]
                where = arguments.places.get(first, place)
                yield problem._replace(rule="option-conflict", place=where)

    def _build_part(
        self, name: str, call: ast.Call, arguments: _Arguments, unknown: Set[str]
    ) -> Any:
        """Return a part with the arguments that are known and right; note the others."""
        model = PART_MODELS[self._names.of_call(call)]
        if arguments.is_open or not set(arguments.values) <= set(options_of(model)):
            return UNKNOWN
        right: Dict[str, Any] = {}
        for inner, value in arguments.values.items():
            unknown.add(f"{name}.{inner}")
            if isinstance(value, Known):
                try:
                    model(**{inner: value.value})
                except ConfigError:
                    continue  # which is reported where the part is made
                right[inner] = value.value
                unknown.discard(f"{name}.{inner}")
        return Known(model(**right))


# With any of these names a script may average, or lets something else do so.
_AVERAGING = (
    *("DistributedOptimizer", "distributed_gradients", "estimator"),
    *("allreduce", "reduce", "reduce_scatter", "allgather", "all_to_all_v", "all_to_all_v_c"),
    *("send", "receive", "NPUDistributedOptimizer", "npu_distributed_optimizer_wrapper"),
    *("npu_allreduce", "npu_tf_optimizer", "NPUOptimizer", "INDEPENDENT", "hccl_ops"),
)


def _check_average(script: Script, constants: Constants) -> Iterator[Finding]:
    """Report ranks that divide the data of one training, and never average its gradients."""
    tree = script.tree
    if any(map(tree.uses, _AVERAGING)) or "INDEPENDENT" in "\n".join(script.lines):
        return
    imported = {alias.name for node in tree.nodes(ast.ImportFrom) for alias in node.names}
    if not imported.isdisjoint(_AVERAGING):
        return
    shares = [node for node in tree.nodes(ast.Call, ast.Subscript) if _divides(node)]
    updates = [node for node in tree.nodes(ast.Call) if _is_local_update(node, constants)]
    if shares and updates:
        yield Finding(
            WARNING,
            "Each rank updates a model of its own: the data are divided among the ranks in line "
            f"{script.place(shares[0]).line}, and nothing averages the gradients.",
            "Write training.DistributedOptimizer(...) around the optimizer, and begin with "
            "training.initialize() or training.monitored_session(). Ranks that are meant to be "
            "independent are launched with --independent.",
            "no-average",
            place=script.place(updates[0]),
            certain=False,  # of a launch with --independent, and of a loss that others average
        )


def _divides(node: Any) -> bool:
    """Return whether data are divided: ``x.shard(s.size, s.rank)`` or ``x[s.rank :: s.size]``."""
    if isinstance(node, ast.Call):
        parts: List[Any] = node.args if last_name(node.func) == "shard" else []
    else:
        inner = getattr(node.slice, "dims", None) or [node.slice]
        first = inner[0]
        parts = [first.step, first.lower] if isinstance(first, ast.Slice) else []
    names = [dotted_name(each) for each in parts]
    owners = {name.rpartition(".")[0] for name in names}
    return [name.rpartition(".")[2] for name in names] == ["size", "rank"] and len(owners) == 1


def _is_local_update(call: ast.Call, constants: Constants) -> bool:
    """Return whether an optimizer of TensorFlow itself, made in this script, minimises a loss.

    What `apply_gradients` gets may have been averaged by another file.
    """
    if last_name(call.func) != "minimize":
        return False
    maker = constants.assigned(call.func.value) if isinstance(call.func, ast.Attribute) else None
    name = dotted_name(maker.func) if isinstance(maker, ast.Call) else ""
    owner, _, kind = name.rpartition(".")
    return owner.rpartition(".")[2] == "train" and kind.endswith("Optimizer")
