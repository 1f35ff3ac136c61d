"""The report at the end of a run: the options of the script's sessions with their effects."""

import re
import textwrap
from itertools import groupby
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ascend_session.backends import outside
from ascend_session.compat.unread import describe_unread
from ascend_session.text import format_ranges
from ascend_session.user_code import UserLine

if TYPE_CHECKING:
    from ascend_session.compat.script_run import ScriptRun

# Sections of the report in their order, with their headings
_SECTIONS = (
    ("refused", "Errors that abort the run on a device:"),
    ("host", "Errors on a device whose host has the files of this machine:"),
    ("differs", "Trains otherwise than the script suggests:"),
    ("silent", "Ignored:"),
    ("warning", "Accepted on a device, with a warning:"),
    ("stub", "Without effect on the stub:"),
    ("unused", "Not used:"),
    ("device", "Correct; in effect only on a device:"),
    ("here", "Correct, and in effect here:"),
)
_LONGEST_VALUE = 40  # characters


class ReportRow(NamedTuple):
    """One option with one value, and the sessions that have it.

    Attributes:
        key: The vendor's key.
        value: Its value as text.
        sessions: Their numbers, like ``1-3,5``.
        why: The reason for its effect, in a sentence.
        effect: The effect, as in `sessions.SessionOption`.
    """

    key: str
    value: str
    sessions: str
    why: str
    effect: str

    @property
    def section(self) -> str:
        """The section: the effect, or ``here`` if a correct option is in force on the stub."""
        return "here" if self.effect == "device" and "in force: " in self.why else self.effect


class RunReport(NamedTuple):
    """The report of one process.

    Attributes:
        rows: The options.
        sentences: Everything else.
        sessions: The numbers of the sessions with an entry, like ``1-3,5``.
        headed: Those of the sentences that belong to a section, by its effect.
    """

    rows: List[ReportRow]
    sentences: List[str]
    sessions: str = ""
    headed: Mapping[str, Sequence[str]] = {}


def report_run(run: "ScriptRun", others: Iterable[Mapping[str, Any]]) -> RunReport:
    """Build the report on a run.

    Args:
        run: The run.
        others: The records of other ranks (`ScriptRun.as_record`), as far as they have come.
    """
    record = run.as_record()
    differs = [
        *_describe_eager(run.eager_training),
        *describe_unread(run.unread),
        *run.local_gradients,
        *compare_ranks(record, others),
    ]
    unused = outside.find_unused(is_certain=False)
    return build_report(record["sessions"], differs, run.has_api_sessions, unused)


def _describe_eager(line: Optional[UserLine]) -> Iterator[str]:
    """Report training that no session runs, for which the script has imported the vendor's names.

    Source: the manual's Porting Principle: options and graphs reach the adapter by ``sess.run``.
    """
    if line is not None:
        yield (
            f"The training at {line} is eager: no session runs it, so all of it stays on the host, "
            "on a device as well. Turn eager execution off at the top of the script "
            "(`tf.compat.v1.disable_eager_execution()`) and train in a session."
        )


def build_report(
    sessions: Sequence[Mapping[str, Any]],
    differs: Sequence[str] = (),
    has_api_sessions: bool = False,
    unused: str = "",
) -> RunReport:
    """Build the report on sessions.

    Args:
        sessions: What `sessions.ScriptSession.as_dict` returns of each, in the order of opening.
        differs: Sentences about what trains otherwise than the script suggests.
        has_api_sessions: Whether the script has also opened sessions of this package.
        unused: A sentence about options from outside that had no effect, or ``""``.
    """
    rows: Dict[Tuple[str, str, str, str], List[int]] = {}
    notes: Dict[str, List[int]] = {}
    of_graph: Dict[Tuple[str, str], List[int]] = {}
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
        for effect, sentences in session.get("graph", {}).items():
            for sentence in sentences:
                of_graph.setdefault((effect, sentence), []).append(number)
        for note in session["notes"]:
            notes.setdefault(note, []).append(number)
    headed: Dict[str, List[str]] = {"differs": list(differs)} if differs else {}
    if unused:
        headed["silent"] = [unused]
    for (effect, sentence), numbers in of_graph.items():
        headed.setdefault(effect, []).append(f"{_name('Session', numbers)}: {sentence}")
    ordered = sorted(rows.items(), key=lambda item: (item[0][0], item[1]))
    return RunReport(
        [
            ReportRow(key, value, format_ranges(numbers, ","), why, effect)
            for (key, value, why, effect), numbers in ordered
        ],
        [
            *_list_sessions(sessions, has_api_sessions),
            *(f"{_name('Session', numbers)}: {note}" for note, numbers in notes.items()),
            *(sentence for sentences in headed.values() for sentence in sentences),
        ],
        format_ranges([each["number"] for each in sessions if each["has_entry"]], ","),
        headed,
    )


def _list_sessions(sessions: Sequence[Mapping[str, Any]], has_api_sessions: bool) -> List[str]:
    opened = [each for each in sessions if not each.get("is_refused")]
    sentences = []
    if has_api_sessions:
        sentences = ["The sessions of ascend_session are not listed: it has checked their options."]
    elif not sessions:
        sentences = ["The script did not open a session."]
    entry = "one" if any(each["has_entry"] for each in opened) else "an NpuOptimizer entry"
    for has_entry, words in (
        (True, "with an NpuOptimizer entry"),
        (False, f"without {entry}, which a device leaves on the host, too"),
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


def compare_ranks(record_here: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> List[str]:
    """Return sentences about options that differ in sessions that two ranks have opened.

    Args:
        record_here: The record of this rank (`ScriptRun.as_record`).
        others: The records of other ranks, as far as they have come.
    """
    differences: Dict[Tuple[str, str, Tuple[int, ...]], Dict[int, str]] = {}
    for record in others:
        rank = record["rank"]
        places: Dict[Tuple[str, str, str], List[int]] = {}
        for session, other in zip(record_here["sessions"], record["sessions"]):
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


def report_lines(report: RunReport, head: str, width: Optional[int] = None) -> List[str]:
    """Lay the report out as lines of text.

    Args:
        report: The report.
        head: The first line.
        width: Characters in a line; None leaves each sentence on one line.
    """
    lines = [head]
    is_in_all = all(row.sessions == report.sessions for row in report.rows)
    for section, title in _SECTIONS:
        rows = [row for row in report.rows if row.section == section]
        texts = [*report.headed.get(section, ()), *_join_rows(rows, is_in_all)]
        if texts:
            lines += [f"  {title}", *(f"    {text}" for text in texts)]
    headed = {sentence for sentences in report.headed.values() for sentence in sentences}
    lines += [f"  {sentence}" for sentence in report.sentences if sentence not in headed]
    if width is None:
        return lines
    wrapped = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return wrapped


def _join_rows(rows: Iterable[ReportRow], is_in_all: bool) -> List[str]:
    """Write one line for all rows whose sentences differ in key and value only.

    Args:
        rows: The options.
        is_in_all: Whether all sessions with an entry have each option; they are not named then.
    """
    alike: Dict[str, List[ReportRow]] = {}
    for row in rows:
        pattern = row.why
        if _is_named(row):
            pattern = pattern.replace(row.key, "KEY").replace(row.value, "VALUE")
        alike.setdefault(pattern, []).append(row)
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
    """Return whether the sentence about an option contains its key."""
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
