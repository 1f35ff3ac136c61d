"""Which of the things that `config` objects to really end a run on a device, and which pass.

`AscendConfig` refuses more than the vendor's stack does: what nothing looks at is refused there,
too, because it does not do what it says. A script that runs unchanged is to run here as there.

Sources: options.json (rejected_by_adapter_as); adapter_behaviour.md, "What a bad option does";
options_notes.md a, g1, g21.
"""

from typing import Any, Callable, Dict, FrozenSet, Mapping, Set

from ascend_session.config.entry import Entry
from ascend_session.config.grammar import INT32_MAX
from ascend_session.config.names import REFUSED_BY_GE
from ascend_session.config.rules import dynamic, paths, performance, tuning, variables
from ascend_session.config.rules._rule import Finding, Rule

__all__ = ["ends_the_run", "field_matters", "unread_matters", "value_matters"]

# SIGABRT
_ABORTING = (
    *("graph_run_mode", "session_device_id", "task_index", "variable_placement", "work_path"),
    *("input_shape", "dynamic_dims", "dynamic_node_type", "dynamic_inputs_shape_range"),
    *("dump_mode", "dump_debug_mode", "buffer_optimize", "iterations_per_loop", "local_rank_id"),
    *("local_device_list", "op_select_implmode", "dynamic_graph_execute_mode"),
)
# InvalidArgumentError or InternalError
_RAISING = (
    *("variable_use_1g_huge_page", "compile_hybrid_mode", "in_out_pair", "enable_exception_dump"),
    *("export_compile_stat", "precision_mode", "precision_mode_v2", "modify_mixlist", "dump_path"),
    *("dump_step", "dump_data", "graph_max_parallel_model_num", "aoe_mode", "jit_compile"),
    *("shape_generalization_mode", "experimental_accelerate_train_mode", "graph_slice"),
)
# GE refuses to initialise (options_notes c, e, g22; options.json)
_REFUSED_BY_GE = (*("aicore_num", "auto_multistream_parallel_mode", "profiling_options"),)
_LOOKED_AT: FrozenSet[str] = frozenset((*_ABORTING, *_RAISING, *_REFUSED_BY_GE))

# Options that are read with another one only.
_READ_WITH: Dict[str, str] = {
    "dump_step": "enable_dump",
    "dump_mode": "enable_dump",
    "dump_debug_mode": "enable_dump_debug",
    "dynamic_graph_execute_mode": "dynamic_input",
    "dynamic_inputs_shape_range": "dynamic_input",
    "in_out_pair": "mix_compile_mode",
    "profiling_options": "profiling_mode",
}

# Of these an empty text is refused, too; others take it for nothing (adapter's verdicts; g15).
_NEVER_EMPTY = (
    *("precision_mode", "precision_mode_v2", "op_select_implmode"),
    *("jit_compile", "shape_generalization_mode"),
)

# The two whose field the adapter looks at (options_notes g1).
_TYPED = ("jit_compile", "shape_generalization_mode")

# Rules between options that nothing in the vendor's stack enforces, and the host's that it does.
_UNENFORCED: Set[Callable[..., Any]] = {
    tuning.tuning_conditions,
    performance.host_variables_need_mixed_computing,
    performance.mixed_computing_runs_single_steps,
}
_ENFORCED_ON_HOST: Set[Callable[..., Any]] = {
    paths.dump_directory,
    paths.tuning_directory,
    variables.device_variables,
    variables.tuning_variable,
    variables.profiling_options_variable,
}
_OF_HOST = {rule.check for rule in (*paths.RULES, *paths.OPENING_RULES, *variables.RULES)}


def value_matters(key: str, value: Any, values: Mapping[str, Any]) -> bool:
    """Whether a value that the option's definition refuses ends the run.

    Args:
        key: The option's key.
        value: The value, as the adapter reads it.
        values: All values of the entry.
    """
    if key not in _LOOKED_AT or (key == "graph_run_mode" and value < 0):
        return False
    if key == "session_device_id" and value > INT32_MAX:
        return False
    if value == "" and key not in _NEVER_EMPTY:
        return False
    switch = _READ_WITH.get(key)
    return switch is None or values.get(switch) is True


def unread_matters(key: str, value: Any) -> bool:
    """Whether a key that is no option ends the run; ``value`` is what stands in the entry."""
    return key in REFUSED_BY_GE and isinstance(value, str) and value != ""


def field_matters(key: str) -> bool:
    """Whether a value in the wrong protobuf field ends the run; else it reads as zero."""
    return key in _TYPED


def ends_the_run(rule: Rule, finding: Finding, entry: Entry) -> bool:
    """Whether what a rule has found ends the run."""
    if not finding.refuses or rule.check in _UNENFORCED:
        return False
    if rule.check is dynamic.profiles_exclude:
        return entry.is_on("mix_compile_mode")
    return rule.check in _ENFORCED_ON_HOST or rule.check not in _OF_HOST
