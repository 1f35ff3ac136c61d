"""``ascend-session compare``: the first step at which two recorded trainings differ."""

import json
import math
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import exit_on_error, show_json
from ascend_session.cli._parameters import JSON, OPTIONS, argument, command
from ascend_session.cluster.records import name_record
from ascend_session.errors import ConfigError
from ascend_session.text import format_count, format_ranges

Value = Tuple[str, str]  # kind, "values" or "norms", and name
Steps = Dict[int, Dict[Value, float]]

# Raised by what is no line of a record.
_FOREIGN = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
_MOST = 10  # differences of one step that are listed
_MOST_RANKS = 65536  # of a job; a file that says more is none of this package


class Recording(NamedTuple):
    """One recorded training.

    Attributes:
        header: The first line of rank 0.
        ranks: The steps by rank, and in each the values by kind and name.
        notes: What is unusual about the files, in sentences.
    """

    header: Dict[str, Any]
    ranks: Dict[int, Steps]
    notes: List[str]


class Difference(NamedTuple):
    """Two values that differ.

    Attributes:
        step: The step, counted from 1.
        rank: The rank; None for the mean over all ranks.
        kind: ``values`` for what the script has fetched, ``norms`` for gradients.
        name: The name of the tensor, or of the gradient's variable.
        a: The value in the first recording.
        b: The value in the second.
    """

    step: int
    rank: Optional[int]
    kind: str
    name: str
    a: float
    b: float

    def __str__(self) -> str:
        what = self.name if self.kind == "values" else f"the norm of the gradient of {self.name}"
        of = "mean of all ranks" if self.rank is None else f"rank {self.rank}"
        return f"Step {self.step}, {of}: {what} is {self.a!r} in A and {self.b!r} in B."

    def as_dict(self) -> Dict[str, Any]:
        """Convert it to plain values, NaN and infinities to text."""
        pair = {name: _plain(getattr(self, name)) for name in ("a", "b")}
        return {**self._asdict(), **pair}


class Comparison(NamedTuple):
    """What two recordings have in common.

    Attributes:
        compared: Number of values that were compared.
        steps: Number of recorded steps that both have.
        first: All differences at the first step that has any, ranks in order.
        lengths: Number of steps of each, the fewest of any rank.
        setup: Options, versions and other facts that differ: ``{name: [in A, in B]}``.
        notes: What could not be compared, in sentences.
    """

    compared: int
    steps: int
    first: List[Difference]
    lengths: Tuple[int, int]
    setup: Dict[str, List[Any]]
    notes: List[str]

    @property
    def is_equal(self) -> bool:
        """Whether no value differs and both have as many steps."""
        return not self.first and self.lengths[0] == self.lengths[1]

    def as_dict(self) -> Dict[str, Any]:
        """Convert it to plain values, which JSON can hold."""
        return {
            **self._asdict(),
            "equal": self.is_equal,
            "first": [each.as_dict() for each in self.first],
        }


def read_recording(path: str) -> Recording:
    """Read the files of all ranks, by that of rank 0.

    Raises:
        ConfigError: If it cannot be read, or has no training run.
    """
    header, steps, notes = _read_file(path)
    if not steps:
        what = "has no training run" if header else "is not a record of a training"
        hint = "Write one with ascend-session run --record FILE, or launch --record FILE."
        raise ConfigError(f"{path} {what}.", hint=hint)
    number = _read_number(header, "rank", 0)
    recording = Recording(header, {number: steps}, notes)
    size = 1 if number else _read_number(header, "ranks", 1)
    others = [(rank, name_record(path, rank)) for rank in range(1, size)]
    missing = []
    for rank, other in others:
        read = _read_file(other) if os.path.exists(other) else None
        # A file of an earlier job of more ranks is none of this recording's.
        if read is not None and read[1] and read[0].get("job") == header.get("job"):
            recording.ranks[rank] = read[1]
            notes += read[2]
        else:
            missing.append(rank)
    if missing and any(os.path.exists(other) for _, other in others):
        notes.append(f"{path}: it has no record of ranks {format_ranges(missing)}.")
    return recording


