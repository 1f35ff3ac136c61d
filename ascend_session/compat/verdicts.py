"""What the vendor's adapter makes of the options of a session, key by key.

`AscendConfig` refuses more than the vendor's stack does: what nothing looks at is refused there,
too, because it does not do what it says. A script that runs unchanged is to run here as there, so
of what `config` objects to only that counts which really ends a run on a device.

Sources: the adapter's npu_attrs.cc, geop_npu.cc and om_partition_subgraphs_pass.cc, and GE's checks
of its options; guides/facts/adapter.md#what-a-bad-option-does,
guides/facts/adapter.md#options-that-nobody-checks.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Sequence, Set, Tuple

from ascend_session.config.entry import (
    ENTRY_NAME,
    is_misnamed,
    misnamed_entry,
    several_entries,
    unflatten,
    wrong_field,
)
from ascend_session.config.grammar import INT32_MAX
from ascend_session.config.names import REFUSED_BY_GE, unknown_key
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.proto import left_on
from ascend_session.config.rules import RULES, dynamic, execution, paths, variables
from ascend_session.config.rules.rule import FlatOptions, Rule
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding

# The options whose wrong values end the run; others are taken for what they are, or for nothing.
_CHECKED: FrozenSet[str] = frozenset(
    (
        # SIGABRT
        *("graph_run_mode", "session_device_id", "task_index", "variable_placement", "work_path"),
        *("input_shape", "dynamic_dims", "dynamic_node_type", "dynamic_inputs_shape_range"),
        *("dump_mode", "dump_debug_mode", "buffer_optimize", "iterations_per_loop"),
        *("local_rank_id", "local_device_list", "op_select_implmode"),
        *("dynamic_graph_execute_mode",),
        # InvalidArgumentError or InternalError
        *("variable_use_1g_huge_page", "compile_hybrid_mode", "in_out_pair"),
        *("enable_exception_dump", "export_compile_stat", "precision_mode", "precision_mode_v2"),
        *("modify_mixlist", "dump_path", "dump_step", "dump_data", "aoe_mode", "jit_compile"),
        *("graph_max_parallel_model_num", "shape_generalization_mode"),
        *("experimental_accelerate_train_mode", "graph_slice"),
        # GE refuses to initialise
        *("aicore_num", "auto_multistream_parallel_mode", "profiling_options"),
    )
)

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

# The two whose field the adapter looks at (npu_attrs.cc).
_FIELD_CHECKED = ("jit_compile", "shape_generalization_mode")

# Of these an empty text is refused, too; others take it for nothing (npu_attrs.cc).
_NEVER_EMPTY = (*_FIELD_CHECKED, "precision_mode", "precision_mode_v2", "op_select_implmode")

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
# What stands in files is for `ascend-session config`: they are those of another machine.
_HOST_RULES: Tuple[Rule, ...] = (
    *(rule for rule in paths.RULES if rule.check is not paths.files_that_ge_reads),
    *paths.OPENING_RULES,
    *variables.RULES,
)
_ALL_RULES = (*RULES, *_HOST_RULES)

_ZERO: Dict[str, Any] = {"s": "", "i": 0, "b": False}

_MOST_BY_HAND = 25  # options


@dataclass
class EntryVerdict:
    """What the adapter makes of the entry of one session.

    Attributes:
        has_entry: Whether there is one that the adapter reads.
        written: What stands in it, by key.
        values: What the adapter reads of that; only what is in order.
        refused: What ends the run on a device.
        ignored: What does not do what it says there, without a word.
        notes: What else is worth knowing of the session's configuration.
        defaults: Keys at the value that NPUEstimator writes for whatever was left out.
    """

    has_entry: bool = False
    written: Dict[str, Any] = field(default_factory=dict)
    values: Dict[str, Any] = field(default_factory=dict)
    refused: List[Finding] = field(default_factory=list)
    ignored: List[Finding] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    defaults: Set[str] = field(default_factory=set)

    @property
    def is_offloaded(self) -> bool:
        """Whether the adapter puts such a session's graphs on the device."""
        on_host = self.values.get("job") in ("ps", "default")
        return self.has_entry and self.values.get("use_off_line") is not False and not on_host

    def add(self, finding: Finding, ends_run: bool) -> None:
        """Note a finding, by what it means for the run."""
        (self.refused if ends_run else self.ignored).append(finding)


