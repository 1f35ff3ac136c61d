"""What the vendor's adapter makes of the options of a session, key by key.

`AscendConfig` refuses more than the vendor's stack does: what nothing looks at is refused there,
too, because it does not do what it says. A script that runs unchanged is to run here as there, so
of what `config` objects to only that counts which really ends a run on a device.

Sources: the adapter's npu_attrs.cc, geop_npu.cc and om_partition_subgraphs_pass.cc, and GE's checks
of its options.
"""

from functools import lru_cache
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ascend_session.config.checking import findings
from ascend_session.config.grammar import INT32_MAX
from ascend_session.config.names import REFUSED_BY_GE, unknown_key
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.parameter_map import unflatten
from ascend_session.config.proto import (
    ENTRY_NAME,
    is_misnamed,
    left_on,
    misnamed_entry,
    several_entries,
    wrong_field,
)
from ascend_session.config.rules import RULES, dynamic, execution, paths, variables
from ascend_session.config.rules.rule import FlatOptions, Rule
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding

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
# GE refuses to initialise
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

# Of these an empty text is refused, too; others take it for nothing (npu_attrs.cc).
_NEVER_EMPTY = (
    *("precision_mode", "precision_mode_v2", "op_select_implmode"),
    *("jit_compile", "shape_generalization_mode"),
)

# The two whose field the adapter looks at (npu_attrs.cc).
_TYPED = ("jit_compile", "shape_generalization_mode")

