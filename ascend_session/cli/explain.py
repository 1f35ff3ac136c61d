"""``ascend-session explain``: the meaning of error codes, and the cause of a failure in logs."""

import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
)

import click
from click.exceptions import Exit

from ascend_session.cli._output import complain, fail, is_terminal, show_facts, show_json
from ascend_session.cli._parameters import JSON, argument, command
from ascend_session.findings import ERROR, INFO
from ascend_session.text import did_you_mean, format_count, join_words, label_first, shorten

if TYPE_CHECKING:
    from ascend_session.failures.explanation import Explanation, LocatedFailure, Log
    from ascend_session.failures.failure import Failure
    from ascend_session.failures.peers import Peer
    from ascend_session.launcher.job.attempt import Cause
    from ascend_session.launcher.verdict.result import LaunchResult
    from ascend_session.launcher.verdict.saved import SavedLaunch

_FACTS = Path(__file__).resolve().parents[1] / "guides" / "facts" / "failures.md"
_CODE = re.compile(r"[A-Za-z]{0,2}[0-9]{4,6}|0x[0-9A-Fa-f]{1,8}")
_MOST_OTHERS, _MOST_PEERS = 8, 5  # that are shown; JSON has all
_LONGEST_REASON = 1000
_STDIN = "-"
_MOST_STDIN_BYTES = 64 << 20
_WHOLE_CODE = re.compile(r"E[A-Z][0-9]{4}")


@command("explain")
@argument("what", "CODE|FILE|FOLDER...")
@JSON
def explain(what: Tuple[str, ...], as_json: bool) -> None:
    """Explain an error code, a log, or what became of an old job.

    CODE is an error code of the vendor, such as EI0006 or 507033, or a line with one. FILE is any
    log; - is the standard input. FOLDER is that of one or several jobs of `launch`, the newest of
    which counts: what `launch` reported at its end comes first, then what the logs add. In any
    other folder, and among several logs, it finds the cause, and the peers that the logs name.

    Exit code: 0 if the job succeeded, or if a cause or the meaning of a code is known; 1 if nothing
    is known; 2 if the command is wrong, or a file is missing or cannot be read.

    Examples:
        ascend-session explain EI0006
        ascend-session explain ascend-logs
    """
    from ascend_session.failures.explanation import Log, explain_logs
    from ascend_session.failures.scanner import look_up

    is_file = any(word == _STDIN or os.path.exists(word) for word in what)
    beside = [] if is_file else _find_beside(what)
    if is_file or beside:
        _explain_files(what, beside, as_json)
        return
    paths = [word for word in what if os.sep in word or re.search(r"\.(log|txt|out|err)$", word)]
    if paths:
        _refuse(
            f"There is no file or folder {paths[0]!r}.",
            "Relative paths start in the working directory.",
        )
    failures = [failure for failure in map(look_up, what) if failure is not None]
    if len(failures) == len(what):
        _show_codes(failures, as_json)
        return
    if failures and all(_CODE.fullmatch(word) for word in what):
        unknown = [word for word in what if look_up(word) is None]
        complain(f"Nothing is known about {join_words(unknown)}.", _hint_for(unknown[0]), ERROR)
        _show_codes(failures, as_json)
        raise Exit(1)
    text = " ".join(what)
    explanation = explain_logs([Log("", text, time.time())])
    if explanation.cause is not None:
        _show_logs(explanation, [], as_json)
        return
    if as_json:
        show_json(_explanation_as_dict(explanation, []))
    fail(f"Nothing is known about {shorten(text)!r}.", _hint_for(text))


def refuse_codes(words: Sequence[str], what: str) -> None:
    """If the words are an error code, name this command and end the program."""
    from ascend_session.failures.scanner import look_up

    if words and all(look_up(word) is not None for word in words):
        fail(
            f"{join_words(words)} {'is an error code' if len(words) == 1 else 'are error codes'}, "
            f"{what}.",
            f"`ascend-session explain {' '.join(words)}` says what to do.",
        )


def _hint_for(text: str) -> str:
    from ascend_session.failures.table import ROWS

    if _WHOLE_CODE.fullmatch(text.upper()):
        return (
            "The table does not have this code. Give the log: the vendor's message in it may say "
            "what to do ('Possible Cause', 'Solution')."
        )
    near = did_you_mean(text.upper(), [code.name for row in ROWS for code in row.codes], 0.8)
    if near is not None:
        return f"Did you mean {near}?"
    return "Give a code such as EI0006 or 507033, a file, or a folder with logs."


