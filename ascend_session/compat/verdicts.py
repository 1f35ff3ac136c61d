"""Verdicts on the options of a script's session: which end the run on a device, which are ignored.

`AscendConfig` also refuses values that nothing checks, as they have no effect. An unchanged script
is to run here as on a device. So only those findings refuse its session that end the run on a
device: ``ends`` of options and rules says which (`config.ends`). Of those that were only read in
the vendor's source, and not run, the report tells.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set

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
from ascend_session.config.options import AdapterOptions
from ascend_session.config.proto import left_on
from ascend_session.config.rules import RULES, RULES_OF_OPENING, paths
from ascend_session.config.rules.rule import FlatOptions
from ascend_session.findings import ERROR, HOST, NO_EFFECT, WARNING, Finding, errors_of
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
        ignored: Findings about options that a device silently ignores.
        notes: Other sentences about the session's configuration.
        defaults: Keys whose value is the default that NPUEstimator writes.
    """

    has_entry: bool = False
    written: Dict[str, Any] = field(default_factory=dict)
    values: Dict[str, Any] = field(default_factory=dict)
    refused: List[Finding] = field(default_factory=list)
    late: List[Finding] = field(default_factory=list)
    ignored: List[Finding] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    defaults: Set[str] = field(default_factory=set)

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
    entries, verdict.ignored = read_entries(proto)
    views = read_in_turn([entry.values for entry in entries], environ)
    in_force = views[-1].all if views else {}
    verdict.has_entry = bool(entries)
    verdict.values = {key: value for key, value in in_force.items() if not check_value(key, value)}
    for entry in entries:
        for key in RESET_OPTIONS:
            verdict.written.pop(key, None)
        verdict.written.update(entry.written)
    endings = _find_endings(views)
    problems = [each for entry in entries for each in _find_problems(entry, endings, environ)]
    _sort_problems(verdict, problems, [each for each in endings if each.ends.is_proven])
    if entries:
        _forgive_defaults(verdict, entries[-1].values)
    rewriter = proto.graph_options.rewrite_options
    for name in ("memory_optimization", "remapping") if verdict.is_offloaded else ():
        note = left_on(name, getattr(rewriter, name), rewriter.optimizers)
        if note is not None:
            verdict.notes.append(note)
    return verdict


class _Ending(NamedTuple):
    """A reason for which a device ends the run.

    Attributes:
        about: The key of the option, or the name of the variable.
        ends: The component that ends the run.
        view: The options as that component reads them.
        finding: The finding of a rule; None if the value of ``about`` is wrong, or if a function
            of ``ends`` found the reason.
    """

    about: str
    ends: Ends
    view: AdapterView
    finding: Optional[Finding] = None

    @property
    def is_of_value(self) -> bool:
        """True if the value is wrong, whatever the other options are."""
        return self.finding is None and self.ends.fails is None

    def explain(self) -> Finding:
        """Return a finding about the reason."""
        if self.finding is not None:
            return self.finding
        given = self.view.all if self.about in self.view.all else self.view.environ
        written = f"{self.about}={given[self.about]!r}" if self.about in given else self.about
        message = f"{written} ends the run on a device: {self.ends.wants}."
        return Finding(ERROR, message, option=self.about)


def _find_endings(views: Sequence[AdapterView]) -> List[_Ending]:
    """Find the reasons to end the run of a session whose entries have been read in turn."""
    if not views:
        return []
    last = views[-1]
    together = [last._replace(own=last.all)]
    stages = [stage for stage in Stage if stage.is_reached(last.all)]
    return [
        ending
        for stage in stages
        for view in (views if stage.is_of_entry else together)
        for ending in _find_endings_at(stage, view)
    ]