def _read_number(header: Dict[str, Any], name: str, default: int) -> int:
    number = header.get(name)
    return number if type(number) is int and 0 <= number <= _MOST_RANKS else default


def _read_file(path: str) -> Tuple[Dict[str, Any], Steps, List[str]]:
    """Read the file of a rank: its first line, its steps and notes; the last attempt counts.

    Raises:
        ConfigError: If it cannot be read.
    """
    header: Dict[str, Any] = {}
    steps: Steps = {}
    notes: List[str] = []
    damaged = before = 0  # lines; steps of earlier processes of the rank, such as an evaluation's
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for text in file:
                try:
                    line = json.loads(text)
                    if "record" not in line:
                        steps[before + int(line["step"])] = {
                            (kind, str(name)): float(value)
                            for kind in ("values", "norms")
                            for name, value in line.get(kind, {}).items()
                        }
                    elif header and line.get("job") == header.get("job"):
                        before = max(steps, default=0)
                    else:
                        if header:
                            notes = [f"{path}: only the last attempt is compared."]
                        header, before = dict(line), 0
                        steps.clear()
                except _FOREIGN:
                    damaged += 1
    except OSError as failure:
        raise ConfigError(f"{path} cannot be read: {failure.strerror}.") from None
    if damaged and steps:
        lines = format_count(damaged, "line")
        were = "was" if damaged == 1 else "were"
        notes.append(f"{path}: {lines} could not be read and {were} left out.")
    return header, steps, notes


def compare_recordings(a: Recording, b: Recording, rtol: float) -> Comparison:
    """Compare two trainings step by step.

    If they have different numbers of ranks, the means over all ranks are compared: the mean loss of
    ranks that share a batch is the loss of one rank that has all of it.

    Args:
        a: The first.
        b: The second.
        rtol: The largest relative difference of values that count as equal.
    """
    notes = [*a.notes, *b.notes]
    ranks = sorted(a.ranks.keys() & b.ranks.keys())
    pairs: List[Tuple[Optional[int], Steps, Steps]]
    pairs = [(rank, a.ranks[rank], b.ranks[rank]) for rank in ranks]
    if len(a.ranks) != len(b.ranks):
        pairs = [(None, _average(a.ranks), _average(b.ranks))]
        sizes = [format_count(len(each.ranks), "rank") for each in (a, b)]
        notes.append(f"A has {sizes[0]} and B has {sizes[1]}: their means are compared.")
    elif len(a.ranks) == 1:  # of whatever ranks
        [(number, of_a)], [of_b] = a.ranks.items(), b.ranks.values()
        pairs = [(number, of_a, of_b)]
    common = sorted(set.intersection(*(here.keys() & there.keys() for _, here, there in pairs)))
    compared, first = 0, []
    for step in common:
        for rank, here, there in pairs:
            for (kind, name), value in here[step].items():
                if (kind, name) in there[step]:
                    compared += 1
                    other = there[step][kind, name]
                    if not _is_close(value, other, rtol):
                        first.append(Difference(step, rank, kind, name, value, other))
        if first:
            break
    sides = [[here for _, here, _ in pairs], [there for _, _, there in pairs]]
    lengths = [min(max(each, default=0) for each in steps) for steps in sides]
    counts = [min(map(len, steps)) for steps in sides]
    if lengths[0] == lengths[1] and counts[0] != counts[1]:
        notes.append(
            f"Of {lengths[0]} steps, A has recorded {counts[0]} and B {counts[1]}: where a run "
            "makes several steps, the last is compared, and a difference may have begun before."
        )
    if first and first[0].step == 1:
        notes.append(
            "They differ in their first step: compare what they begin with. Let both restore one "
            "checkpoint and read the same data in the same order; a seed gives other numbers in "
            "another version of TensorFlow, and in another graph."
        )
    names = [{name for each in steps for s in each.values() for name in s} for steps in sides]
    for which, only in (("A", names[0] - names[1]), ("B", names[1] - names[0])):
        if only:
            listed = ", ".join(sorted(_name(*each) for each in only))
            notes.append(f"Only {which} has {listed}.")
    return Comparison(
        compared, len(common), first, (lengths[0], lengths[1]), _compare_setup(a, b), notes
    )