def judge_entry(proto: Any, environ: Mapping[str, str]) -> EntryVerdict:
    """Read the NpuOptimizer entry of a ``tf.ConfigProto`` as the adapter does.

    Args:
        proto: The proto, or None.
        environ: The environment, for the options that depend on it.
    """
    verdict = EntryVerdict()
    if proto is None:
        return verdict
    rewriter = proto.graph_options.rewrite_options
    for entry in rewriter.custom_optimizers:
        if is_misnamed(entry.name):
            verdict.ignored.append(misnamed_entry(entry.name))
    entries = [entry for entry in rewriter.custom_optimizers if entry.name == ENTRY_NAME]
    if len(entries) > 1:
        verdict.ignored.append(several_entries(len(entries)))
    for entry in entries:  # each is checked alone; the last one holds
        verdict.written, verdict.values, verdict.defaults = {}, {}, set()
        _judge_parameters(entry.parameter_map, verdict, environ)
        verdict.has_entry = True
    for name in ("memory_optimization", "remapping") if entries else ():
        note = left_on(name, getattr(rewriter, name), rewriter.optimizers)
        if note is not None:
            verdict.notes.append(note)
    return verdict


def _judge_parameters(
    parameter_map: Any, verdict: EntryVerdict, environ: Mapping[str, str]
) -> None:
    misplaced = _read_values(parameter_map, verdict)
    bad = _judge_values(verdict, misplaced)
    # What cannot be used is unset to the rules between options, as far as the adapter is concerned.
    options = FlatOptions(verdict.values, bad, environ)
    seen = {(finding.option, finding.message) for finding in (*verdict.refused, *verdict.ignored)}
    for rule in _ALL_RULES:
        for finding in rule.findings(options):
            if (finding.option, finding.message) not in seen:
                seen.add((finding.option, finding.message))
                verdict.add(finding, _ends_run(rule, finding, options))
    verdict.values = {key: value for key, value in verdict.values.items() if key not in bad}
    _forgive_defaults(verdict)


def _read_values(parameter_map: Any, verdict: EntryVerdict) -> Dict[str, Finding]:
    """Read each key's field; what stands in another one reads as zero, and is returned by key."""
    known = options_by_key(AdapterOptions)
    misplaced: Dict[str, Finding] = {}
    for key in sorted(parameter_map):
        attribute = parameter_map[key]
        field_name = attribute.WhichOneof("value")
        value = getattr(attribute, field_name) if field_name else None
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        verdict.written[key] = value
        option = known.get(key)
        if option is None or option.field is None:
            is_sent = key in REFUSED_BY_GE and isinstance(value, str) and value != ""
            verdict.add(unknown_key(key), is_sent)
        elif field_name != option.field:
            misplaced[key] = wrong_field(key, field_name, option.field)
            verdict.add(misplaced[key], key in _FIELD_CHECKED)
            verdict.values[key] = _ZERO[option.field]
        else:
            verdict.values[key] = value
    return misplaced


def _judge_values(verdict: EntryVerdict, misplaced: Mapping[str, Finding]) -> Set[str]:
    """Check each value alone, and return the keys whose value cannot be used."""
    bad = set()
    for key, value in verdict.values.items():
        problems = _value_problems(key, value)
        if not problems:
            continue
        bad.add(key)
        cause = misplaced.get(key)
        if cause is not None and cause in verdict.ignored:  # a zero that nobody has written
            verdict.ignored.remove(cause)
            problems = [
                each._replace(message=f"{cause.message} {each.message}", hint=cause.hint)
                for each in problems
            ]
        for problem in problems:
            verdict.add(problem, _value_ends_run(key, value, verdict.values))
    return bad


@lru_cache(maxsize=1024, typed=True)
def _value_problems(key: str, value: Any) -> Sequence[Finding]:
    """Report what the option's own definition says against a value."""
    try:
        unflatten(AdapterOptions, {key: value})
    except ConfigError as error:
        return error.problems
    return ()


def _value_ends_run(key: str, value: Any, values: Mapping[str, Any]) -> bool:
    """Whether a value that the option's definition refuses ends the run."""
    if key not in _CHECKED or (value == "" and key not in _NEVER_EMPTY):
        return False
    if key == "graph_run_mode" and value < 0:
        return False
    if key == "session_device_id" and value > INT32_MAX:
        return False
    switch = _READ_WITH.get(key)
    return switch is None or values.get(switch) is True


def _ends_run(rule: Rule, finding: Finding, options: FlatOptions) -> bool:
    """Whether what a rule between options has found ends the run."""
    if finding.severity != ERROR or rule.check in _UNENFORCED:
        return False
    if rule.check is dynamic.profiles_exclude:
        return options.is_on("mix_compile_mode")
    return rule.check in _ENFORCED_ON_HOST or rule not in _HOST_RULES


def _forgive_defaults(verdict: EntryVerdict) -> None:
    """Leave out what was found in the defaults that NPUEstimator writes, all of them always.

    Source: npu_estimator.py, which writes job and task_index; nobody else writes half as much.
    """
    written = verdict.written
    if len(written) < _MOST_BY_HAND or "job" not in written or "task_index" not in written:
        return
    known = options_by_key(AdapterOptions)
    names = set()
    for key, value in verdict.values.items():
        option = known[key]
        if value in (option.adapter, option.run_config):
            verdict.defaults.add(key)
            names |= {key, option.name, option.path}
    verdict.ignored = [finding for finding in verdict.ignored if finding.option not in names]
