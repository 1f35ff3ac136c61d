"""Rules about NpuOptimizer entries and about the configurations that they stand in.

An entry has a name, keys, fields and values; a configuration has entries and a rewriter, and a
session gets it or not. A frozen graph is not compiled as if it were trained.
"""

import ast
import contextlib
from itertools import combinations
from typing import Any, Iterator, List, Optional, Set

from ascend_session.audit.finding import Book
from ascend_session.audit.objects import (
    UNKNOWN,
    Entry,
    EnvironmentText,
    Known,
    Proto,
    Setting,
    Toggle,
    compatible,
    dotted,
    implied,
)
from ascend_session.audit.options import judge, known_option, path_keys, status_findings
from ascend_session.audit.source import Source, Tree
from ascend_session.config.names import REFUSED_BY_GE, unknown_key
from ascend_session.config.profiling_options import profiling_members
from ascend_session.config.proto import (
    ENTRY_NAME,
    OPTIMISES,
    is_misnamed,
    misnamed_entry,
    several_entries,
    wrong_field,
)
from ascend_session.findings import ERROR, INFO, WARNING, Place
from ascend_session.text import did_you_mean

# Their entries have nothing to do with the adapter, whatever their keys are called.
_OTHERS = ("tensorrt", "ngraph", "tfgraph", "constfold", "layout", "xla")
# The fields of tf.AttrValue.
_FIELDS = ("b", "f", "func", "i", "list", "placeholder", "s", "shape", "tensor", "type")
# They are there on every machine.
_COMMON = ("/tmp", "/dev", "/proc", "/var/tmp")


def adapter_entries(entries: Iterator[Entry], source: Source) -> Iterator[Entry]:
    """The entries that are meant for the adapter."""
    for entry in entries:
        if not entry.own and any(each.field not in _FIELDS for each in entry.settings):
            continue  # some other kind of map
        names = [value.value for value, _ in entry.names if isinstance(value, Known)]
        if ENTRY_NAME in names or any(_is_near(name) for name in names):
            yield entry
        elif source.is_npu and not any(_is_another(name) for name in names):
            keys = [setting.key for setting in entry.settings]
            if not names or any(known_option(key) is not None for key in keys):
                yield entry


def _is_near(name: Any) -> bool:
    return isinstance(name, str) and (
        is_misnamed(name) or did_you_mean(name.lower(), [ENTRY_NAME.lower()], 0.8) is not None
    )


def _is_another(name: Any) -> bool:
    return isinstance(name, str) and any(word in name.lower() for word in _OTHERS)


def look_at_entries(entry: Entry, source: Source, book: Book) -> None:
    """Adds what there is to say of one entry."""
    _look_at_name(entry, book)
    for setting in entry.settings:
        _look_at_setting(setting, source, book)


def _look_at_name(entry: Entry, book: Book) -> None:
    for value, place in entry.names:
        if isinstance(value, Known) and value.value != ENTRY_NAME:
            problem = misnamed_entry(str(value.value))
            book.add("wrong-optimizer-name", ERROR, place, problem.message, problem.hint)
    if not entry.names and entry.own and entry.settings:
        book.add(
            "wrong-optimizer-name",
            ERROR,
            entry.place,
            f"This entry gets no name; the adapter reads the one named {ENTRY_NAME!r} only and "
            "ignores this one without a word.",
            f'Write .name = "{ENTRY_NAME}".',
            certain=not entry.shared,
        )


def _look_at_setting(setting: Setting, source: Source, book: Book) -> None:
    key, place = setting.key, setting.place
    option = known_option(key)
    if option is None:
        problem = unknown_key(key)
        rule = "value-not-allowed" if key in REFUSED_BY_GE else "unknown-key"
        book.add(rule, ERROR, place, problem.message, problem.hint)
        if setting.field == "s" and isinstance(setting.value, EnvironmentText):
            look_at_variable(key, setting.value.name, place, book)
        return
    look_at_status(key, place, book)
    if setting.field != option.field:
        problem = wrong_field(key, setting.field, option.field or "")
        book.add("wrong-field", ERROR, place, problem.message, problem.hint)
        return
    judged = judge(option, setting.value, source.old)
    if judged.variable is not None:
        look_at_variable(key, judged.variable, place, book)
    if judged.wrong_type is not None:
        said = f"{key}: {judged.wrong_type}; Python ends the script with a TypeError."
        hint = "Write tf.compat.as_bytes(...) around it." if option.field == "s" else None
        book.add("field-type", ERROR, place, said, hint, judged.certain)
    for each in judged.problems:
        book.add("value-not-allowed", ERROR, place, each.message, each.hint, judged.certain)
    look_at_path(key, judged.value, place, book)


def look_at_status(key: str, place: Place, book: Book) -> None:
    """Says that an option is deprecated, or that nothing reads it, whatever its value."""
    for found in status_findings(key):
        book.add(found.rule, found.severity, place, found.said, found.hint or _STATUS[found.rule])


