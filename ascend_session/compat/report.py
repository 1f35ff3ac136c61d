"""What one process reports of its run: which options were set, and what became of them."""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ascend_session.text import format_ranges

_HEADERS = ("OPTION", "VALUE", "SESSIONS", "WHAT BECOMES OF IT")
_LONGEST_VALUE = 40  # characters


class ReportRow(NamedTuple):
    """One option with one value, and the sessions that have it."""

    key: str
    value: str
    sessions: str
    why: str


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
        others: How other ranks differ.
    """
    rows: Dict[Tuple[str, str, str], List[int]] = {}
    notes: Dict[str, List[int]] = {}
    for session in sessions:
        number, settings = session["number"], session["settings"]
        default_count = sum(each["effect"] == "default" for each in settings)
        if default_count:
            note = f"{default_count} options have the defaults that NPUEstimator writes."
            notes.setdefault(note, []).append(number)
        for each in settings:
            if each["effect"] != "default":
                row = each["key"], _format_value(each["value"]), each["why"]
                rows.setdefault(row, []).append(number)
        for note in session["notes"]:
            notes.setdefault(note, []).append(number)
    ordered = sorted(rows.items(), key=lambda item: (item[0][0], item[1]))
    return RunReport(
        [
            ReportRow(key, value, format_ranges(numbers, ","), why)
            for (key, value, why), numbers in ordered
        ],
        [
            *_list_sessions(sessions),
            *(f"{_name_sessions(numbers)}: {note}" for note, numbers in notes.items()),
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
            names = _name_sessions([each["number"] for each in some])
            sentences.append(f"{names} {words}: {places}")
    for each in sessions:
        if each.get("is_refused"):
            name = _name_sessions([each["number"]])
            sentences.append(f"{name} was refused for its options: {each['where']}")
    return sentences


def rank_differences(
    own: Sequence[Mapping[str, Any]], rank: int, theirs: Sequence[Mapping[str, Any]]
) -> List[str]:
    """Tell how the sessions of another rank differ, as far as both ranks have opened them.

    Args:
        own: This rank's sessions.
        rank: The other one's number.
        theirs: Its sessions.
    """
    sentences = []
    for session, other in zip(own, theirs):
        here, there = (
            {each["key"]: _format_value(each["value"]) for each in opened["settings"]}
            for opened in (session, other)
        )
        for key in sorted({*here, *there} - {"session_device_id"}):  # each rank has its own
            values = [options.get(key, "not set") for options in (there, here)]
            if values[0] != values[1]:
                sentences.append(
                    f"Rank {rank} differs in session {session['number']}: {key} is {values[0]} "
                    f"there and {values[1]} here."
                )
    return sentences


def report_lines(report: RunReport, head: str) -> List[str]:
    """Lay the report out as lines of text."""
    lines = [head]
    if report.rows:
        rows = [_HEADERS, *report.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)]
            lines.append("  " + "  ".join([*cells, row[3]]).rstrip())
    return lines + [f"  {sentence}" for sentence in report.sentences]


def _format_value(value: Any) -> str:
    text = value if isinstance(value, str) and value else repr(value)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[: _LONGEST_VALUE - 12]}...{text[-9:]}"
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _name_sessions(numbers: Sequence[int]) -> str:
    return f"Session{'s' if len(numbers) > 1 else ''} {format_ranges(numbers, ',')}"
