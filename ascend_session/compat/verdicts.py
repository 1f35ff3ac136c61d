"""What the vendor's adapter makes of the options of a session, key by key.

`AscendConfig` refuses more than the vendor's stack does: what nothing looks at is refused there,
too, because it does not do what it says. A script that runs unchanged is to run here as there, so
of what `config` objects to only that counts which really ends a run on a device:
`config.adapter_checks` says what the adapter ends, this module adds what GE does.

Sources: guides/facts/adapter.md#what-a-bad-option-does,
guides/facts/adapter.md#options-that-nobody-checks; GE's checks of its options.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ascend_session.config.adapter_checks import find_refusals
from ascend_session.config.entry import (
    ENTRY_NAME,
    EntryReading,
    check_value,
    is_misnamed,
    misnamed_entry,
    read_parameters,
    several_entries,
)
from ascend_session.config.names import REFUSED_BY_GE, unknown_key
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.proto import left_on
from ascend_session.config.rules import RULES, accuracy, dynamic, paths, variables
from ascend_session.config.rules.rule import FlatOptions, Rule
from ascend_session.findings import ERROR, HOST, Finding

# Options whose wrong values GE refuses, and what has to be on for that.
_READ_BY_GE: Dict[str, str] = {
    "aicore_num": "",
    "auto_multistream_parallel_mode": "",
    "dynamic_dims": "",
    "dynamic_inputs_shape_range": "dynamic_input",
    "input_shape": "",
    "profiling_options": "profiling_mode",
}
_RULES_OF_GE: Set[Callable[..., Any]] = {
    accuracy.one_kind_of_dump,
    dynamic.profiles_fit_the_shapes,
    variables.profiling_options_variable,
}
# What stands in files is for `ascend-session config`: they are those of another machine.
_RULES_ABOUT_FILES: Tuple[Rule, ...] = (
    *(rule for rule in paths.RULES if rule.check is not paths.files_that_ge_reads),
    *paths.OPENING_RULES,
)
_ALL_RULES: Tuple[Rule, ...] = (*RULES, *_RULES_ABOUT_FILES, *variables.RULES)

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
    readings = [read_parameters(entry.parameter_map) for entry in entries]
    problems = [each for reading in readings for each in _find_problems(reading, environ)]
    if readings:  # of several the last one holds
        verdict.has_entry = True
        verdict.written = readings[-1].written
        verdict.values = {
            key: value for key, value in readings[-1].values.items() if not check_value(key, value)
        }
    _sort_problems(verdict, problems, find_refusals(readings, environ))
    _forgive_defaults(verdict)
    for name in ("memory_optimization", "remapping") if entries else ():
        note = left_on(name, getattr(rewriter, name), rewriter.optimizers)
        if note is not None:
            verdict.notes.append(note)
    return verdict


class _Problem(NamedTuple):
    """Something wrong with an entry, and whether GE ends the run for it."""

    finding: Finding
    is_refused_by_ge: bool = False


def _find_problems(reading: EntryReading, environ: Mapping[str, str]) -> Iterator[_Problem]:
    """Find what the configuration's own definitions and rules say against an entry."""
    for key in reading.written:
        if key not in reading.values:
            is_sent = key in REFUSED_BY_GE and reading.written[key] != ""
            yield _Problem(unknown_key(key), is_sent and isinstance(reading.written[key], str))
    yield from map(_Problem, reading.not_text)
    refused = set()
    for key, value in reading.values.items():
        problems, cause = check_value(key, value), reading.misplaced.get(key)
        if problems:
            refused.add(key)
        elif cause is not None:
            yield _Problem(cause)
        for problem in problems:
            if cause is not None:  # a zero that nobody has written
                message = f"{cause.message} {problem.message}"
                problem = problem._replace(message=message, hint=cause.hint)
            yield _Problem(problem, _is_refused_by_ge(key, reading.values))
    options = FlatOptions(reading.values, refused, environ=environ)
    for rule in _ALL_RULES:
        for finding in rule.findings(options):
            if finding.severity == ERROR and rule in _RULES_ABOUT_FILES:
                finding = finding._replace(effect=HOST)
            yield _Problem(finding, rule.check in _RULES_OF_GE)


def _is_refused_by_ge(key: str, values: Mapping[str, Any]) -> bool:
    """Whether GE ends the run for a value that the option's definition refuses."""
    if key == "aicore_num" and re.fullmatch("[1-9][0-9]{0,8}", values[key]):
        return False  # guides/facts/options.md#numbers-of-cores-and-streams
    switch = _READ_BY_GE.get(key)
    is_read = switch is not None and (not switch or values.get(switch) is True)
    return is_read and values[key] != ""


def _sort_problems(
    verdict: EntryVerdict, problems: Sequence[_Problem], refusals: Mapping[str, Finding]
) -> None:
    """Tell what ends the run from what is ignored.

    Args:
        verdict: Where they go.
        problems: What is wrong with the entries.
        refusals: What the adapter ends the run for, by option.
    """
    explained = set()
    for problem in dict.fromkeys(problems):
        finding = problem.finding
        key = _key_of(finding.option or "")
        by_ge = problem.is_refused_by_ge and verdict.is_offloaded
        if finding.severity == ERROR and (by_ge or key in refusals):
            explained.add(key)
            verdict.refused.append(finding)
        else:
            verdict.ignored.append(finding)
    verdict.refused += [each for key, each in refusals.items() if key not in explained]


def _key_of(name: str) -> str:
    """Give the key of an option, under whichever of its names it was reported."""
    return _keys_by_name().get(name, name)


@lru_cache(maxsize=None)
def _keys_by_name() -> Dict[str, str]:
    known = options_by_key(AdapterOptions).values()
    return {name: option.key for option in known for name in (option.path, option.name, option.key)}


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
