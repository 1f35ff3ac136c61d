"""Verdicts on the options of a script's session: which end the run on a device, which are ignored.

`AscendConfig` also refuses values that nothing checks, as they have no effect. An unchanged script
is to run here as on a device. So only those findings refuse its session that end the run on a
device: ``ends`` of options and rules says which (`config.ends`). Of those that were only read in
the vendor's source, and not run, the report tells.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set

from ascend_session.config.ends import AdapterView, Ends, Stage
from ascend_session.config.entry import (
    RESET_OPTIONS,
    EntryReading,
    check_value,
    read_entries,
    read_in_turn,
)
from ascend_session.config.names import REFUSED_BY_GE, unknown_key
from ascend_session.config.option import keys_by_name, options_by_key
from ascend_session.config.options import DEFAULT_PROFILING, AdapterOptions
from ascend_session.config.proto import explain_switch
from ascend_session.config.rules import RULES, RULES_OF_OPENING, paths
from ascend_session.config.rules.rule import FlatOptions
from ascend_session.findings import ERROR, HOST, Finding, errors_of
from ascend_session.vendor import HOST_JOBS

_MOST_BY_HAND = 25  # options in one entry; NPUEstimator writes more


@dataclass
class EntryVerdict:
    """How the adapter reads the entry of one session.

    Attributes:
        has_entry: Whether there is an entry that the adapter reads.
        written: The values in it, by key; of several entries the last value of each key.
        values: The valid values that the adapter has read in the end, by key.
        refused: Findings that end the run on a device.
        late: Findings about options that the session that initialised GE would have had to set.
        ignored: The other findings, most about options that a device silently ignores.
        notes: Other sentences about the session's configuration.
        defaults: Keys whose value is the default that NPUEstimator writes.
        stub_effects: Why options have no effect on the stub, by key.
        graph: Sentences about operators of the session's graph, by the effect.
    """

    has_entry: bool = False
    written: Dict[str, Any] = field(default_factory=dict)
    values: Dict[str, Any] = field(default_factory=dict)
    refused: List[Finding] = field(default_factory=list)
    late: List[Finding] = field(default_factory=list)
    ignored: List[Finding] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    defaults: Set[str] = field(default_factory=set)
    stub_effects: Dict[str, str] = field(default_factory=dict)
    graph: Dict[str, List[str]] = field(default_factory=dict)

    @property
    def is_offloaded(self) -> bool:
        """True if the adapter runs the session's graphs on the device."""
        on_host = self.values.get("job") in HOST_JOBS
        return self.has_entry and self.values.get("use_off_line") is not False and not on_host


def judge_entry(proto: Any, environ: Mapping[str, str]) -> EntryVerdict:
    """Read the NpuOptimizer entry of a ``tf.ConfigProto`` as the adapter does.

    Args:
        proto: The proto, or None.
        environ: The environment, for the options that depend on it.
    """
    verdict = EntryVerdict()
    if proto is None:
        return verdict
    entries, problems = read_entries(proto)
    views = read_in_turn([entry.values for entry in entries], environ)
    in_force = views[-1].all if views else {}
    verdict.has_entry = bool(entries)
    verdict.values = {key: value for key, value in in_force.items() if not check_value(key, value)}
    for entry in entries:
        for key in RESET_OPTIONS:
            verdict.written.pop(key, None)
        verdict.written.update(entry.written)
    endings = _find_endings(views)
    for entry in entries:
        problems += _find_problems(entry, endings, environ)
    _sort_problems(verdict, problems, [each for each in endings if each.ends.is_proven])
    if entries:
        _forgive_defaults(verdict, entries[-1].values)
    if verdict.is_offloaded:
        verdict.notes += _describe_replacements(verdict.values)
    rewriter = proto.graph_options.rewrite_options
    for name in ("memory_optimization", "remapping") if verdict.is_offloaded else ():
        note = explain_switch(name, getattr(rewriter, name), rewriter.optimizers)
        if note is not None:
            verdict.notes.append(note)
    return verdict


