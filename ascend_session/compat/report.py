"""What one process reports of its run: which options were set, and what became of them."""

import re
import textwrap
from itertools import groupby
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.text import format_ranges

# Of a setting: its effects (`sessions.SessionOption`), and the heading over them.
_SECTIONS = (
    ("refused", "Wrong, a device ends the run:"),
    ("host", "Wrong on a machine with the files of this one:"),
    ("silent", "Ignored:"),
    ("stub", "Without effect on the stub:"),
    ("unused", "Not used:"),
    ("device", "Honoured:"),
)
_LONGEST_VALUE = 40  # characters


class ReportRow(NamedTuple):
    """One option with one value, and the sessions that have it.

    Attributes:
        key: The vendor's key.
        value: Its value as text.
        sessions: Their numbers: ``1-3,5``.
        why: What becomes of it, in a sentence.
        effect: As of `sessions.SessionOption`.
    """

    key: str
    value: str
    sessions: str
    why: str
    effect: str


class RunReport(NamedTuple):
    """What one process has to say.

    Attributes:
        rows: The options.
        sentences: What else there is to say.
    """

    rows: List[ReportRow]
    sentences: List[str]


def build_report(sessions: Sequence[Mapping[str, Any]], others: Sequence[str] = ()) -> RunReport:
    """Report on sessions, given as `sessions.WatchedSession.as_dict` makes them.

    Args:
        sessions: They, in the order of opening.
        others: More sentences.
    """
    rows: Dict[Tuple[str, str, str, str], List[int]] = {}
    notes: Dict[str, List[int]] = {}
    for session in sessions:
        number, settings = session["number"], session["settings"]
        default_count = sum(each["effect"] == "default" for each in settings)
        if default_count:
            note = f"{default_count} options have the defaults that NPUEstimator writes."
            notes.setdefault(note, []).append(number)
        for each in settings:
            if each["effect"] != "default":
                row = each["key"], _format_value(each["value"]), each["why"], each["effect"]
                rows.setdefault(row, []).append(number)
        for note in session["notes"]:
            notes.setdefault(note, []).append(number)
    ordered = sorted(rows.items(), key=lambda item: (item[0][0], item[1]))
    return RunReport(
        [
            ReportRow(key, value, format_ranges(numbers, ","), why, effect)
            for (key, value, why, effect), numbers in ordered
        ],
        [
            *_list_sessions(sessions),
            *(f"{_name('Session', numbers)}: {note}" for note, numbers in notes.items()),
            *others,
        ],
    )


def _list_sessions(sessions: Sequence[Mapping[str, Any]]) -> List[str]:
    opened = [each for each in sessions if not each.get("is_refused")]
    sentences = [] if opened else ["The script has opened no session."]
    for has_entry, words in (
        (True, "with an NpuOptimizer entry"),
        (False, "without one, which a device leaves on the host, too"),
    ):
        some = [each for each in opened if each["has_entry"] is has_entry]
        if some:
            places = ", ".join(dict.fromkeys(str(each["where"]) for each in some))
            sentences.append(f"{_name('Session', [s['number'] for s in some])} {words}: {places}")
    for each in sessions:
        if each.get("is_refused"):
            name = _name("Session", [each["number"]])
            sentences.append(f"{name} was refused for its options: {each['where']}")
    return sentences


def rank_differences(
    own: Sequence[Mapping[str, Any]], others: Mapping[int, Sequence[Mapping[str, Any]]]
) -> List[str]:
    """Tell how the sessions of other ranks differ, as far as both ranks have opened them.

    Args:
        own: This rank's sessions.
        others: Those of each other rank.
    """
    differences: Dict[Tuple[str, str, Tuple[int, ...]], Dict[int, str]] = {}
    for rank, theirs in others.items():
        places: Dict[Tuple[str, str, str], List[int]] = {}
        for session, other in zip(own, theirs):
            here, there = (
                {each["key"]: _format_value(each["value"]) for each in opened["settings"]}
                for opened in (session, other)
            )
            for key in sorted({*here, *there} - {"session_device_id"}):  # each rank has its own
                pair = here.get(key, "not set"), there.get(key, "not set")
                if pair[0] != pair[1]:
                    places.setdefault((key, *pair), []).append(session["number"])
        for (key, value, their_value), numbers in places.items():
            values = differences.setdefault((key, value, tuple(numbers)), {})
            values[rank] = their_value
    sentences = []
    for (key, value, sessions), by_rank in differences.items():
        ranks = sorted(by_rank)
        verb = "differ" if len(ranks) > 1 else "differs"
        where = "there" if len(set(by_rank.values())) == 1 else f"on rank {ranks[0]}"
        sentences.append(
            f"{_name('Rank', ranks)} {verb} in {_name('session', sessions)}: {key} is "
            f"{by_rank[ranks[0]]} {where} and {value} here."
        )
    return sentences


