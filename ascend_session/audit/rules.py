"""Rules about what a script builds: NpuOptimizer entries, their configurations, and the system.

An entry has a name, keys, fields and values; a configuration has entries and a rewriter, and a
session gets it or not. A frozen graph is not compiled as if it were trained.

initialize_system and shutdown_system are run, never run, or skipped by an exception. Each call
returns an operation; what counts is where a session runs it. shutdown_system that is not run leaves
the device to the process's end, and an exception on the way there leaves the other ranks waiting in
their collectives (ge_plugin.cc).
"""

import ast
from functools import lru_cache
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Set

from ascend_session.audit.objects import (
    UNKNOWN,
    Branch,
    Known,
    OptimizerEntry,
    Proto,
    compatible,
    dotted_name,
    implied,
    last_assignments,
)
from ascend_session.audit.option_rules import check_setting, option_of_key, settled_values
from ascend_session.audit.syntax import (
    FUNCTIONS,
    Script,
    SyntaxTree,
    is_vendor_module,
    last_name,
)
from ascend_session.config.entry import ENTRY_NAME, is_misnamed, misnamed_entry, several_entries
from ascend_session.config.proto import OFF, OPTIMISES
from ascend_session.findings import ERROR, INFO, WARNING, Finding, Place
from ascend_session.requirements import OTHER_ADAPTER
from ascend_session.text import did_you_mean

# Entries with these in their names are not the adapter's, whatever their keys are.
_OTHER_OPTIMIZERS = ("tensorrt", "ngraph", "tfgraph", "constfold", "layout", "xla")
_ATTR_VALUE_FIELDS = (
    *("b", "f", "func", "i", "list"),
    *("placeholder", "s", "shape", "tensor", "type"),
)


def select_adapter_entries(
    entries: List[OptimizerEntry], script: Script
) -> Iterator[OptimizerEntry]:
    """Yield the entries that are meant for the adapter."""
    for entry in entries:
        if not entry.is_local and {e.field for e in entry.settings} - set(_ATTR_VALUE_FIELDS):
            continue  # some other kind of map
        values = [each.value for each in entry.names]
        names = [value.value for value in values if isinstance(value, Known)]
        texts = [name for name in names if isinstance(name, str)]
        is_other = any(word in text.lower() for text in texts for word in _OTHER_OPTIMIZERS)
        sets_options = any(option_of_key(each.key) for each in entry.settings)
        is_near = any(
            is_misnamed(text) or did_you_mean(text.lower(), [ENTRY_NAME.lower()], 0.8) is not None
            for text in texts
        )
        may_be = script.is_npu and not is_other and (not names or sets_options)
        if is_near or may_be:
            yield entry


# What is wrong as soon as it is written, whatever is written later.
_WHEN_SET = ("field-type", "unknown-key", "variable-without-default")


def check_entry(entry: OptimizerEntry, script: Script) -> Iterator[Finding]:
    """Report what is wrong with the name of an entry and with each of its options alone."""
    for each in last_assignments(entry.names):
        if isinstance(each.value, Known) and each.value.value != ENTRY_NAME:
            problem = misnamed_entry(str(each.value.value))
            yield problem._replace(rule="wrong-optimizer-name", place=each.place)
    if not entry.names and entry.is_local and entry.settings:
        yield Finding(
            ERROR,
            f"This entry gets no name; the adapter reads the one named {ENTRY_NAME!r} only and "
            "ignores this one silently.",
            f'Write .name = "{ENTRY_NAME}".',
            "wrong-optimizer-name",
            place=entry.place,
            certain=not entry.shared,
        )
    settled = settled_values(entry)
    counting = set(map(id, last_assignments(entry.settings)))
    for setting in entry.settings:
        for finding in check_setting(setting, settled, script.is_python_2):
            if id(setting) in counting or finding.rule in _WHEN_SET:
                yield finding


def check_proto(proto: Proto, entries: List[OptimizerEntry], script: Script) -> Iterator[Finding]:
    """Report what is wrong with a configuration.

    Args:
        proto: The configuration.
        entries: Those of its entries that are meant for the adapter; at least one.
        script: The script.
    """
    yield from _check_entry_count(proto, entries, script)
    checked: List[OptimizerEntry] = []
    for entry in entries:
        if not any(compatible(entry.branch, each.branch) for each in checked):
            checked.append(entry)
            yield from _check_toggle("memory_optimization", proto, entry, script)
            # npu_init patches tf.Session, whose sessions then get remapping OFF.
            if not any("npu_init" in line for line in script.lines if "import" in line):
                yield from _check_toggle("remapping", proto, entry, script)
    if proto.is_local and not proto.to_run_config:
        yield from _check_use(proto, script)


