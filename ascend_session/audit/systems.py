"""Rules about initialize_system and shutdown_system: run, never run, or skipped by an exception.

Each call returns an operation; what counts is where a session runs it. shutdown_system that is not
run leaves the device to the process's end, and an exception on the way there leaves the other ranks
waiting in their collectives (ge_plugin.cc).
"""

import ast
from typing import Any, List, NamedTuple, Optional, Set

from ascend_session.audit.expressions import is_vendor_module
from ascend_session.audit.finding import Book
from ascend_session.audit.objects import dotted
from ascend_session.audit.source import Source, Tree
from ascend_session.findings import WARNING

_WITH = (
    "Run it in a finally block, or write `with ascend_session(...)`, which does so in every case."
)


class _Made(NamedTuple):
    """The calls that make an operation, and the names it gets."""

    calls: List[ast.Call]
    names: Set[str]


class _Runs(NamedTuple):
    """Where an operation is run, and whether it leaves for code that is not seen."""

    nodes: List[ast.Call]
    leaves: bool


def look_at_systems(source: Source, book: Book) -> None:
    """Adds what there is to say of the life of the system in one script."""
    starts, ends = _made("initialize_system", source.tree), _made("shutdown_system", source.tree)
    resources = _resources("init_resource", source.tree)
    if not starts.calls and not resources:
        return
    started, ended = _runs(starts, source.tree), _runs(ends, source.tree)
    # npu_init's init_resource runs the one, and returns the other for shutdown_resource.
    started.nodes.extend(resources)
    ended.nodes.extend(_resources("shutdown_resource", source.tree))
    place = source.place((starts.calls or resources)[0])
    if not started.nodes and not started.leaves:
        book.add(
            "initialize-not-run",
            WARNING,
            place,
            "initialize_system() returns an operation, and nothing runs it here: the system is "
            "initialised later, by the first graph that is run on the device.",
            "Run it, as in session.run(npu_ops.initialize_system()), or leave it out.",
            certain=bool(starts.names),
        )
        return
    if not ended.nodes:
        _no_shutdown(source, place, ends, started, ended, book)
    elif not any(_is_safe(node, source.tree) for node in ended.nodes):
        book.add(
            "shutdown-skipped",
            WARNING,
            source.place(ended.nodes[-1]),
            "shutdown_system is run here, and an exception on the way skips it: the device is not "
            "given back, and the other ranks of a job wait for this one until their time is up.",
            _WITH,
            certain=not ended.leaves
            and not any(_is_handling(each, source) for each in ended.nodes),
        )


def _no_shutdown(
    source: Source, place: Any, ends: _Made, started: _Runs, ended: _Runs, book: Book
) -> None:
    said = "initialize_system is run and shutdown_system is not: the device is given back only "
    if ends.calls:
        said = (
            "shutdown_system() returns an operation, and nothing runs it here: the device is given "
            "back only "
        )
        place = source.place(ends.calls[0])
    certain = not started.leaves and not ended.leaves
    book.add("no-shutdown", WARNING, place, f"{said}when the process ends.", _WITH, certain)


def _resources(function: str, tree: Tree) -> List[ast.Call]:
    """The calls of a function of npu_init, if the script has none of that name itself."""
    own = any(node.name == function for node in tree.kind(ast.FunctionDef))
    if own or not _is_imported(function, tree):
        return []
    return [node for node in tree.kind(ast.Call) if dotted(node.func) == function]


def _is_imported(function: str, tree: Tree) -> bool:
    return any(
        is_vendor_module(node.module or "")
        and any(alias.name in ("*", function) for alias in node.names)
        for node in tree.kind(ast.ImportFrom)
    )


def _made(function: str, tree: Tree) -> _Made:
    imported = _is_imported(function, tree)
    calls = [node for node in tree.kind(ast.Call) if _is_vendors(node, function, imported)]
    found = {id(call) for call in calls}
    assigned = [node for node in tree.kind(ast.Assign) if id(node.value) in found]
    names = {dotted(target) for node in assigned for target in node.targets}
    return _Made(calls, names - {""})


def _is_vendors(node: ast.Call, function: str, imported: bool) -> bool:
    owner, _, name = dotted(node.func).rpartition(".")
    if name != function:
        return False
    return owner.rpartition(".")[2] in ("npu_ops", "npu_plugin") or (not owner and imported)


def _runs(made: _Made, tree: Tree) -> _Runs:
    """Follows the operation from where it is made, or named, to the call that gets it."""
    nodes: List[ast.Call] = []
    leaves = False
    ours = {id(call) for call in made.calls}
    for node in tree.kind(ast.Name, ast.Attribute, ast.Call):
        is_name = isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) in made.names
        is_name = is_name and isinstance(getattr(node, "ctx", None), ast.Load)
        if not is_name and id(node) not in ours:
            continue
        above = tree.of(node)
        while isinstance(above, (ast.List, ast.Tuple, ast.Dict)):
            above = tree.of(above)
        if isinstance(above, ast.keyword):
            above = tree.of(above)
        if isinstance(above, ast.Call) and _last(above.func) == "run":
            nodes.append(above)
        elif isinstance(above, (ast.Return, ast.Call, ast.Yield, ast.Lambda)):
            leaves = True
        elif isinstance(above, ast.Attribute) and above.attr == "run":  # operation.run()
            call = tree.of(above)
            nodes += [call] if isinstance(call, ast.Call) else []
        elif isinstance(above, ast.Assign) and is_name:
            leaves = True
        elif id(node) in ours and isinstance(above, ast.Assign):
            leaves = leaves or any(_is_member(target) for target in above.targets)
    return _Runs(nodes, leaves)


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else dotted(node)


def _is_member(target: ast.AST) -> bool:
    return not isinstance(target, ast.Name)


def _is_handling(node: ast.AST, source: Source) -> bool:
    """Whether it is run where an exception is handled, which may be all that can come."""
    return any(isinstance(above, ast.ExceptHandler) for above in source.tree.all_of(node))


def _is_safe(node: ast.AST, tree: Tree, depth: int = 3) -> bool:
    """Whether an exception does not keep the program from coming to ``node``."""
    below: ast.AST = node
    for above in tree.all_of(node):
        if isinstance(above, ast.Try) and any(below is each for each in above.finalbody):
            return True
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return _is_safely_called(above, tree, depth)
        below = above
    return False


def _is_safely_called(function: Any, tree: Tree, depth: int) -> bool:
    if function.name in ("__exit__", "__del__") or depth == 0:
        return True
    for node in tree.kind(ast.Name, ast.Attribute):
        if _last(node) != function.name:
            continue
        call: Optional[ast.AST] = tree.of(node)
        if not isinstance(call, ast.Call):
            continue
        if call.func is not node and _last(call.func) != "run":  # tf.app.run(main) calls it here
            return True  # given to atexit.register, or to whatever calls it
        is_outside = tree.function_of(call) is not function
        if is_outside and _is_safe(call, tree, depth - 1):
            return True
    return False
