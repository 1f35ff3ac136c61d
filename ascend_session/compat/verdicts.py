"""What the vendor's adapter makes of the options of a session, key by key.

`AscendConfig` refuses more than the vendor's stack does: what nothing looks at is refused there,
too, because it does not do what it says. A script that runs unchanged is to run here as there, so
of what `config` objects to only that counts which really ends a run on a device:
`config.adapter_checks` says what the adapter ends, this module adds what GE does.

Sources: guides/facts/adapter.md#what-a-bad-option-does,
guides/facts/adapter.md#options-that-nobody-checks; GE's checks of its options.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

from ascend_session.config.adapter_checks import RESET_OPTIONS, find_refusals, values_in_force
from ascend_session.config.entry import EntryReading, check_value, read_entries
from ascend_session.config.names import REFUSED_BY_GE, unknown_key
from ascend_session.config.option import keys_by_name, options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.proto import left_on
from ascend_session.config.rules import RULES, accuracy, dynamic, paths, variables
from ascend_session.config.rules.rule import FlatOptions, Rule
from ascend_session.findings import ERROR, HOST, Finding

_CHECKS_OF_GE: Set[Callable[..., Any]] = {
    accuracy.mixlist_needs_mixed_precision,
    accuracy.one_kind_of_dump,
    accuracy.one_precision_mode,
    dynamic.profiles_fit_the_shapes,
    variables.profiling_options_variable,
}
# What stands in files is for `ascend-session config`: they are those of another machine.
_RULES_ABOUT_FILES: Tuple[Rule, ...] = (
    *(rule for rule in paths.RULES if rule.check is not paths.files_that_ge_reads),
    *paths.OPENING_RULES,
)
_ALL_RULES: Tuple[Rule, ...] = (*RULES, *_RULES_ABOUT_FILES, *variables.RULES)
_RULES_OF_GE = tuple(rule for rule in _ALL_RULES if rule.check in _CHECKS_OF_GE)

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
    in_force = values_in_force(entries)
    verdict.has_entry = bool(entries)
    verdict.values = {key: value for key, value in in_force.items() if not check_value(key, value)}
    for entry in entries:
        for key in RESET_OPTIONS:
            verdict.written.pop(key, None)
        verdict.written.update(entry.written)
    of_ge: List[Finding] = []
    if verdict.is_offloaded:
        of_ge += _find_refusals_of_ge(verdict.written, in_force, environ)
    problems = [each for entry in entries for each in _find_problems(entry, environ)]
    _sort_problems(verdict, problems, of_ge, find_refusals(entries, environ))
    if entries:
        _forgive_defaults(verdict, entries[-1].values)
    rewriter = proto.graph_options.rewrite_options
    for name in ("memory_optimization", "remapping") if entries else ():
        note = left_on(name, getattr(rewriter, name), rewriter.optimizers)
        if note is not None:
            verdict.notes.append(note)
    return verdict


def _find_problems(entry: EntryReading, environ: Mapping[str, str]) -> Iterator[Finding]:
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
        ends = options_by_key(AdapterOptions)[key].ends
        for problem in problems if key not in explained else ():
            if ends is not None and not ends.is_proven and ends.covers(key, entry.values):
                message = f"{problem.message} GE ends the run for it, as {ends.source} reads."
                problem = problem._replace(message=message)
            if cause is not None:  # a zero that nobody has written
                message = f"{cause.message} {problem.message}"
                problem = problem._replace(message=message, hint=cause.hint)
            yield problem
    options = FlatOptions(entry.values, refused, environ=environ)
    for rule in _ALL_RULES:
        for finding in rule.findings(options):
            is_about_file = finding.severity == ERROR and rule in _RULES_ABOUT_FILES
            yield finding._replace(effect=HOST) if is_about_file else finding


def _find_refusals_of_ge(
    written: Mapping[str, Any], values: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Find what GE ends the run for.

    Args:
        written: What stands in the entry.
        values: What the adapter has read of it, and hands on.
        environ: The environment.
    """
    for key in REFUSED_BY_GE:
        if isinstance(written.get(key), str) and written[key] != "":
            yield unknown_key(key, AdapterOptions)
    problems = {key: check_value(key, value) for key, value in values.items()}
    refused = {key for key, found in problems.items() if found}
    for key in values:
        ends = options_by_key(AdapterOptions)[key].ends
        if key in refused and ends is not None and ends.is_proven and ends.covers(key, values):
            yield from problems[key]
    options = FlatOptions(values, refused, environ=environ)
    for rule in _RULES_OF_GE:
        yield from rule.findings(options)


def _sort_problems(
    verdict: EntryVerdict,
    problems: Sequence[Finding],
    of_ge: Sequence[Finding],
    refusals: Mapping[str, Finding],
) -> None:
    """Tell what ends the run from what is ignored.

    Args:
        verdict: Where they go.
        problems: What is wrong with the entries.
        of_ge: What GE ends the run for.
        refusals: What the adapter ends the run for, by option.
    """
    explained = set()
    for finding in dict.fromkeys([*problems, *of_ge]):
        key = keys_by_name(AdapterOptions).get(finding.option or "", finding.option)
        if finding in of_ge or (finding.severity == ERROR and key in refusals):
            explained.add(key)
            verdict.refused.append(finding)
        else:
            verdict.ignored.append(finding)
    verdict.refused += [each for key, each in refusals.items() if key not in explained]


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
    known, keys = options_by_key(AdapterOptions), keys_by_name(AdapterOptions)
    for key, value in values.items():
        if value in (known[key].adapter, known[key].run_config):
            verdict.defaults.add(key)
    verdict.ignored = [
        finding
        for finding in verdict.ignored
        if keys.get(finding.option or "") not in verdict.defaults
    ]
