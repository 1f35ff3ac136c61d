"""Rules about initialize_system and shutdown_system: run, never run, or skipped by an exception.

Each call returns an operation; what counts is where a session runs it. shutdown_system that is not
run leaves the device to the process's end, and an exception on the way there leaves the other ranks
waiting in their collectives (ge_plugin.cc).
"""

import ast
from typing import Any, Iterator, List, Optional, Set

from ascend_session.audit.objects import dotted_name
from ascend_session.audit.source import FUNCTIONS, Script, SyntaxTree, is_vendor_module
from ascend_session.findings import WARNING, Finding

_WITH = (
    "Run it in a finally block, or write `with ascend_session(...)`, which does so in every case."
)


class SystemOperation:
    """An operation of npu_ops in one script: where it is made, and where it is run.

    Attributes:
        calls: The calls that make it.
        runs: The calls that run it.
        escapes: Whether it leaves for code that is not seen.
        names: What it is called.
    """

    def __init__(self, function: str, tree: SyntaxTree) -> None:
        is_imported = _is_imported(function, tree)
        self.calls: List[ast.Call] = [
            node for node in tree.nodes(ast.Call) if _is_vendors(node, function, is_imported)
        ]
        own = {id(call) for call in self.calls}
        assignments = [node for node in tree.nodes(ast.Assign) if id(node.value) in own]
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
        if isinstance(above, ast.Call) and _last_name(above.func) == "run":
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
    start = SystemOperation("initialize_system", tree)
    end = SystemOperation("shutdown_system", tree)
    resources = _resource_calls("init_resource", tree)
    if not start.calls and not resources:
        return
    # npu_init's init_resource runs the one, and returns the other for shutdown_resource.
    start.runs += resources
    end.runs += _resource_calls("shutdown_resource", tree)
    place = script.place((start.calls or resources)[0])
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
    elif not end.runs:
        begin = "initialize_system is run and shutdown_system is not"
        if end.calls:
            place = script.place(end.calls[0])
            begin = "shutdown_system() returns an operation, and nothing runs it here"
        message = f"{begin}: the device is given back only when the process ends."
        is_certain = not start.escapes and not end.escapes
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
            "shutdown_system is run here, and an exception on the way skips it: the device is not "
            "given back, and the other ranks of a job wait for this one until their time is up.",
            _WITH,
            "shutdown-skipped",
            place=script.place(end.runs[-1]),
            certain=not end.escapes and not in_handler,
        )


def _resource_calls(function: str, tree: SyntaxTree) -> List[ast.Call]:
    """List the calls of a function of npu_init, if the script has none of that name itself."""
    is_own = any(node.name == function for node in tree.nodes(ast.FunctionDef))
    if is_own or not _is_imported(function, tree):
        return []
    return [node for node in tree.nodes(ast.Call) if dotted_name(node.func) == function]


def _is_imported(function: str, tree: SyntaxTree) -> bool:
    return any(
        is_vendor_module(node.module or "")
        and any(alias.name in ("*", function) for alias in node.names)
        for node in tree.nodes(ast.ImportFrom)
    )


def _is_vendors(node: ast.Call, function: str, is_imported: bool) -> bool:
    owner, _, name = dotted_name(node.func).rpartition(".")
    if name != function:
        return False
    return owner.rpartition(".")[2] in ("npu_ops", "npu_plugin") or (not owner and is_imported)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else dotted_name(node)


def _is_safe(node: ast.AST, tree: SyntaxTree, depth: int = 3) -> bool:
    """Whether an exception does not keep the program from coming to ``node``."""
    below: ast.AST = node
    for above in tree.ancestors(node):
        if isinstance(above, ast.Try) and any(below is each for each in above.finalbody):
            return True
        if isinstance(above, FUNCTIONS):
            return _is_safely_called(above, tree, depth)
        below = above
    return False


def _is_safely_called(function: Any, tree: SyntaxTree, depth: int) -> bool:
    if function.name in ("__exit__", "__del__") or depth == 0:
        return True
    for node in tree.nodes(ast.Name, ast.Attribute):
        call: Optional[ast.AST] = tree.parent(node)
        if _last_name(node) != function.name or not isinstance(call, ast.Call):
            continue
        if call.func is not node and _last_name(call.func) != "run":  # tf.app.run(main) calls it
            return True  # given to atexit.register, or to whatever calls it
        is_outside = tree.function_around(call) is not function
        if is_outside and _is_safe(call, tree, depth - 1):
            return True
    return False