def _refuse(message: str, hint: Optional[str] = None) -> NoReturn:
    """Print an error about the command's arguments, and end the program with exit code 2."""
    complain(message, hint, ERROR)
    raise Exit(2)


def _explain_files(what: Sequence[str], beside: "List[SavedLaunch]", as_json: bool) -> None:
    """Explain launches and logs; if nothing is known of them, the launch that has or follows them.

    Args:
        what: The files and folders as they were typed.
        beside: The launches to be explained instead, if none of the files exists.
        as_json: Whether one JSON object is printed.
    """
    from ascend_session.failures.explanation import explain_logs, find_logs, read_logs

    launches, logs = ([], []) if beside else _read_all(what)
    explanation = explain_logs([] if launches else logs)
    if not launches and explanation.cause is None:
        launches = beside or _find_beside(what)
        if launches:
            complain(
                f"There is no known failure in {what[0]}. This is the launch {launches[0].folder}.",
                None,
                INFO,
            )
            logs = read_logs([path for saved in launches for path in find_logs(saved.logs)])
    for saved in launches:
        if saved.trouble:
            complain(saved.trouble, None, INFO)
    if any(saved.result is not None for saved in launches):
        _show_launches(launches, logs, as_json)
    elif not logs:
        fail(
            f"There is no log in {join_words(what)}.",
            "Files named *.log, *.txt, *.out, *.err, or without a suffix, and error.json are read.",
        )
    else:
        _show_logs(explain_logs(logs) if launches else explanation, logs, as_json)


def _find_beside(what: Sequence[str]) -> "List[SavedLaunch]":
    """Find the launch that has a log, or the newest one beside a `latest` that is the user's."""
    from ascend_session.launcher.verdict.saved import find_beside, find_launch_of

    if len(what) != 1 or what[0] == _STDIN:
        return []
    above = find_launch_of(what[0]) if os.path.isfile(what[0]) else None
    return find_beside(what[0]) if above is None else [above]


def _read_all(what: Sequence[str]) -> "Tuple[List[SavedLaunch], List[Log]]":
    """Read the launches and logs that were named; ends the program if one is missing."""
    from ascend_session.failures.explanation import Log, find_logs, read_logs
    from ascend_session.launcher.verdict.result import RESULT_NAME
    from ascend_session.launcher.verdict.saved import find_launches

    paths: List[str] = []
    logs: List[Log] = []
    launches: List[SavedLaunch] = []
    for word in what:
        is_result = os.path.basename(word) == RESULT_NAME and os.path.isfile(word)
        if word == _STDIN:
            content = sys.stdin.buffer.read(_MOST_STDIN_BYTES)
            logs.append(Log(_STDIN, content.decode("utf-8", "backslashreplace"), time.time()))
        elif is_result or os.path.isdir(word):
            folder = os.path.dirname(word) or os.curdir if is_result else word
            found = find_launches(folder)
            launches += found
            for place in [saved.logs for saved in found] or [folder]:
                paths += find_logs(place)
        elif not os.path.exists(word):
            _refuse(f"There is no file or folder {word!r}.")
        elif os.path.isfile(word) and os.access(word, os.R_OK):
            paths.append(word)
        else:
            _refuse(
                f"{word!r} cannot be read: it is not a regular file, or not yours.",
                "`ascend-session explain -` reads what a program writes to it.",
            )
    return launches, [*logs, *read_logs(paths)]


# Codes


def _show_codes(failures: "Sequence[Failure]", as_json: bool) -> None:
    if as_json:
        cause, *others = map(_failure_as_dict, failures)
        show_json({"cause": cause, "others": others, "peers": [], "logs": [], "launches": []})
        return
    for number, failure in enumerate(failures):
        if number:
            click.echo()
        click.echo(click.style(_name(failure), bold=True))
        show_facts(list(_list_facts(failure)))


def _name(failure: "Failure") -> str:
    return f"{failure.code}: {failure.meaning}" if failure.meaning else failure.code


def _list_facts(failure: "Failure") -> Iterator[Tuple[str, str]]:
    """List a label and a text for each fact about a failure, wherever it stands."""
    yield "Kind", failure.definition.describe(failure.failure_class)
    yield "What to do", failure.advice
    if failure.wait_seconds is not None:
        yield "Wait", f"{failure.wait_seconds} s before another attempt"
    yield "Source", _spell_source(failure.source)