_MOST_BRANCHES = 24  # in which entries are added that are compared


def _check_entry_count(
    proto: Proto, entries: List[OptimizerEntry], script: Script
) -> Iterator[Finding]:
    problem = several_entries(2)._replace(rule="two-entries")
    # A loop that looks through the entries that are there does not add a second one.
    loops = script.tree.nodes(ast.For)
    if not any(dotted_name(loop.iter).endswith("custom_optimizers") for loop in loops):
        branches: List[Branch] = []
        for entry in entries:
            before = [each for each in branches if compatible(each, entry.branch)]
            if before and not entry.in_loop:
                is_certain = any(
                    implied(each, entry.branch) or implied(entry.branch, each) for each in before
                )
                yield problem._replace(place=entry.place, certain=is_certain)
            is_new = not entry.in_loop and entry.branch not in branches
            branches += [entry.branch] if is_new and len(branches) < _MOST_BRANCHES else []
    first = entries[0]
    if proto.completed is not None and compatible(proto.completed, first.branch):
        begin = "npu_config_proto() has added an entry already, and this is a second one."
        yield problem._replace(
            message=f"{begin} {problem.message}",
            hint="Add the entry first, and give the configuration to npu_config_proto() then.",
            place=first.place,
            certain=implied(proto.completed, first.branch) and not first.in_loop,
        )
    with_options = [entry for entry in entries if entry.settings or entry.opaque]
    if proto.to_run_config is not None and with_options and not _has_plain_estimator(script):
        yield Finding(
            WARNING,
            "NPUEstimator adds an entry of its own to the session_config of its NPURunConfig, with "
            "all defaults written; they override what this entry says.",
            "Give the options to NPURunConfig, and leave this entry out.",
            "two-entries",
            place=with_options[0].place,
            certain=not with_options[0].shared,
        )


def _has_plain_estimator(script: Script) -> bool:
    """Return whether a script uses tf.estimator.Estimator alone, which adds no entry."""
    calls = {last_name(call.func) for call in script.tree.nodes(ast.Call)}
    return "Estimator" in calls and "NPUEstimator" not in calls


_OFF = {
    "memory_optimization": ("OFF", "ON", "MANUAL", "NO_MEM_OPT", *OFF["memory_optimization"]),
    "remapping": ("OFF", *OFF["remapping"]),
}
"""The words and numbers that turn each off (rewriter_config.proto)."""


def _check_toggle(
    name: str, proto: Proto, entry: OptimizerEntry, script: Script
) -> Iterator[Finding]:
    rule = f"{name.replace('_', '-')}-on"
    owner = _name_of(proto)
    way = _WAYS[proto.kinds.get(owner, "ConfigProto")]
    hint = f"Write {owner}.{way}{name} = RewriterConfig.OFF."
    toggles = [
        each
        for each in last_assignments(proto.toggles)
        if each.field == name and compatible(each.branch, entry.branch)
    ]
    is_on = False
    for toggle in toggles:
        if toggle.value is not UNKNOWN and toggle.value not in _OFF[name]:
            is_on = True
            message = f"rewrite_options.{name} is set to {toggle.value}. {OPTIMISES[name]}"
            is_certain = toggle is toggles[-1] and implied(toggle.branch, entry.branch)
            place = toggle.place
            yield Finding(WARNING, message, hint, rule, place=place, certain=is_certain)
    if is_on or any(implied(each.branch, entry.branch) for each in toggles):
        return
    outside = (None, script.tree.root)  # other code may see those names
    is_seen = proto.to_session or all(function not in outside for _, function in proto.names)
    is_certain = proto.is_local and is_seen and not proto.shared and not toggles
    is_certain = is_certain and name != "remapping"  # another file's import may turn that off
    message = f"rewrite_options.{name} is not turned off. {OPTIMISES[name]}"
    yield Finding(WARNING, message, hint, rule, place=entry.place, certain=is_certain)


