"""What the vendor's adapter makes of the options of a session, key by key."""

from functools import lru_cache
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ascend_session.compat.refusals import (
    ends_the_run,
    field_matters,
    unread_matters,
    value_matters,
)
from ascend_session.config.checking import findings
from ascend_session.config.entry import Entry
from ascend_session.config.entry_words import (
    ENTRY_NAME,
    is_misnamed,
    left_on,
    misnamed_entry,
    several_entries,
    wrong_field,
)
from ascend_session.config.names import unknown_key
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.parameter_map import unflatten
from ascend_session.config.rules import RULES, paths, variables
from ascend_session.config.rules._rule import Rule
from ascend_session.errors import ConfigError, Problem

__all__ = ["Judged", "judge"]

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
    refused: List[Problem]
    ignored: List[Problem]
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
    misplaced: Dict[str, Problem] = {}
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
    _look_between(Entry(judged.values, bad, environ), judged)
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


def _look_at_values(judged: Judged, misplaced: Mapping[str, Problem]) -> Set[str]:
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


def _because(cause: Problem, problem: Problem) -> Problem:
    return Problem(problem.option, f"{cause.message} {problem.message}", cause.hint)


@lru_cache(maxsize=1024, typed=True)
def _problems_of(key: str, value: Any) -> Sequence[Problem]:
    """What the option's own definition says against a value."""
    try:
        unflatten(AdapterOptions, {key: value})
    except ConfigError as error:
        return error.problems
    return ()


def _look_between(entry: Entry, judged: Judged) -> None:
    seen = {(problem.option, problem.message) for problem in (*judged.refused, *judged.ignored)}
    for rule in _rules():
        for finding in findings([rule], entry):
            problem = finding.problem
            if (problem.option, problem.message) not in seen:
                seen.add((problem.option, problem.message))
                matters = ends_the_run(rule, finding, entry)
                (judged.refused if matters else judged.ignored).append(problem)


def _rules() -> Tuple[Rule, ...]:
    # What stands in files is for `ascend-session config`: they are those of another machine.
    host = [rule for rule in paths.RULES if rule.check is not paths.files_that_ge_reads]
    return (*RULES, *host, *paths.OPENING_RULES, *variables.RULES)