def variable_differences(own: Optional[int], others: Mapping[int, Optional[int]]) -> List[str]:
    """Tell that ranks that average gradients began with different variables, in one sentence.

    Args:
        own: What stands for this rank's variables before its first averaged step; None if it has
            made none.
        others: The same of each other rank.
    """
    known = {rank: each for rank, each in others.items() if each is not None}
    different = sorted(rank for rank, each in known.items() if each != own)
    if own is None or not different:
        return []
    count = len({own, *known.values()})
    return [
        f"{_name('Rank', different)} began with other variables than rank 0, and the optimizer "
        f"averages gradients only: this job trains {count} different models. Give the session the "
        "hook NPUBroadcastGlobalVariablesHook(0), or Keras the callback "
        "NPUBroadcastGlobalVariablesCallback(0), or run npu_hook.broadcast_global_variables(0) "
        "once, after the variables' initialisers."
    ]


def report_lines(report: RunReport, head: str, width: Optional[int] = None) -> List[str]:
    """Lay the report out as lines of text.

    Args:
        report: What there is to say.
        head: The first line.
        width: The longest line, in characters; None leaves each sentence on one line.
    """
    lines = [head]
    for effect, title in _SECTIONS:
        rows = [row for row in report.rows if row.effect == effect]
        if rows:
            lines += [f"  {title}", *(f"    {line}" for line in _join_rows(rows, report.rows))]
    lines += [f"  {sentence}" for sentence in report.sentences]
    if width is None:
        return lines
    wrapped = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return wrapped


def _join_rows(rows: Iterable[ReportRow], all_rows: Sequence[ReportRow]) -> List[str]:
    """Write one line for all rows of which the same is said, but for their keys and values."""
    alike: Dict[str, List[ReportRow]] = {}
    for row in rows:
        pattern = row.why
        if _is_named(row):
            pattern = pattern.replace(row.key, "KEY").replace(row.value, "VALUE")
        alike.setdefault(pattern, []).append(row)
    is_in_all = len({row.sessions for row in all_rows}) == 1
    lines = []
    for group in alike.values():
        first, others = group[0], group[1:]
        if not _is_named(first):
            count = f" ({len(group)} options)" if others else ""
            lines.append(f"{_list_options(group, is_in_all)}{count}: {first.why}")
            continue
        line = first.why if is_in_all else f"{_name_sessions(first)}: {first.why}"
        if others:
            more = f"{len(others)} more: {_list_options(others, is_in_all)}"
            line = f"{line.rstrip('.')}. The same holds for {more}."
        lines.append(line)
    return lines


def _is_named(row: ReportRow) -> bool:
    """Whether the sentence about an option names it."""
    return re.search(rf"\b{re.escape(row.key)}\b", row.why) is not None


def _list_options(rows: Iterable[ReportRow], is_in_all: bool) -> str:
    parts = []
    for _, group in groupby(sorted(rows, key=_name_sessions), key=_name_sessions):
        some = list(group)
        names = ", ".join(f"{row.key}={row.value}" for row in some)
        parts.append(names if is_in_all else f"{names} ({_name_sessions(some[0]).lower()})")
    return ", ".join(parts)


def _name_sessions(row: ReportRow) -> str:
    return f"Session{'' if row.sessions.isdigit() else 's'} {row.sessions}"


def _name(what: str, numbers: Sequence[int]) -> str:
    return f"{what}{'s' if len(numbers) > 1 else ''} {format_ranges(numbers, ',')}"


def _format_value(value: Any) -> str:
    text = value if isinstance(value, str) and value else repr(value)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[: _LONGEST_VALUE - 12]}...{text[-9:]}"
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