def _spell_source(source: str) -> str:
    """Spell the abbreviations of a source as the page of facts does."""
    page = _FACTS.read_text(encoding="utf-8")
    meanings = dict(re.findall(r"^- ([A-Z-]+): (.+)\.$", page, re.M))
    parts = []
    for part in source.split("; "):
        name, _, more = part.partition(" ")
        meaning = meanings.get(name, "").replace("`", "")
        parts.append(f"{meaning}{f' ({more})' if more else ''}" if meaning else part)
    return "; ".join(parts)


def _failure_as_dict(failure: "Failure") -> Dict[str, Any]:
    return {
        "code": failure.code,
        "meaning": failure.meaning,
        "class": failure.failure_class.value,
        "is_vague": failure.definition.is_vague,
        "advice": failure.advice,
        "wait_seconds": failure.wait_seconds,
        "source": failure.source,
    }


# Launches


def _show_launches(launches: "Sequence[SavedLaunch]", logs: "List[Log]", as_json: bool) -> None:
    """Print what launchers said at their end, and what the logs add to that."""
    from ascend_session.failures.explanation import count_peers, find_failures
    from ascend_session.launcher.verdict.summary import summarize

    results = [saved.result for saved in launches if saved.result is not None]
    # A rank of another node explains less, and a success nothing.
    results.sort(key=lambda result: (result.ok, _is_elsewhere(result)))
    cause = results[0].cause
    failure = None if cause is None else cause.failure
    said = "\n".join(map(str, results))
    place, others = _sort_findings(find_failures(logs), cause, said)
    peers = count_peers(logs, failure)
    if as_json:
        found = {
            "cause": _cause_as_dict(results[0], place),
            "others": list(map(_finding_as_dict, others)),
            "peers": _peers_as_list(peers),
            "logs": [log.path for log in logs],
            "launches": [saved.values for saved in launches if saved.values],
        }
        show_json(found)
    else:
        width = shutil.get_terminal_size().columns if is_terminal() else None
        is_coloured = is_terminal() and not os.environ.get("NO_COLOR")
        texts = [
            summarize(each.code, each.attempts, each.notes, width=width, is_coloured=is_coloured)
            for each in results
        ]
        click.echo("\n\n".join(text.strip("\n") for text in texts))
        facts = []
        if failure is not None and failure.definition.is_listed:
            facts += [("Where", _describe_place(place))] if place is not None else []
            facts += _list_peers(peers)
            facts.append(("Source", _spell_source(failure.source)))
        facts += _list_others(others)
        if facts:
            click.echo(click.style("\nWhat the logs add:", bold=True))
            show_facts(facts)
    if not results[0].ok and cause is None:
        raise Exit(1)


def _is_elsewhere(result: "LaunchResult") -> bool:
    return result.cause is None or result.cause.rank is None or result.cause.elsewhere is not None


def _sort_findings(
    findings: "List[LocatedFailure]", cause: "Optional[Cause]", said: str
) -> "Tuple[Optional[LocatedFailure], List[LocatedFailure]]":
    """Find the place of the launcher's cause in the logs, and what the launcher did not say."""
    from ascend_session.failures.table import JOB_CANNOT_GO_ON

    place, others = None, []
    for finding in findings:
        failure = finding.failure
        is_of_rank = cause is not None and _is_of_rank(cause.rank, finding.log)
        if failure is None:
            name = _name_finding(finding)
            is_exit_code = re.fullmatch(r"SystemExit: [0-9]+", name) is not None
            if not (is_of_rank or is_exit_code or name in said):
                others.append(finding)
        elif cause is not None and cause.failure is not None and failure.code == cause.failure.code:
            if place is None or (is_of_rank and not _is_of_rank(cause.rank, place.log)):
                place = finding
        # The launcher knows which rank did not let the job go on.
        elif failure.code not in said and JOB_CANNOT_GO_ON not in failure.line:
            others.append(finding)
    return place, others


def _is_of_rank(rank: Optional[int], log: "Log") -> bool:
    """Return whether a log is in the folder of a rank."""
    return f"rank_{rank}" in os.path.abspath(log.path).split(os.sep)


def _cause_as_dict(
    result: "LaunchResult", place: "Optional[LocatedFailure]"
) -> Optional[Dict[str, Any]]:
    cause = result.cause
    if cause is None:
        return None
    meaning: Dict[str, Any] = {"code": None, "meaning": cause.said}
    if cause.failure is not None:
        meaning = _failure_as_dict(cause.failure)
    rank = None if cause.rank is None else result.attempts[-1].of(cause.rank)
    file, line = (rank.stderr if rank is not None else ""), None
    if place is not None:
        file, line = place.log.path, place.line_number
    kind = None if cause.failure_class is None else cause.failure_class.value
    advice = cause.advice or meaning.get("advice")
    details = {"rank": cause.rank, "said": cause.said, "class": kind, "advice": advice}
    return {**meaning, **details, "file": file or None, "line": line}