# From each message to the fields of RewriterConfig.
_WAYS = {
    "ConfigProto": "graph_options.rewrite_options.",
    "GraphOptions": "rewrite_options.",
    "RewriterConfig": "",
}


def _name_of(proto: Proto) -> str:
    """Return the name of a configuration; that of a part of it if the whole has none."""
    names = [name for name, _ in proto.names if name]
    whole = [name for name in names if proto.kinds.get(name, "ConfigProto") == "ConfigProto"]
    return next(iter(whole + names), "config")


def _session_of(proto: Proto) -> str:
    """Return how a session is made with a configuration."""
    name = _name_of(proto)
    if proto.kinds.get(name) == "RewriterConfig":
        name = f"tf.GraphOptions(rewrite_options={name})"
    if _name_of(proto) in proto.kinds and proto.kinds[_name_of(proto)] != "ConfigProto":
        name = f"tf.ConfigProto(graph_options={name})"
    return f"tf.Session(config={name})"


def _check_use(proto: Proto, script: Script) -> Iterator[Finding]:
    """Report a configuration that is only written to."""
    regions = {id(function): function for _, function in proto.names}
    if len(regions) != 1 or None in regions.values():
        return
    (region,) = regions.values()
    tree = script.tree
    uses = _find_uses(frozenset(name for name, _ in proto.names), region, tree)
    if not uses:
        is_certain = region is not tree.root or "Session(" in "\n".join(script.lines)
        yield Finding(
            ERROR,
            f"{_name_of(proto)} is built, but no session uses it, so none of its options has "
            "an effect.",
            f"Write {_session_of(proto)}.",
            "config-not-used",
            place=proto.place,
            certain=is_certain,
        )
    elif _is_unused_helper(region, uses, tree):
        yield Finding(
            ERROR,
            f"{region.name}() builds {_name_of(proto)}, but is never called: none of its options "
            "reaches a session.",
            f"Write tf.Session(config={region.name}()).",
            "config-not-used",
            place=proto.place,
            certain=False,
        )


@lru_cache(maxsize=1)
def _find_uses(names: FrozenSet[str], region: ast.AST, tree: SyntaxTree) -> List[ast.Name]:
    """Find where a session may get the configuration that has ``names`` in a function."""
    return [
        node
        for name in names
        for node in tree.uses(name)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and (region is tree.root or region in tree.definitions_around(node))
        and _is_use(node, names, tree)
    ]


def _is_unused_helper(region: Any, uses: List[ast.Name], tree: SyntaxTree) -> bool:
    """Return whether a function returns the configuration, but no session of the script gets it."""
    if not isinstance(region, ast.FunctionDef) or tree.parent(region) is not tree.root:
        return False
    if not all(isinstance(tree.parent(node), ast.Return) for node in uses):
        return False
    opens = any(dotted_name(node.func).endswith("Session") for node in tree.nodes(ast.Call))
    return opens and not tree.uses(region.name)


def _is_use(node: ast.Name, names: FrozenSet[str], tree: SyntaxTree) -> bool:
    """Return whether a session may get the configuration here."""
    parent = tree.parent(node)
    if isinstance(parent, ast.Attribute):
        return _is_more_than_writing(parent, tree)
    call = tree.parent(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call) and dotted_name(call.func).endswith("npu_config_proto"):
        target = tree.parent(call)
        if isinstance(target, ast.Expr):
            return False
        if isinstance(target, ast.Assign):
            return not {dotted_name(each) for each in target.targets} <= names
    return True


def _is_more_than_writing(attribute: ast.Attribute, tree: SyntaxTree) -> bool:
    """Return whether an attribute of the configuration does more than being written into."""
    parent: Optional[ast.AST] = tree.parent(attribute)
    while isinstance(parent, ast.Attribute):
        attribute, parent = parent, tree.parent(parent)
    if isinstance(attribute.ctx, ast.Store):
        return False
    is_method = isinstance(parent, ast.Call) and parent.func is attribute
    return not (is_method and attribute.attr in ("add", "CopyFrom"))


_READS_GRAPH = {"ParseFromString", "FromString"}
_TRAINS = {
    *("apply_gradients", "compute_gradients", "fit", "gradients"),
    *("minimize", "train", "train_and_evaluate"),
}


