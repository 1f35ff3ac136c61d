"""What the vendor's adapter and GE make of the options of a session, key by key.

`AscendConfig` refuses more than the vendor's stack does: what nothing looks at is refused there,
too, because it does not do what it says. A script that runs unchanged is to run here as there, so
of what `config` objects to only that counts which really ends a run on a device: ``ends`` of the
options and rules says that (`config.ends`). What was read of it, but not proven, is told.

What becomes of each option in a session, and why, is what the report on a run says of it.
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

_MOST_BY_HAND = 25  # options


@dataclass
class EntryVerdict:
    """What the adapter makes of the entry of one session.

    Attributes:
        has_entry: Whether there is one that the adapter reads.
        written: What stands in it, by key; of several entries the last value of each.
        values: What the adapter has read in the end; only what is in order.
        refused: What ends the run on a device.
        late: What another session would have had to set, which has initialised GE.
        ignored: What does not do what it says there, without a word.
        notes: What else is worth knowing of the session's configuration.
        defaults: Keys at the value that NPUEstimator writes for whatever was left out.
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
        """Whether the adapter puts such a session's graphs on the device."""
        on_host = self.values.get("job") in ("ps", "default")
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
    for name in ("memory_optimization", "remapping") if entries else ():
        note = left_on(name, getattr(rewriter, name), rewriter.optimizers)
        if note is not None:
            verdict.notes.append(note)
    return verdict


class _Ending(NamedTuple):
    """That a run ends.

    Attributes:
        about: The option or variable that it ends for.
        ends: Who ends it.
        view: What was read then.
        finding: What a rule has found; None if the value of ``about`` is wrong, or a function of
            ``ends`` says so.
    """

    about: str
    ends: Ends
    view: AdapterView
    finding: Optional[Finding] = None

    @property
    def is_of_value(self) -> bool:
        """Whether the value is wrong, whatever else is set."""
        return self.finding is None and self.ends.fails is None

    def explain(self) -> Finding:
        """Say what the run ends for, where neither a type nor a rule says it."""
        if self.finding is not None:
            return self.finding
        given = self.view.all if self.about in self.view.all else self.view.environ
        written = f"{self.about}={given[self.about]!r}" if self.about in given else self.about
        message = f"{written} ends the run on a device: {self.ends.wants}."
        return Finding(ERROR, message, option=self.about)


def _find_endings(views: Sequence[AdapterView]) -> List[_Ending]:
    """Find what ends the run of a session whose entries have been read in turn."""
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
    """Find what the configuration's own definitions and rules say against an entry."""
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
            if cause is not None:  # a zero that nobody has written
                message = f"{cause.message} {problem.message}"
                problem = problem._replace(message=message, hint=cause.hint)
            yield problem
    options = FlatOptions(entry.values, refused, environ=environ)
    # What stands in files is for `ascend-session config`: they are those of another machine.
    about_files = (*paths.RULES, *paths.OPENING_RULES)
    for rule in (*RULES, *RULES_OF_OPENING):
        for finding in rule.findings(options):
            is_about_file = finding.severity == ERROR and rule in about_files
            yield finding._replace(effect=HOST) if is_about_file else finding


def _sort_problems(
    verdict: EntryVerdict, problems: Sequence[Finding], endings: Sequence[_Ending]
) -> None:
    """Tell what ends the run from what is ignored.

    Args:
        verdict: Where they go.
        problems: What is wrong with the entries.
        endings: What ends the run, as is proven.
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
    """Leave out what was found in the defaults that NPUEstimator writes, all of them always.

    Args:
        verdict: What it is left out of.
        values: The values of the last entry, which is NPUEstimator's if there is one of it.

    Source: npu_estimator.py, which writes job and task_index; nobody else writes half as much.
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


_VARIABLES = ("VariableV2", "VarHandleOp")


def describe_host_operators(values: Mapping[str, Any], graph: Any) -> List[str]:
    """Report operators with which a run ends on a device, as they use a variable on the host.

    With mix_compile_mode some operators stay on the host. A run ends if one of them takes a
    variable, not its value. Found are operators of ``without_npu_compile_scope`` and those whose
    first resource is not a variable; which others stay, a file of the host's toolkit says.

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
        f"On a device a run with {found[0]!r}{more} ends: mix_compile_mode=True leaves the "
        "operator on the host, but the variable that it uses is on the device. Write it outside "
        "of without_npu_compile_scope, or set variable_placement to Host."
    ]


class SessionOption(NamedTuple):
    """One option of one session.

    Attributes:
        key: The vendor's key.
        value: What stands in the entry.
        effect: ``device`` (a device would take it), ``default`` (nobody has set it), ``silent``
            (it does not do what it says there either, and nothing says so), ``stub`` (without
            effect here), ``unused`` (nothing is wrong with it, but its session was refused),
            ``host`` (a device ends the run if its machine lacks the same file) or ``refused`` (a
            device ends the run).
        why: What becomes of it, in a sentence.
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
    """Tell whether iterations_per_loop was in force in a session.

    Args:
        option: As `describe_options` has it.
        loops: As of `WatchedSession`.
        is_estimators: Whether NPUEstimator has opened the session, which makes loops to train, and
            none to evaluate, to predict or to export (npu_estimator.py).
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
    """Tell what becomes of each option of an entry.

    Args:
        verdict: The entry.
        stub_effects: Options without effect on the stub alone, and why.
        is_refused: Whether the session is not opened, so that no option of it is in force.
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
    """Tell an option that is ignored from one that is honoured, but worth a warning."""
    if finding.effect == HOST:
        return "host"
    return "device" if finding.severity == WARNING and finding.effect != NO_EFFECT else "silent"


def _first_by_key(findings: Sequence[Finding]) -> Dict[str, Finding]:
    """Give the first finding about each key."""
    first: Dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(key_of(finding), finding)
    return first