def _describe_replacements(values: Mapping[str, Any]) -> Iterator[str]:
    """Describe the options that the adapter passes to GE with another value.

    Source: npu_attrs.cc; geop_npu.cc, CheckAndModifyPrecisionMode.
    """
    if values.get("profiling_options") == "" and values.get("profiling_mode") is True:
        yield f"profiling_options is empty; the adapter takes its default, {DEFAULT_PROFILING}."
    switch, mode = values.get("optimization_switch"), values.get("precision_mode")
    if switch:
        yield (
            f"The adapter adds forbidden_close_pass:on to optimization_switch={switch!r}: passes "
            "that must not be closed stay on."
        )
    if values.get("experimental_accelerate_train_mode") and mode:
        yield (
            f"precision_mode={mode!r} is replaced while accelerate_train_mode lowers the precision."
        )


class _Ending(NamedTuple):
    """A reason for which a device ends the run.

    Attributes:
        key: The key of the option, or the name of the variable.
        ends: The component that ends the run.
        finding: The reason.
        value: The value, if it is wrong whatever the other options are; else None.
    """

    key: str
    ends: Ends
    finding: Finding
    value: Any = None


def _find_endings(views: Sequence[AdapterView]) -> List[_Ending]:
    """Find the reasons to end the run of a session whose entries have been read in turn."""
    if not views:
        return []
    last = views[-1]
    together = [last._replace(entry=last.all)]
    return [
        ending
        for stage in Stage
        if stage.is_reached(last.all)
        for view in (views if stage.is_of_entry else together)
        for ending in _find_endings_at(stage, view)
    ]


def _find_endings_at(stage: Stage, view: AdapterView) -> Iterator[_Ending]:
    by_key = options_by_key(AdapterOptions)
    problems = {key: check_value(key, value) for key, value in view.entry.items()}
    refused = {key for key in problems if problems[key]}
    options = FlatOptions(view.entry, refused, environ=view.environ)
    for key, value in view.entry.items():
        for ends in by_key[key].ends:
            if ends.by is not stage:
                continue
            if ends.fails is not None and ends.fails(view):
                yield _Ending(key, ends, _explain(key, ends, view))
            elif key in refused and ends.covers(key, view):
                yield _Ending(key, ends, problems[key][0], value)
    for rule in (*RULES, *RULES_OF_OPENING):
        for ends in rule.ends:
            if ends.by is not stage:
                continue
            if ends.fails is None:
                for finding in errors_of(rule.findings(options)):
                    yield _Ending(key_of(finding), ends, finding)
            elif ends.fails(view):
                yield _Ending(rule.keys[0], ends, _explain(rule.keys[0], ends, view))


def _explain(key: str, ends: Ends, view: AdapterView) -> Finding:
    """Report an option or a variable that ends the run, though no type or rule refuses it."""
    given = view.all if key in view.all else view.environ
    written = f"{key}={given[key]!r}" if key in given else key
    return Finding(ERROR, f"On a device {written} would abort the run: {ends.wants}.", option=key)


def key_of(finding: Finding) -> str:
    """Return the vendor's key of the option that a finding is about; of a variable, its name."""
    return keys_by_name(AdapterOptions).get(finding.option or "", finding.option or "")