def check_inference(entries: List[OptimizerEntry], script: Script) -> Iterator[Finding]:
    """Report each entry of a script that only runs a frozen graph, and compiles it for training."""
    called = {last_name(node.func) for node in script.tree.nodes(ast.Call)}
    if "import_graph_def" not in called or not called & _READS_GRAPH or called & _TRAINS:
        return
    for entry in entries:
        if any(setting.key == "graph_run_mode" for setting in entry.settings):
            continue
        yield Finding(
            WARNING,
            "This script reads a frozen graph, and graph_run_mode is not set: its default, 1, "
            "compiles the graph for training, with training's precision and memory.",
            'Write parameter_map["graph_run_mode"].i = 0.',
            "inference-as-training",
            place=entry.place,
            certain=False,
        )


def check_calls(script: Script) -> Iterator[Finding]:
    """Report functions of npu_bridge whose result or argument is left out."""
    tree = script.tree
    defined = {node.name for node in tree.nodes(*FUNCTIONS, ast.ClassDef)}
    calls = [node for node in tree.nodes(ast.Call) if script.is_npu]
    for call in calls:
        name = last_name(call.func)
        if name == "set_iteration_per_loop" and name not in defined and _is_unused(call, tree):
            yield Finding(
                WARNING,
                "set_iteration_per_loop() returns the operation that runs all steps of a loop, and "
                "nothing uses it here: each run is one step.",
                "Write train_op = util.set_iteration_per_loop(sess, train_op, ...), and run that.",
                "loop-not-run",
                place=script.place(call),
            )
    scaled = [node for node in calls if last_name(node.func) == "NPULossScaleOptimizer"]
    scaled = [node for node in scaled if "NPULossScaleOptimizer" not in defined]
    names = {"NPUDistributedOptimizer", "npu_distributed_optimizer_wrapper", "npu_tf_optimizer"}
    is_distributed = any(last_name(node.func) in names - defined for node in calls)
    if is_distributed and scaled and not any(map(_passes_is_distributed, scaled)):
        yield Finding(
            WARNING,
            "NPULossScaleOptimizer is made without is_distributed in a script for several ranks: "
            "an overflow on one rank does not count on the others, whose variables then differ.",
            "Write NPULossScaleOptimizer(..., is_distributed=True) where there are several ranks.",
            "loss-scale-alone",
            place=script.place(scaled[0]),
            certain=False,
        )


def check_adapter(script: Script) -> Iterator[Finding]:
    """Report a script for another adapter alone, which this package does not stand in for."""
    places: Dict[str, Place] = {}
    for node in script.tree.nodes(ast.Import, ast.ImportFrom):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if node.level == 0 else []
        for name in names:
            places.setdefault(name.partition(".")[0], script.place(node))
    if "npu_device" in places and "npu_bridge" not in places:
        message, _, hint = OTHER_ADAPTER.partition(". ")
        place = places["npu_device"]
        yield Finding(INFO, f"{message}.", hint, "other-adapter", place=place)


def check_savers(script: Script) -> Iterator[Finding]:
    """Report sessions with hooks that save with the sharded saver that they make themselves."""
    tree = script.tree
    calls = [node for node in tree.nodes(ast.Call) if script.is_npu]
    names = {node.attr for node in tree.nodes(ast.Attribute)}
    # Another saver, or a configuration with which a sharded one works.
    if names & {"SAVERS", "constant_folding"} or any("mix_compile_mode" in x for x in script.lines):
        return
    for call in calls:
        named = {each.arg: each.value for each in call.keywords}
        folder = named.get("checkpoint_dir")
        if len(call.args) > 2:
            folder = call.args[2]
        is_given = folder is not None and getattr(folder, "value", "") is not None
        may_have_saver = len(call.args) > 3 or "scaffold" in named or None in named
        if last_name(call.func) == "MonitoredTrainingSession" and is_given and not may_have_saver:
            yield Finding(
                WARNING,
                "MonitoredTrainingSession makes a sharded saver, with which saving may fail on a "
                'device: "uninitialized value" at save/SaveV2, depending on the installation.',
                "Write scaffold=tf.train.Scaffold(saver=tf.train.Saver()).",
                "sharded-saver",
                place=script.place(call),
                certain=False,
            )