_STATUS = {
    "unread-option": "Leave it out.",
    "deprecated-option": "It is still read, and the manual names nothing instead.",
}


def look_at_variable(key: str, variable: str, place: Place, book: Book) -> None:
    """Says that an unset variable ends the script."""
    book.add(
        "variable-without-default",
        WARNING,
        place,
        f"{key} is what the variable {variable} says; where it is not set, os.getenv gives None "
        "and Python ends the script with a TypeError.",
        f'Give a default, as in os.getenv("{variable}", "..."), or leave the option out then.',
    )


def look_at_path(key: str, value: Optional[Any], place: Place, book: Book) -> None:
    """Says that a path is one of the machine the script was written on."""
    if key == "profiling_options" and isinstance(value, str):
        with contextlib.suppress(ValueError):
            key, value = f"{key}, output", profiling_members(value).get("output")
    elif key not in path_keys():
        return
    if not isinstance(value, str):
        return
    is_absolute = value.startswith("/") or (value[1:3] in (":/", ":\\") and value[0].isalpha())
    if is_absolute and not value.startswith(_COMMON):
        book.add(
            "machine-path",
            INFO,
            place,
            f"{key}={value!r} is a path of one machine; on another one it is not there.",
            "Take it from an argument or a variable, or write it relative to the script.",
        )


# Words and numbers that stop the optimisation. The vendor's samples write RewriterConfig.OFF, which
# is MANUAL in the enum of memory_optimization (rewriter_config.proto).
_OFF = {"OFF", "MANUAL", "NO_MEM_OPT", 1, 2}


def look_at_proto(proto: Proto, entries: List[Entry], source: Source, book: Book) -> None:
    """Adds what there is to say of a configuration.

    Args:
        proto: The configuration.
        entries: Those of its entries that are meant for the adapter; at least one.
        source: The script.
        book: Where it is added.
    """
    _look_at_count(proto, entries, source, book)
    said: List[Entry] = []
    for entry in entries:
        if not any(compatible(entry.branch, each.branch) for each in said):
            said.append(entry)
            for name in ("memory_optimization", "remapping"):
                _look_at_toggle(name, proto, entry, source, book)
    if proto.own and not proto.to_run_config:
        _look_at_use(proto, source, book)


def _look_at_count(proto: Proto, entries: List[Entry], source: Source, book: Book) -> None:
    loops = source.tree.kind(ast.For)
    # Who looks through the entries that are there does not add a second one.
    is_looking = any(dotted(each.iter).endswith("custom_optimizers") for each in loops)
    for first, second in combinations([e for e in entries if not e.in_loop], 2):
        if is_looking or first.place == second.place:
            continue
        if not compatible(first.branch, second.branch):
            continue
        problem = several_entries(2)
        sure = implied(first.branch, second.branch) or implied(second.branch, first.branch)
        book.add("two-entries", ERROR, second.place, problem.message, problem.hint, sure)
    if proto.completed is not None and compatible(proto.completed, entries[0].branch):
        said = "npu_config_proto() has added an entry already, and this is a second one. "
        problem = several_entries(2)
        sure = implied(proto.completed, entries[0].branch) and not entries[0].in_loop
        book.add("two-entries", ERROR, entries[0].place, said + problem.message, _ADD_FIRST, sure)
    own = [entry for entry in entries if entry.settings or entry.opaque]
    if proto.to_run_config is not None and own:
        book.add(
            "two-entries",
            WARNING,
            own[0].place,
            "NPUEstimator adds an entry of its own to the session_config of its NPURunConfig, with "
            "all defaults written; they override what this entry says.",
            "Give the options to NPURunConfig, and leave this entry out.",
            not own[0].shared,
        )


_ADD_FIRST = "Add the entry first, and give the configuration to npu_config_proto() then."


def _look_at_toggle(name: str, proto: Proto, entry: Entry, source: Source, book: Book) -> None:
    if name == "remapping" and _is_patched(source):
        return
    rule = f"{name.replace('_', '-')}-on"
    toggles = [each for each in proto.toggles if each.name == name]
    toggles = [each for each in toggles if compatible(each.branch, entry.branch)]
    explicit = [each for each in toggles if each.value is not UNKNOWN and each.value not in _OFF]
    hint = f"Write {_name_of(proto)}.graph_options.rewrite_options.{name} = RewriterConfig.OFF."
    for toggle in explicit:
        said = f"rewrite_options.{name} is set to {toggle.value}. {OPTIMISES[name]}"
        book.add(rule, WARNING, toggle.place, said, hint, _is_last(toggle, toggles, entry))
    if explicit or any(implied(each.branch, entry.branch) for each in toggles):
        return
    outside = (None, source.tree.root)  # other code may see those names
    is_seen = proto.to_session or all(function not in outside for _, function in proto.names)
    open_ended = not (proto.own and is_seen) or proto.shared or bool(toggles)
    open_ended = open_ended or name == "remapping"  # which another file's import may turn off
    said = f"rewrite_options.{name} is not turned off. {OPTIMISES[name]}"
    book.add(rule, WARNING, entry.place, said, hint, not open_ended)