# Logs


def _show_logs(explanation: "Explanation", logs: "Sequence[Log]", as_json: bool) -> None:
    if as_json:
        show_json(_explanation_as_dict(explanation, logs))
    elif explanation.cause is not None:
        finding = explanation.cause
        click.echo(click.style(_name_finding(finding), bold=True))
        show_facts(list(_list_findings(explanation, finding, logs)))
    if explanation.cause is None:
        names = format_count(len(logs), "log")
        where = "it" if len(logs) == 1 else "them"
        last = f" An exception in {where}: {explanation.raised}" if explanation.raised else ""
        fail(f"No known failure of the vendor's stack in {names}.{last}")


def _name_finding(finding: "LocatedFailure") -> str:
    if finding.failure is not None:
        return _name(finding.failure)
    from ascend_session.failures.reason import reason_of

    record = finding.log.record
    assert record is not None
    reason = shorten(reason_of(record.message), _LONGEST_REASON)
    return f"{record.name}: {reason}".rstrip(": ")


def _list_findings(
    explanation: "Explanation", cause: "LocatedFailure", logs: "Sequence[Log]"
) -> Iterator[Tuple[str, str]]:
    if logs:
        yield "Where", _describe_place(cause)
    if cause.failure is not None and cause.failure.line:
        yield "Line", shorten(cause.failure.line, _LONGEST_REASON)
    if cause.failure is None and cause.log.record is not None:
        frames = cause.log.record.frames[-1:]
        yield from (("Raised in", f"{path}:{line} {name}") for path, line, name in frames)
    yield from _list_peers(explanation.peers)
    if cause.failure is not None:
        yield from _list_facts(cause.failure)
    else:
        yield "Kind", "the program's own exception, which no known failure explains"
    yield from _list_others(explanation.others, bool(logs))
    if len(logs) > 1:
        yield "Logs", f"{len(logs)}, which --json lists"
    cut = [log.path for log in logs if not log.is_whole]
    if cut:
        yield "Cut", f"only the end of {join_words(cut[:_MOST_PEERS])} was read"


def _list_peers(peers: "Sequence[Tuple[Peer, int]]") -> List[Tuple[str, str]]:
    texts = [
        f"{peer} (named {count} times)" if count > 1 else str(peer)
        for peer, count in peers[:_MOST_PEERS]
    ]
    more_peers = len(peers) - len(texts)
    return label_first("Peer", [*texts, *([f"and {more_peers} more"] if more_peers > 0 else [])])


def _list_others(
    findings: "Iterable[LocatedFailure]", has_places: bool = True
) -> List[Tuple[str, str]]:
    others: Dict[str, List[str]] = {}
    for finding in findings:
        others.setdefault(_name_finding(finding), []).append(_describe_place(finding))
    texts = [
        name
        + (f" ({places[0]}{f' and {len(places) - 1} more' if places[1:] else ''})" * has_places)
        for name, places in others.items()
    ]
    more_peers = len(texts) - _MOST_OTHERS
    more = [f"and {more_peers} more"] if more_peers > 0 else []
    return label_first("Also", [*texts[:_MOST_OTHERS], *more])


def _describe_place(finding: "LocatedFailure") -> str:
    number = finding.line_number
    return f"{finding.log.path}{'' if number is None else f':{number}'}"


def _explanation_as_dict(explanation: "Explanation", logs: "Sequence[Log]") -> Dict[str, Any]:
    cause = explanation.cause
    return {
        "cause": None if cause is None else _finding_as_dict(cause),
        "others": list(map(_finding_as_dict, explanation.others)),
        "peers": _peers_as_list(explanation.peers),
        "logs": [log.path for log in logs],
        "launches": [],
    }


def _peers_as_list(peers: "Sequence[Tuple[Peer, int]]") -> List[Dict[str, Any]]:
    return [{**peer._asdict(), "times": count} for peer, count in peers]


def _finding_as_dict(finding: "LocatedFailure") -> Dict[str, Any]:
    place = {"file": finding.log.path or None, "line": finding.line_number}
    if finding.failure is not None:
        return {**_failure_as_dict(finding.failure), **place, "text": finding.failure.line}
    return {"code": None, "meaning": _name_finding(finding), **place}