def _find_endings_at(stage: Stage, view: AdapterView) -> Iterator[_Ending]:
    known = options_by_key(AdapterOptions)
    refused = {key for key, value in view.own.items() if check_value(key, value)}
    for key in view.own:
        for ends in known[key].ends:
            if ends.by is not stage:
                continue
            if ends.fails(view) if ends.fails else key in refused and ends.covers(key, view):
                yield _Ending(key, ends, view)
    options = FlatOptions(view.own, refused, environ=view.environ)
    for rule in (*RULES, *RULES_OF_OPENING):
        for ends in rule.ends:
            if ends.by is not stage:
                continue
            if ends.fails is None:
                for finding in errors_of(rule.findings(options)):
                    yield _Ending(key_of(finding), ends, view, finding)
            elif ends.fails(view):
                yield _Ending(rule.keys[0], ends, view)


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
        who = [
            each.ends
            for each in endings
            if each.is_of_value and each.about == key and each.view.own[key] == value
        ]
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

    Args:
        verdict: The verdict to complete.
        problems: All findings about the entries.
        endings: The proven reasons to end the run.
    """
    about = {each.about for each in endings}
    if verdict.is_offloaded:
        written = {key: verdict.written.get(key) for key in REFUSED_BY_GE}
        about |= {key for key, value in written.items() if isinstance(value, str) and value != ""}
    explained = set()
    for finding in dict.fromkeys(problems):
        if finding.severity == ERROR and key_of(finding) in about:
            explained.add(key_of(finding))
            verdict.refused.append(finding)
        else:
            verdict.ignored.append(finding)
    for ending in endings:
        if ending.about not in explained:
            explained.add(ending.about)
            verdict.refused.append(ending.explain())


def _forgive_defaults(verdict: EntryVerdict, values: Mapping[str, Any]) -> None:
    """Drop findings about the defaults that NPUEstimator always writes.

    Args:
        verdict: The verdict to change.
        values: The values of the last entry; if NPUEstimator wrote an entry, it is this one.

    Source: npu_estimator.py, which writes job and task_index; by hand nobody writes so many.
    """
    written = verdict.written
    if len(written) < _MOST_BY_HAND or "job" not in written or "task_index" not in written:
        return
    known = options_by_key(AdapterOptions)
    for key, value in values.items():
        if value in (known[key].adapter, known[key].run_config):
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
    found = []
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
            found.append(operation.name)
    if not found:
        return []
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [
        f"On a device a run with {found[0]!r}{more} ends, unless all of the run is for the host: "
        "mix_compile_mode=True leaves the operator there, but it uses a variable. Write it outside "
        "of without_npu_compile_scope, or set variable_placement to Host."
    ]


class SessionOption(NamedTuple):
    """One option of one session.

    Attributes:
        key: The vendor's key.
        value: The value in the entry.
        effect: ``device`` (correct), ``default`` (NPUEstimator wrote it), ``silent`` (a device
            ignores it), ``stub`` (without effect here), ``unused`` (correct, but its session was
            refused), ``host`` (ends the run on a device whose host has the same files) or
            ``refused`` (ends the run on a device).
        why: The reason, in a sentence.
    """

    key: str
    value: Any
    effect: str
    why: str


_IN_FORCE = {
    "hccl_timeout": "in force: collectives wait as long",
    "session_device_id": "checked; all devices share the CPU",
}


def describe_loops(
    option: SessionOption, loops: Mapping[int, int], is_estimators: bool = False
) -> SessionOption:
    """Return iterations_per_loop with whether it was in force in a session.

    Args:
        option: The option, as `describe_options` returns it.
        loops: The loops of the session (`sessions.WatchedSession`).
        is_estimators: Whether NPUEstimator opened the session. It makes loops to train, and none to
            evaluate, predict or export (npu_estimator.py).
    """
    if option.effect not in ("device", "silent"):
        return option
    on_device = f" On a device, {option.why}" if option.key in option.why else ""
    if any(loops.values()):
        counts = " and ".join(
            _describe_runs(runs, steps) for steps, runs in sorted(loops.items()) if runs
        )
        why = f"{option.key}={option.value} was in force: {counts}.{on_device}"
        return option._replace(effect="device", why=why)
    if option.value == 1 and not loops:
        return option._replace(why="in force: each run makes one step")
    if is_estimators and not loops:
        why = f"{option.key}={option.value} is for training; this session makes one step a run."
        return option._replace(effect="device", why=why)
    if loops:
        what = (
            "the loop that was made was never run. Run what util.set_iteration_per_loop returns, "
            "or, with SetIterationsVarHook, the operation named IterationOp."
        )
    else:
        what = (
            "each run made one step, for no loop was made. Run what "
            f"util.set_iteration_per_loop(sess, train_op, {option.value}) returns, or leave the "
            "option out."
        )
    why = f"{option.key}={option.value} was not in force: {what}"
    return option._replace(effect="silent", why=why)


def _describe_runs(runs: int, steps: int) -> str:
    who, each = ("1 run", "") if runs == 1 else (f"{runs} runs", " each")
    if steps == 0:
        return f"{who} ended in the first step"
    return f"{who} made {steps} step{'s' if steps > 1 else ''}{each}"


def describe_options(
    verdict: EntryVerdict, stub_effects: Mapping[str, str], is_refused: bool = False
) -> List[SessionOption]:
    """Return the options of an entry, each with its effect.

    Args:
        verdict: The verdict on the entry.
        stub_effects: The reasons why options have no effect on the stub, by key.
        is_refused: Whether the session was refused, so that none of its options is in force.
    """
    refused = _first_by_key(verdict.refused)
    silent = _first_by_key([*verdict.late, *verdict.ignored])
    options = []
    for key, value in verdict.written.items():
        if key in refused:
            effect, why = "refused", str(refused[key])
        elif key in silent:
            effect, why = _effect_of(silent[key]), str(silent[key])
        elif key in verdict.defaults:
            effect, why = "default", "the default that NPUEstimator always writes"
        elif key in stub_effects:
            effect, why = "stub", stub_effects[key]
        elif is_refused:
            effect, why = "unused", "the session was refused for other options"
        else:
            effect, why = "device", _IN_FORCE.get(key, "checked here")
        if is_refused and effect == "device":
            effect = "unused"
        options.append(SessionOption(key, value, effect, why))
    return options


def _effect_of(finding: Finding) -> str:
    """Return the effect of an option with a finding that does not end the run."""
    if finding.effect == HOST:
        return "host"
    return "device" if finding.severity == WARNING and finding.effect != NO_EFFECT else "silent"


def _first_by_key(findings: Sequence[Finding]) -> Dict[str, Finding]:
    """Map keys to the first finding about each."""
    first: Dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(key_of(finding), finding)
    return first
