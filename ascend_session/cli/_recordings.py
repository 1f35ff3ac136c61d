"""Recorded trainings: read from the files of ``--record``, and compared."""

import glob
import json
import math
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ascend_session.cluster.records import name_record
from ascend_session.errors import ConfigError
from ascend_session.text import format_count, format_ranges

Value = Tuple[str, str]  # kind, "values" or "norms", and name
Steps = Dict[int, Dict[Value, float]]


class Recording(NamedTuple):
    """One recorded training.

    Attributes:
        path: The file of rank 0.
        header: The first line of rank 0.
        ranks: The steps by rank, and in each the values by kind and name.
        notes: What is unusual about the files, in sentences.
    """

    path: str
    header: Dict[str, Any]
    ranks: Dict[int, Steps]
    notes: List[str]


class Difference(NamedTuple):
    """Two values that differ.

    Attributes:
        step: The training run, counted from 1.
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
        steps: Number of training runs that both have.
        first: All differences at the first step that has any, ranks in order.
        lengths: Number of training runs of each, the fewest of any rank.
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
        """Whether no value differs and both have as many training runs."""
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
    recording = Recording(path, {}, {}, [])
    _read_file(path, recording)
    if not recording.ranks:
        what = "has no training run" if recording.header else "is no record of a training"
        hint = "Write one with ascend-session run --record FILE, or launch --record FILE."
        raise ConfigError(f"{path} {what}.", hint=hint)
    stem, suffix = os.path.splitext(path)
    missing = []
    for rank in range(1, int(recording.header.get("ranks", 1))):
        other = Recording(name_record(path, rank), {}, {}, recording.notes)
        if os.path.exists(other.path):
            _read_file(other.path, other)
        # A file of an earlier job of more ranks is none of this recording's.
        if other.ranks and other.header.get("job") == recording.header.get("job"):
            recording.ranks.update(other.ranks)
        else:
            missing.append(rank)
    if missing and glob.glob(f"{glob.escape(stem)}.rank*{glob.escape(suffix)}"):
        recording.notes.append(f"{path}: nothing is recorded of ranks {format_ranges(missing)}.")
    return recording


def _read_file(path: str, recording: Recording) -> None:
    """Read the file of one rank into a recording; later attempts replace earlier ones."""
    damaged = 0
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for text in file:
                try:
                    damaged += not _read_line(json.loads(text), recording)
                except (ValueError, RecursionError):
                    damaged += 1
    except OSError as failure:
        raise ConfigError(f"{path} cannot be read: {failure.strerror}.") from None
    if damaged and recording.ranks:
        lines = format_count(damaged, "line")
        recording.notes.append(f"{path}: {lines} could not be read and were left out.")


def _read_line(line: Any, recording: Recording) -> bool:
    """Read a line; return False if it is none of a record."""
    if not isinstance(line, dict):
        return False
    if "record" in line:
        if recording.header and line.get("job") != recording.header.get("job"):
            recording.notes.append(f"{recording.path}: only the last attempt is compared.")
            recording.ranks.clear()
        elif recording.header:  # another process of the same rank, such as an evaluation
            return True
        recording.header.clear()
        recording.header.update(line)
        return True
    try:
        steps = recording.ranks.setdefault(int(line["rank"]), {})
        number = max(steps, default=0) + 1 if int(line["step"]) in steps else int(line["step"])
        steps[number] = {
            (kind, str(name)): float(value)
            for kind in ("values", "norms")
            for name, value in line.get(kind, {}).items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return True


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
    steps_of: List[Dict[Optional[int], Steps]] = [dict(each.ranks.items()) for each in (a, b)]
    if len(a.ranks) != len(b.ranks):
        steps_of = [{None: _average(a.ranks)}, {None: _average(b.ranks)}]
        counts = [format_count(len(each.ranks), "rank") for each in (a, b)]
        notes.append(f"A has {counts[0]} and B has {counts[1]}: their means are compared.")
    of_a, of_b = steps_of
    lengths = [min(map(len, each.values())) for each in steps_of]
    common = sorted(set.intersection(*(set(steps) for each in steps_of for steps in each.values())))
    compared, first = 0, []
    for step in common:
        for rank in of_a:
            here, there = of_a[rank][step], of_b.get(rank, {}).get(step, {})
            for kind, name in here:
                if (kind, name) not in there:
                    continue
                compared += 1
                pair = here[kind, name], there[kind, name]
                if not _is_close(*pair, rtol):
                    first.append(Difference(step, rank, kind, name, *pair))
        if first:
            break
    names = [
        {name for steps in each.values() for s in steps.values() for name in s} for each in steps_of
    ]
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