def _average(ranks: Dict[int, Steps]) -> Steps:
    """Return the mean over all ranks of each value that all of them have at a step."""
    first, *others = ranks.values()
    means: Steps = {}
    for step, values in first.items():
        if all(step in each for each in others):
            means[step] = {
                name: sum([value, *(each[step][name] for each in others)]) / len(ranks)
                for name, value in values.items()
                if all(name in each[step] for each in others)
            }
    return means


def _is_close(a: float, b: float, rtol: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=rtol)


def _compare_setup(a: Recording, b: Recording) -> Dict[str, List[Any]]:
    """Return what differs between the first lines."""
    facts = [dict(_list_facts(each.header)) for each in (a, b)]
    return {
        name: [facts[0].get(name), facts[1].get(name)]
        for name in sorted({*facts[0], *facts[1]})
        if facts[0].get(name) != facts[1].get(name)
    }


def _list_facts(header: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
    yield "number of ranks", header.get("ranks")
    yield "backend", header.get("backend") or None
    for group, word in (("options", "option"), ("versions", "version of")):
        members = header.get(group)
        if isinstance(members, dict):
            yield from ((f"{word} {name}", value) for name, value in members.items())


def _name(kind: str, name: str) -> str:
    return name if kind == "values" else f"the gradient of {name}"


def _plain(value: float) -> Any:
    return value if math.isfinite(value) else repr(value)


@command("compare")
@argument("a", "A")
@argument("b", "B")
@OPTIONS.value("--rtol", "X", "Largest relative difference to ignore.  [default: 1e-5]", type=float)
@JSON
def compare(a: str, b: str, rtol: Optional[float], as_json: bool) -> None:
    """Find the first step at which two recorded trainings differ.

    A and B are files of `run --record` or `launch --record`; the files of other ranks beside them
    are read as well. Trainings with different numbers of ranks are compared by the means over
    their ranks.

    Exit code: 0 if all steps agree, 1 if a value or the number of steps differs, 2 if a file
    cannot be read or they have nothing in common.

    Examples:
        ascend-session compare one.jsonl eight.jsonl
        ascend-session compare --rtol 1e-3 stub.jsonl device.jsonl
    """
    rtol = 1e-5 if rtol is None else rtol
    if not 0 <= rtol < 1:
        raise click.BadParameter("must be 0 or more, and below 1.", param_hint="--rtol")
    with exit_on_error(2, as_json):
        comparison = compare_recordings(read_recording(a), read_recording(b), rtol)
        if not comparison.compared:
            hint = "Have both scripts fetch the loss by the same name in the run that trains."
            raise ConfigError("A and B have no value in common at the same step.", hint=hint)
    if as_json:
        show_json(comparison.as_dict())
    else:
        click.echo("\n".join(_write(comparison)))
    raise Exit(0 if comparison.is_equal else 1)


def _write(comparison: Comparison) -> Iterator[str]:
    for each in comparison.first[:_MOST]:
        yield str(each)
    if len(comparison.first) > _MOST:
        yield f"{len(comparison.first) - _MOST} more values differ at this step."
    if not comparison.first:
        count = comparison.compared
        yield f"All {comparison.steps} recorded steps in common agree, in {count} values."
    if comparison.lengths[0] != comparison.lengths[1]:
        yield f"A has {comparison.lengths[0]} steps and B has {comparison.lengths[1]}."
    for name, (in_a, in_b) in comparison.setup.items():
        yield f"The {name} is {_show(in_a)} in A and {_show(in_b)} in B."
    yield from comparison.notes


def _show(value: object) -> str:
    return "not set" if value is None else str(value)