def _is_last(toggle: Toggle, toggles: List[Toggle], entry: Entry) -> bool:
    return toggle is toggles[-1] and implied(toggle.branch, entry.branch)


def _is_patched(source: Source) -> bool:
    """Whether sessions of this script get remapping OFF: npu_init patches tf.Session."""
    return any("npu_init" in line for line in source.lines if "import" in line)


def _name_of(proto: Proto) -> str:
    return next((name for name, _ in proto.names if name), "config")


def _look_at_use(proto: Proto, source: Source, book: Book) -> None:
    """Says so if no expression uses the configuration but to write into it."""
    regions = {id(function): function for _, function in proto.names}
    if not proto.names or None in regions.values() or len(regions) != 1:
        return
    region = next(iter(regions.values()))
    names = {name for name, _ in proto.names}
    loads = _loads(region, names, source.tree)
    uses = [node for node in loads if _is_use(node, names, source.tree)]
    if uses:
        _look_at_helper(proto, region, uses, source, book)
        return
    is_script = region is not source.tree.root or "Session(" in "\n".join(source.lines)
    book.add(
        "config-not-used",
        ERROR,
        proto.place,
        f"{_name_of(proto)} is built and no session gets it, so that none of its options is read.",
        f"Write tf.Session(config={_name_of(proto)}).",
        is_script,
    )


def _look_at_helper(
    proto: Proto, region: Any, uses: List[ast.Name], source: Source, book: Book
) -> None:
    """Says so if a function returns the configuration, and nothing in the script calls it."""
    tree = source.tree
    is_plain = isinstance(region, ast.FunctionDef) and tree.of(region) is tree.root
    if not is_plain or not all(isinstance(tree.of(node), ast.Return) for node in uses):
        return
    named = {node.id for node in tree.kind(ast.Name)}
    named |= {node.attr for node in tree.kind(ast.Attribute)}
    opened = any(dotted(node.func).endswith("Session") for node in tree.kind(ast.Call))
    if region.name not in named and opened:
        book.add(
            "config-not-used",
            ERROR,
            proto.place,
            f"{region.name}() builds {_name_of(proto)} and nothing here calls it: the sessions of "
            "this script get none of its options.",
            f"Write tf.Session(config={region.name}()).",
            certain=False,
        )


def _loads(region: Any, names: Set[str], tree: Tree) -> Iterator[ast.Name]:
    for node in tree.kind(ast.Name):
        is_load = node.id in names and isinstance(node.ctx, ast.Load)
        if is_load and any(above is region for above in tree.all_of(node)):
            yield node


def _is_use(node: ast.Name, names: Set[str], parents: Tree) -> bool:
    """Whether a session may get the configuration here."""
    parent = parents.of(node)
    if isinstance(parent, ast.Attribute):
        return _inner_use(parent, parents)
    call: Optional[ast.AST] = parent
    if isinstance(parent, ast.keyword):
        call = parents.of(parent)
    if isinstance(call, ast.Call) and dotted(call.func).endswith("npu_config_proto"):
        target = parents.of(call)
        if isinstance(target, ast.Expr):
            return False
        if isinstance(target, ast.Assign):
            return not {dotted(each) for each in target.targets} <= names
    return True


def _inner_use(node: ast.Attribute, parents: Tree) -> bool:
    """Whether an attribute of the configuration does more than being written into."""
    inner: ast.AST = node
    parent = parents.of(inner)
    while isinstance(parent, ast.Attribute):
        inner, parent = parent, parents.of(parent)
    if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
        return False
    is_method = isinstance(parent, ast.Call) and parent.func is inner
    return not (
        is_method and isinstance(inner, ast.Attribute) and inner.attr in ("add", "CopyFrom")
    )


_READING = {"ParseFromString", "FromString"}
_TRAINING = {
    "apply_gradients",
    "compute_gradients",
    "fit",
    "gradients",
    "minimize",
    "train",
    "train_and_evaluate",
}


def look_at_inference(entries: List[Entry], source: Source, book: Book) -> None:
    """Adds a finding for each entry of a script that only runs a frozen graph."""
    called = _called(source.tree)
    if "import_graph_def" not in called or not called & _READING or called & _TRAINING:
        return
    for entry in entries:
        if any(setting.key == "graph_run_mode" for setting in entry.settings):
            continue
        book.add(
            "inference-as-training",
            WARNING,
            entry.place,
            "This script reads a frozen graph, and graph_run_mode is not set: its default, 1, "
            "compiles the graph for training, with training's precision and memory.",
            'Write parameter_map["graph_run_mode"].i = 0.',
            certain=False,
        )


def _called(tree: Tree) -> Set[str]:
    """The last names of all functions that are called."""
    found: Set[str] = set()
    for node in tree.kind(ast.Call):
        if isinstance(node.func, ast.Attribute):
            found.add(node.func.attr)
        elif isinstance(node.func, ast.Name):
            found.add(node.func.id)
    return found