def _find_problems(
    entry: EntryReading, endings: Sequence[_Ending], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Find everything that the types and rules of `config` report about an entry."""
    yield from (
        unknown_key(key, AdapterOptions) for key in entry.written if key not in entry.values
    )
    yield from entry.not_text
    explained = {finding.option for finding in entry.not_text}
    refused = set()
    for key, value in entry.values.items():
        problems, cause = check_value(key, value), entry.misplaced.get(key)
        if problems:
            refused.add(key)
        elif cause is not None:
            yield cause
        who = [each.ends for each in endings if each.key == key and each.value == value]
        for problem in problems if key not in explained else ():
            if who:
                problem = problem._replace(message=f"{problem.message} {who[0].sentence}")
            if cause is not None:  # the zero of a value in the wrong field
                message = f"{cause.message} {problem.message}"
                problem = problem._replace(message=message, hint=cause.hint)
            yield problem
    options = FlatOptions(entry.values, refused, environ=environ)
    # The files are those of another machine; `ascend-session config` checks them there.
    about_files = (*paths.RULES, *paths.OPENING_RULES)
    for rule in (*RULES, *RULES_OF_OPENING):
        for finding in rule.findings(options):
            is_about_file = finding.severity == ERROR and rule in about_files
            yield finding._replace(effect=HOST) if is_about_file else finding


def _sort_problems(
    verdict: EntryVerdict, problems: Sequence[Finding], endings: Sequence[_Ending]
) -> None:
    """Put each problem where it belongs in a verdict: it ends the run, or is ignored.

    The endings are those that are proven.
    """
    ending_keys = {each.key for each in endings}
    if verdict.is_offloaded:
        written = {key: verdict.written.get(key) for key in REFUSED_BY_GE}
        ending_keys |= {key for key, value in written.items() if isinstance(value, str) and value}
    for finding in dict.fromkeys(problems):
        is_ending = finding.severity == ERROR and key_of(finding) in ending_keys
        (verdict.refused if is_ending else verdict.ignored).append(finding)
    explained = {key_of(finding) for finding in verdict.refused}
    unexplained: Dict[str, Finding] = {}
    for ending in endings:
        if ending.key not in explained:
            unexplained.setdefault(ending.key, ending.finding)
    verdict.refused += unexplained.values()


def _forgive_defaults(verdict: EntryVerdict, values: Mapping[str, Any]) -> None:
    """Drop findings about the defaults in the last entry, which NPUEstimator always writes.

    Source: npu_estimator.py, which writes job and task_index; by hand nobody writes so many.
    """
    written = verdict.written
    if len(written) < _MOST_BY_HAND or "job" not in written or "task_index" not in written:
        return
    options = options_by_key(AdapterOptions)
    for key, value in values.items():
        if value in (options[key].adapter, options[key].run_config):
            verdict.defaults.add(key)
    verdict.ignored = [
        finding for finding in verdict.ignored if key_of(finding) not in verdict.defaults
    ]


_VARIABLES = ("VariableV2", "VarHandleOp")  # which CopyVarsBetweenGeOp looks at, and no others


def describe_host_operators(values: Mapping[str, Any], graph: Any) -> List[str]:
    """Report operators with which a run ends on a device, as they use a variable on the host.

    With mix_compile_mode some operators stay on the host. A run with others, for the device, ends
    if one of them takes a variable, not its value. Found are operators of
    ``without_npu_compile_scope`` and those whose first resource is not a variable; which others
    stay, a file of the host's toolkit says.

    Args:
        values: The options that the adapter has read.
        graph: The session's graph, as far as it is built.

    Source: om_partition_subgraphs_pass.cc, CopyVarsBetweenGeOp and IsUnSupportedResource.
    """
    if values.get("mix_compile_mode") is not True or values.get("variable_placement") == "Host":
        return []
    names = []
    for operation in graph.get_operations():
        inputs = [
            (dtype.name, tensor.op.type)
            for dtype, tensor in zip(operation._input_types, operation.inputs)
            if dtype.name == "resource" or dtype.name.endswith("_ref")
        ]
        if not any(kind in _VARIABLES for _, kind in inputs):
            continue
        resources = [kind for name, kind in inputs if name == "resource"]
        is_marked = operation.node_def.attr["_without_npu_compile"].b
        if is_marked or resources[:1] not in ([], ["VarHandleOp"]):
            names.append(operation.name)
    if not names:
        return []
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return [
        f"On a device, running {names[0]!r}{more} fails unless the whole run stays on the host: "
        "mix_compile_mode=True leaves the operator there, but it uses a variable. Write it "
        "outside of without_npu_compile_scope, or set variable_placement to Host."
    ]
