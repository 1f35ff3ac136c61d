"""Rules about loops of several steps in a run, where a script has their numbers as constants.

``run`` sees the same while a script trains: `compat.loops`, `compat.sessions` and
`training.loops.watch_stop`.
"""

import ast
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ascend_session.audit.constants import Constants
from ascend_session.audit.objects import (
    Known,
    OptimizerEntry,
    RunConfigCall,
    last_assignments,
)
from ascend_session.audit.syntax import FUNCTIONS, Script, last_name
from ascend_session.findings import WARNING, Finding

_OPTION = "iterations_per_loop"
# Where the number stands that a loop is loaded with, and its name (util.py, npu_hook.py).
_LOOPS: Dict[str, Tuple[int, str]] = {
    "set_iteration_per_loop": (2, _OPTION),
    "load_iteration_per_loop_var": (1, _OPTION),
    "SetIterationsVarHook": (0, _OPTION),
}
# Where the number stands with which a training ends, of tf.estimator and tf.train.
_ENDS: Dict[str, Dict[str, Optional[int]]] = {
    "train": {"max_steps": 3, "steps": 2},
    "TrainSpec": {"max_steps": 1},
    "StopAtStepHook": {"num_steps": 0, "last_step": 1},
}


def check_loops(
    entries: Sequence[OptimizerEntry], run_configs: Sequence[RunConfigCall], script: Script
) -> Iterator[Finding]:
    """Report loops with other numbers than the entry's, and trainings that end within a loop.

    Args:
        entries: The entries that are meant for the adapter.
        run_configs: The calls of NPURunConfig and of its parts.
        script: The script.
    """
    if not script.is_npu:
        return
    defined = {node.name for node in script.tree.nodes(*FUNCTIONS, ast.ClassDef)}
    calls = [node for node in script.tree.nodes(ast.Call) if last_name(node.func) not in defined]
    constants = Constants(script.tree)
    loops = [
        (call, steps)
        for call in calls
        for name in [last_name(call.func)]
        if name in _LOOPS
        for steps in [_read_number(_find_argument(call, *_LOOPS[name]), constants)]
        if steps != 1  # is no loop
    ]
    configured = _list_configured(entries, run_configs)
    if configured and None not in configured and not run_configs:
        yield from _check_sizes(configured, loops, script)
    # What the loops of a script make; of several, a training has one of these.
    sizes = [steps for _, steps in loops] or (configured if run_configs else [])
    if sizes and None not in sizes:
        yield from _check_ends(sizes, calls, constants, script)


def _list_configured(
    entries: Sequence[OptimizerEntry], run_configs: Sequence[RunConfigCall]
) -> List[Optional[int]]:
    """List what the script sets iterations_per_loop to; None where that is not known."""
    values: List[Optional[int]] = []
    for entry in entries:
        settings = last_assignments(each for each in entry.settings if each.key == _OPTION)
        values += [_as_number(each.value) for each in settings]
        if entry.opaque or (entry.shared and not settings):
            values.append(None)
        elif not (settings or run_configs):
            values.append(1)  # the adapter's default (npu_attrs.cc, SetNpuOptimizerAttr)
    for call in run_configs:
        if call.name == "NPURunConfig":
            given = call.arguments.get(_OPTION, None if call.opaque else Known(1))
            values.append(_as_number(given))
    return values


def _check_sizes(
    configured: Sequence[Optional[int]],
    loops: Sequence[Tuple[ast.Call, Optional[int]]],
    script: Script,
) -> Iterator[Finding]:
    for call, steps in loops:
        if steps is not None and steps not in configured:
            number = next((each for each in configured if each != 1), 1)
            entry = f"has {_OPTION}={number}" if number != 1 else f"leaves {_OPTION} at 1"
            in_entry = f"{_OPTION}={steps} in the entry."
            yield Finding(
                WARNING,
                f"{last_name(call.func)}() makes a loop of {steps} steps, but the NpuOptimizer "
                f"entry {entry}; the vendor requires the same number in both.",
                f"Set {in_entry}" if number == 1 else f"Use {number} here, or {in_entry}",
                "loop-size",
                place=script.place(call),
            )


def _check_ends(
    sizes: Sequence[Optional[int]],
    calls: Sequence[ast.Call],
    constants: Constants,
    script: Script,
) -> Iterator[Finding]:
    names = {last_name(call.func) for call in calls}
    is_certain = not names & {"Estimator", "TPUEstimator"}
    for call in calls:
        for name, position in _ENDS.get(last_name(call.func), {}).items():
            if last_name(call.func) == "train" and not _is_of_estimator(call):
                continue
            number = _read_number(_find_argument(call, position, name), constants)
            if number is None or any(not steps or number % steps == 0 for steps in sizes):
                continue
            steps = sizes[0]
            assert steps is not None
            most = number + -number % steps
            yield Finding(
                WARNING,
                f"{name}={number} is not a multiple of {_OPTION}={steps}: a run makes {steps} "
                f"steps, so that training makes {most}.",
                f"Use {most - steps or steps} or {most}, or another {_OPTION}.",
                "loop-remainder",
                place=script.place(call),
                certain=is_certain,
            )


def _is_of_estimator(call: ast.Call) -> bool:
    """Return whether a call of ``train`` has what an estimator's has, and a function need not."""
    return isinstance(call.func, ast.Attribute) and (
        any(each.arg == "input_fn" for each in call.keywords)
        or any(each.arg == "max_steps" for each in call.keywords)
    )


def _find_argument(call: ast.Call, position: Optional[int], name: str) -> Optional[ast.AST]:
    if position is not None and position < len(call.args):
        before = call.args[: position + 1]
        return None if any(isinstance(each, ast.Starred) for each in before) else before[-1]
    return next((each.value for each in call.keywords if each.arg == name), None)


def _read_number(node: Optional[ast.AST], constants: Constants) -> Optional[int]:
    return None if node is None else _as_number(constants.value(node))


def _as_number(value: Any) -> Optional[int]:
    """Return a positive whole number that is known; None for anything else."""
    number = value.value if isinstance(value, Known) else None
    is_number = isinstance(number, int) and not isinstance(number, bool) and number > 0
    return number if is_number else None