def _is_unused(call: ast.Call, tree: SyntaxTree) -> bool:
    """Return whether the result of a call is never used."""
    above = tree.parent(call)
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        uses = tree.uses(above.targets[0].id)
        return not any(isinstance(node.ctx, ast.Load) for node in uses)
    return isinstance(above, ast.Expr)


def _passes_is_distributed(call: ast.Call) -> bool:
    """Return whether a call passes is_distributed, or may pass it."""
    named = [each.arg for each in call.keywords]
    may_be = len(call.args) > 2 or any(isinstance(each, ast.Starred) for each in call.args)
    return may_be or "is_distributed" in named or None in named


_WITH = (
    "Run it in a finally block, or write `with ascend_session(...)`, which does so in every case."
)


class _SystemOperation:
    """An operation of npu_ops in one script: where it is made, and where it is run.

    Attributes:
        calls: The calls that make it.
        runs: The calls that run it.
        escapes: Whether it leaves for code that is not seen.
        names: Its names.
    """

    def __init__(self, function: str, tree: SyntaxTree) -> None:
        is_imported = _is_imported(function, tree)
        self.calls: List[ast.Call] = [
            node for node in tree.nodes(ast.Call) if _is_vendors(node, function, is_imported)
        ]
        call_ids = {id(call) for call in self.calls}
        assignments = [node for node in tree.nodes(ast.Assign) if id(node.value) in call_ids]
        targets = {dotted_name(target) for node in assignments for target in node.targets}
        self.names: Set[str] = targets - {""}
        self.runs: List[ast.Call] = []
        self.escapes = False
        for node in tree.nodes(ast.Name, ast.Attribute):
            if isinstance(node.ctx, ast.Load) and dotted_name(node) in self.names:
                self._follow(node, True, tree)
        for call in self.calls:
            self._follow(call, False, tree)

    def _follow(self, node: ast.AST, is_name: bool, tree: SyntaxTree) -> None:
        """Follow the operation from where it is made, or named, to the call that gets it."""
        above = tree.parent(node)
        while isinstance(above, (ast.List, ast.Tuple, ast.Dict)):
            above = tree.parent(above)
        if isinstance(above, ast.keyword):
            above = tree.parent(above)
        if isinstance(above, ast.Call) and last_name(above.func) == "run":
            self.runs.append(above)
        elif isinstance(above, (ast.Return, ast.Call, ast.Yield, ast.Lambda)):
            self.escapes = True
        elif isinstance(above, ast.Attribute) and above.attr == "run":  # operation.run()
            call = tree.parent(above)
            self.runs += [call] if isinstance(call, ast.Call) else []
        elif isinstance(above, ast.Assign):
            is_member = any(not isinstance(target, ast.Name) for target in above.targets)
            self.escapes = self.escapes or is_name or is_member


def check_systems(script: Script) -> Iterator[Finding]:
    """Report what is wrong with the life of the system in one script."""
    tree = script.tree
    start = _SystemOperation("initialize_system", tree)
    end = _SystemOperation("shutdown_system", tree)
    resources = _resource_calls("init_resource", tree)
    if not start.calls and not resources:
        return
    # npu_init's init_resource runs the one, and returns the other for shutdown_resource.
    start.runs += resources
    end.runs += _resource_calls("shutdown_resource", tree)
    place = script.place((start.calls or resources)[0])
    behind = _find_behind_app_run(tree)
    if not start.runs and not start.escapes:
        yield Finding(
            WARNING,
            "initialize_system() returns an operation, and nothing runs it here: the system is "
            "initialised later, by the first graph that is run on the device.",
            "Run it, as in session.run(npu_ops.initialize_system()), or leave it out.",
            "initialize-not-run",
            place=place,
            certain=bool(start.names),
        )
    elif end.runs and all(behind & set(map(id, tree.ancestors(node))) for node in end.runs):
        yield Finding(
            WARNING,
            "shutdown_system comes after tf.app.run(), which exits the process and never "
            "returns: the device is released only then.",
            _WITH,
            "no-shutdown",
            place=script.place(end.runs[-1]),
            certain=not end.escapes,
        )
    elif not end.runs:
        begin = "initialize_system is run and shutdown_system is not"
        if end.calls:
            place = script.place(end.calls[0])
            begin = "shutdown_system() returns an operation, and nothing runs it here"
        message = f"{begin}: the device is released only when the process exits."
        is_certain = not start.escapes and not end.escapes and _are_called(start.runs, tree)
        yield Finding(WARNING, message, _WITH, "no-shutdown", place=place, certain=is_certain)
    elif not any(_is_safe(node, tree) for node in end.runs):
        # In a handler it is run where an exception came, which may be all that can come.
        in_handler = any(
            isinstance(above, ast.ExceptHandler)
            for node in end.runs
            for above in tree.ancestors(node)
        )
        yield Finding(
            WARNING,
            "shutdown_system is run here, and an exception before that skips it: the device is "
            "not released, and the other ranks of a job wait for this one until they time out.",
            _WITH,
            "shutdown-skipped",
            place=script.place(end.runs[-1]),
            certain=not end.escapes and not in_handler and _are_called(end.runs, tree),
        )


