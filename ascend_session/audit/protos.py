"""Rules about configurations: their entries, the rewriter, and whether a session gets them."""

import ast
from itertools import combinations
from typing import Any, Iterator, List, Optional, Set

from ascend_session.audit.book import Book
from ascend_session.audit.finding import ERROR, WARNING
from ascend_session.audit.objects import Entry, Proto, Toggle, compatible, implied
from ascend_session.audit.scopes import dotted
from ascend_session.audit.source import Source
from ascend_session.audit.tree import Tree
from ascend_session.audit.values import UNKNOWN
from ascend_session.config.entry_words import OPTIMISES, several_entries

__all__ = ["look_at_proto"]

# Words and numbers that stop the optimisation. The vendor's samples write RewriterConfig.OFF, which
# is MANUAL in the enum of memory_optimization (adapter_behaviour.md).
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