# Rules between options that nothing in the vendor's stack enforces, and the host's that it does.
_UNENFORCED: Set[Callable[..., Any]] = {
    execution.tuning_conditions,
    execution.host_variables_need_mixed_computing,
    execution.mixed_computing_runs_single_steps,
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


def ends_the_run(rule: Rule, finding: Finding, entry: FlatOptions) -> bool:
    """Whether what a rule has found ends the run."""
    if finding.severity != ERROR or rule.check in _UNENFORCED:
        return False
    if rule.check is dynamic.profiles_exclude:
        return entry.is_on("mix_compile_mode")
    return rule.check in _ENFORCED_ON_HOST or rule.check not in _OF_HOST


_MOST_BY_HAND = 25  # options

_ZERO: Dict[str, Any] = {"s": "", "i": 0, "b": False}


class Judged(NamedTuple):
    """The entry of one session.

    Attributes:
        has_entry: Whether there is one that the adapter reads.
        said: What stands in it: ``{key: value}``.
        values: What the adapter reads of that; only what is in order.
        refused: What ends the run on a device.
        ignored: What does not do what it says there, without a word.
        notes: What else to say of the session's configuration.
        defaults: Keys at the value that NPUEstimator writes for whatever nobody has said.
    """

    has_entry: bool
    said: Dict[str, Any]
    values: Dict[str, Any]
    refused: List[Finding]
    ignored: List[Finding]
    notes: List[str]
    defaults: Set[str]

    @property
    def is_offloaded(self) -> bool:
        """Whether the adapter puts such a session's graphs on the device."""
        on_host = self.values.get("job") in ("ps", "default")
        return self.has_entry and self.values.get("use_off_line") is not False and not on_host


def judge(proto: Any, environ: Mapping[str, str]) -> Judged:
    """Reads the NpuOptimizer entry of a ``tf.ConfigProto`` as the adapter does.

    Args:
        proto: The proto, or None.
        environ: The environment, for the options that depend on it.
    """
    judged = Judged(False, {}, {}, [], [], [], set())
    if proto is None:
        return judged
    rewriter = proto.graph_options.rewrite_options
    judged.ignored.extend(
        misnamed_entry(each.name) for each in rewriter.custom_optimizers if is_misnamed(each.name)
    )
    entries = [each for each in rewriter.custom_optimizers if each.name == ENTRY_NAME]
    if not entries:
        return judged
    if len(entries) > 1:
        judged.ignored.append(several_entries(len(entries)))
    for entry in entries:  # each is looked at alone; what the last one says holds
        judged.said.clear()
        judged.values.clear()
        judged.defaults.clear()
        _look_at(entry.parameter_map, judged, environ)
    for name in ("memory_optimization", "remapping"):
        note = left_on(name, getattr(rewriter, name), rewriter.optimizers)
        if note is not None:
            judged.notes.append(note)
    return judged._replace(has_entry=True)


def _look_at(parameter_map: Any, judged: Judged, environ: Mapping[str, str]) -> None:
    known = options_by_key(AdapterOptions)
    misplaced: Dict[str, Finding] = {}
    for key in sorted(parameter_map):
        attribute = parameter_map[key]
        found = attribute.WhichOneof("value")
        judged.said[key] = _shown(getattr(attribute, found)) if found else None
        option = known.get(key)
        if option is None or option.field is None:
            matters = unread_matters(key, judged.said[key])
            (judged.refused if matters else judged.ignored).append(unknown_key(key))
        elif found != option.field:
            misplaced[key] = problem = wrong_field(key, found, option.field)
            (judged.refused if field_matters(key) else judged.ignored).append(problem)
            judged.values[key] = _ZERO[option.field]
        else:
            judged.values[key] = judged.said[key]
    bad = _look_at_values(judged, misplaced)
    readable = {key: value for key, value in judged.values.items() if key not in bad}
    # What cannot be used is unset to the rules between options, as far as the adapter is concerned.
    _look_between(FlatOptions(judged.values, bad, environ), judged)
    judged.values.clear()
    judged.values.update(readable)
    _forgive_defaults(judged)


def _forgive_defaults(judged: Judged) -> None:
    """Forgets what there is to say of the defaults that NPUEstimator writes, all of them always.

    Source: npu_estimator.py, which writes job and task_index; nobody else writes half as much.
    """
    if len(judged.said) < _MOST_BY_HAND or not {"job", "task_index"} <= set(judged.said):
        return
    known = options_by_key(AdapterOptions)
    names = set()
    for key in judged.values:
        option = known[key]
        if judged.values[key] in (option.adapter, option.run_config):
            judged.defaults.add(key)
            names |= {key, option.name, option.path}
    judged.ignored[:] = [each for each in judged.ignored if each.option not in names]


def _shown(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _look_at_values(judged: Judged, misplaced: Mapping[str, Finding]) -> Set[str]:
    """Looks at each value alone; returns the keys whose value cannot be used.

    Args:
        judged: What was read.
        misplaced: What was said of the keys that read as zero, which nobody has written.
    """
    bad = set()
    for key, value in judged.values.items():
        problems = _problems_of(key, value)
        if problems:
            bad.add(key)
            matters = value_matters(key, value, judged.values)
            cause = misplaced.get(key)
            if cause is not None and cause in judged.ignored:
                judged.ignored.remove(cause)
                problems = [_because(cause, problem) for problem in problems]
            (judged.refused if matters else judged.ignored).extend(problems)
    return bad


def _because(cause: Finding, problem: Finding) -> Finding:
    return Finding(ERROR, f"{cause.message} {problem.message}", cause.hint, option=problem.option)


@lru_cache(maxsize=1024, typed=True)
def _problems_of(key: str, value: Any) -> Sequence[Finding]:
    """What the option's own definition says against a value."""
    try:
        unflatten(AdapterOptions, {key: value})
    except ConfigError as error:
        return error.problems
    return ()


def _look_between(entry: FlatOptions, judged: Judged) -> None:
    seen = {(problem.option, problem.message) for problem in (*judged.refused, *judged.ignored)}
    for rule in _rules():
        for finding in findings([rule], entry):
            if (finding.option, finding.message) not in seen:
                seen.add((finding.option, finding.message))
                matters = ends_the_run(rule, finding, entry)
                (judged.refused if matters else judged.ignored).append(finding)


def _rules() -> Tuple[Rule, ...]:
    # What stands in files is for `ascend-session config`: they are those of another machine.
    host = [rule for rule in paths.RULES if rule.check is not paths.files_that_ge_reads]
    return (*RULES, *host, *paths.OPENING_RULES, *variables.RULES)