def _are_called(nodes: Iterable[ast.AST], tree: SyntaxTree) -> bool:
    """Return whether this script calls each function around the nodes."""
    around = (each for node in nodes for each in tree.definitions_around(node))
    return all(tree.uses(each.name) for each in around if isinstance(each, FUNCTIONS))


def _resource_calls(function: str, tree: SyntaxTree) -> List[ast.Call]:
    """List the calls of a function of npu_init, if the script has none of that name itself."""
    is_defined = any(node.name == function for node in tree.nodes(ast.FunctionDef))
    if is_defined or not _is_imported(function, tree):
        return []
    return [node for node in tree.nodes(ast.Call) if dotted_name(node.func) == function]


def _is_imported(function: str, tree: SyntaxTree) -> bool:
    return not {"*", function}.isdisjoint(_find_imported(tree, is_vendor_module))


def _find_imported(tree: SyntaxTree, is_source: Callable[[str], bool]) -> Set[str]:
    """Find the names that a script imports from modules."""
    return {
        alias.name
        for node in tree.nodes(ast.ImportFrom)
        if is_source(node.module or "")
        for alias in node.names
    }


def _is_vendors(node: ast.Call, function: str, is_imported: bool) -> bool:
    owner, _, name = dotted_name(node.func).rpartition(".")
    if name != function:
        return False
    return owner.rpartition(".")[2] in ("npu_ops", "npu_plugin") or (not owner and is_imported)


_APP_RUNS = ("tf.app.run", "tf.compat.v1.app.run", "tensorflow.app.run", "absl.app.run")


def _find_behind_app_run(tree: SyntaxTree) -> Set[int]:
    """Find the statements, by id, behind ``tf.app.run()`` in its block: it ends with sys.exit."""
    behind: Set[int] = set()
    homes = ("absl", "tensorflow")
    has_app = "app" in _find_imported(tree, lambda module: module.partition(".")[0] in homes)
    names = (*_APP_RUNS, "app.run") if has_app else _APP_RUNS
    for call in tree.nodes(ast.Call):
        statement = tree.parent(call)
        is_run = dotted_name(call.func) in names and isinstance(statement, ast.Expr)
        if statement is None or not is_run or id(statement) in behind:
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(tree.parent(statement), name, None)
            if isinstance(block, list) and statement in block:
                behind.update(map(id, block[block.index(statement) + 1 :]))
    return behind


def _is_safe(node: ast.AST, tree: SyntaxTree, depth: int = 3) -> bool:
    """Return whether the program reaches ``node`` even after an exception."""
    below: ast.AST = node
    for above in tree.ancestors(node):
        if isinstance(above, ast.Try) and any(below is each for each in above.finalbody):
            return True
        if isinstance(above, FUNCTIONS):
            return _is_safely_called(above, tree, depth)
        below = above
    return False


@lru_cache(maxsize=64)
def _is_safely_called(function: Any, tree: SyntaxTree, depth: int) -> bool:
    if function.name in ("__exit__", "__del__") or depth == 0:
        return True
    for node in tree.uses(function.name):
        call: Optional[ast.AST] = tree.parent(node)
        if not isinstance(call, ast.Call):
            continue
        if call.func is not node and last_name(call.func) != "run":  # tf.app.run(main) calls it
            return True  # passed to atexit.register, or to another function that calls it
        around = (each for each in tree.definitions_around(call) if isinstance(each, FUNCTIONS))
        is_outside = next(around, None) is not function
        if is_outside and _is_safe(call, tree, depth - 1):
            return True
    return False
