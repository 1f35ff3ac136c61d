"""What is said at the end of a run: options, what became of them, and sessions without any."""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

__all__ = ["Report", "Row", "differences", "lines", "made"]

_HEADERS = ("OPTION", "VALUE", "SESSIONS", "WHAT BECOMES OF IT")
_WIDEST = 40  # characters of a value


class Row(NamedTuple):
    """One option with one value, and the sessions that have it."""

    key: str
    value: str
    sessions: str
    why: str


class Report(NamedTuple):
    """What one process has to say.

    Attributes:
        rows: The options.
        sentences: What else there is to say.
    """

    rows: List[Row]
    sentences: List[str]


def made(sessions: Sequence[Mapping[str, Any]], others: Sequence[str] = ()) -> Report:
    """The report on sessions, given as `sessions.Watched.as_dict` makes them.

    Args:
        sessions: They, in the order of opening.
        others: How other ranks differ.
    """
    found: Dict[Tuple[str, str, str], List[int]] = {}
    notes: Dict[str, List[int]] = {}
    for session in sessions:
        defaults = [each["key"] for each in session["settings"] if each["effect"] == "default"]
        if defaults:
            said = f"{len(defaults)} options have the defaults that NPUEstimator writes."
            notes.setdefault(said, []).append(session["number"])
        for setting in session["settings"]:
            if setting["effect"] == "default":
                continue
            key = (setting["key"], _text(setting["value"]), setting["why"])
            found.setdefault(key, []).append(session["number"])
        for note in session["notes"]:
            notes.setdefault(note, []).append(session["number"])
    ordered = sorted(found.items(), key=lambda item: (item[0][0], item[1]))
    rows = [Row(key, value, _numbers(of), why) for (key, value, why), of in ordered]
    sentences = _about(sessions)
    sentences += [f"{_named(of)}: {note}" for note, of in notes.items()]
    return Report(rows, [*sentences, *others])


def _about(sessions: Sequence[Mapping[str, Any]]) -> List[str]:
    refused = [each for each in sessions if each.get("is_refused")]
    sessions = [each for each in sessions if each not in refused]
    said = [] if sessions else ["The script has opened no session."]
    for has_entry, words in (
        (True, "with an NpuOptimizer entry"),
        (False, "without one, which a device leaves on the host, too"),
    ):
        some = [each for each in sessions if each["has_entry"] is has_entry]
        if some:
            places = ", ".join(dict.fromkeys(str(each["where"]) for each in some))
            said.append(f"{_named([each['number'] for each in some])} {words}: {places}")
    for each in refused:
        said.append(f"{_named([each['number']])} was refused for its options: {each['where']}")
    return said


def differences(own: Sequence[Mapping[str, Any]], rank: int, theirs: Any) -> List[str]:
    """How the sessions of another rank differ from this one's, as far as both have opened them.

    Args:
        own: This rank's sessions.
        rank: The other one's number.
        theirs: Its sessions.
    """
    said = []
    for mine, other in zip(own, theirs):
        pairs = [{s["key"]: _text(s["value"]) for s in each["settings"]} for each in (mine, other)]
        for key in sorted({*pairs[0], *pairs[1]}):
            here, there = (pair.get(key, "not set") for pair in pairs)
            if here != there and key != "session_device_id":  # each rank has its own
                said.append(
                    f"Rank {rank} differs in session {mine['number']}: {key} is {there} there and "
                    f"{here} here."
                )
    return said


def lines(report: Report, head: str) -> List[str]:
    """The report as lines of text."""
    found = [head]
    if report.rows:
        rows = [_HEADERS, *report.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        found += [
            "  " + "  ".join([*(c.ljust(w) for c, w in zip(row, widths)), row[3]]).rstrip()
            for row in rows
        ]
    return found + [f"  {sentence}" for sentence in report.sentences]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) and value else repr(value)
    short = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 12]}...{text[-9:]}"
    return short.encode("unicode_escape").decode("ascii") if not short.isprintable() else short


def _named(numbers: Sequence[int]) -> str:
    return f"Session{'s' if len(numbers) > 1 else ''} {_numbers(numbers)}"


def _numbers(numbers: Sequence[int]) -> str:
    """``1-3,5``."""
    runs: List[List[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
