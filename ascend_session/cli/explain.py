"""``ascend-session explain``: the meaning of error codes, and the cause of a failure in logs."""

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import complain, fail, label_first, show_facts, show_json
from ascend_session.cli._parameters import JSON, argument, command
from ascend_session.findings import ERROR
from ascend_session.text import did_you_mean, format_count, join_words, shorten

if TYPE_CHECKING:
    from ascend_session.failures.explanation import Explanation, LocatedFailure, Log
    from ascend_session.failures.failure import Failure

_FACTS = Path(__file__).resolve().parents[1] / "guides" / "facts" / "failures.md"
_CODE = re.compile(r"[A-Za-z]{0,2}[0-9]{4,6}|0x[0-9A-Fa-f]{1,8}")
_MOST_OTHERS, _MOST_PEERS = 8, 5  # that are shown; JSON has all
_LONGEST_REASON = 1000
_STDIN = "-"
_MOST_STDIN_BYTES = 64 << 20
_WHOLE_CODE = re.compile(r"E[A-Z][0-9]{4}")

_KINDS = {
    "transient": "passes by itself: start again, in a new process",
    "secondary": "follows from the failure of another rank: look there first",
    "permanent": "fails in the same way until something is changed",
    "hardware": "an administrator has to look at the device",
    "ambiguous": "may pass: try once more, after a look at who holds the device",
}
_UNLISTED = "unknown; the table does not have this code, and the vendor's own words stand here"
_VAGUE = "says that something failed, not what: the lines around it count"


@command("explain")
@argument("what", "CODE|FILE|FOLDER...")
@JSON
def explain(what: Tuple[str, ...], as_json: bool) -> None:
    """Explain an error code, a log, or the logs of an old job.

    CODE is an error code of the vendor, such as EI0006 or 507033, or a line with one. FILE is any
    log, and - the standard input. FOLDER has the logs of one job: that of a job of `launch`, of
    which the last attempt counts, or any other. Several logs are of one job: the cause among them
    is found, and whom they name as the other end.

    Exit code: 0 if something is known, otherwise 1.

    Examples:
        ascend-session explain EI0006
        ascend-session explain ascend-logs
    """
    from ascend_session.failures.explanation import Log, explain_logs
    from ascend_session.failures.scanner import look_up

    if any(word == _STDIN or os.path.exists(word) for word in what):
        logs = _read_all(what)
        _show_logs(explain_logs(logs), logs, as_json)
        return
    paths = [word for word in what if os.sep in word or re.search(r"\.(log|txt|out|err)$", word)]
    if paths:
        fail(
            f"There is no file or folder {paths[0]!r}.",
            "Relative paths start in the working directory.",
        )
    failures = [failure for failure in map(look_up, what) if failure is not None]
    if len(failures) == len(what):
        _show_codes(failures, as_json)
        return
    if failures and all(_CODE.fullmatch(word) for word in what):
        unknown = [word for word in what if look_up(word) is None]
        complain(f"Nothing is known of {join_words(unknown)}.", _hint_for(unknown[0]), ERROR)
        _show_codes(failures, as_json)
        raise Exit(1)
    text = " ".join(what)
    explanation = explain_logs([Log("", text, time.time())])
    if explanation.cause is not None:
        _show_logs(explanation, [], as_json)
        return
    if as_json:
        show_json(_explanation_as_dict(explanation, []))
    fail(f"Nothing is known of {shorten(text)!r}.", _hint_for(text))


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


def _read_all(what: Sequence[str]) -> "List[Log]":
    """Read the logs that were named and those in folders; ends the program if one is missing."""
    from ascend_session.failures.explanation import Log, find_logs, read_logs

    paths: List[str] = []
    logs: List[Log] = []
    for word in what:
        if word == _STDIN:
            content = sys.stdin.buffer.read(_MOST_STDIN_BYTES)
            logs.append(Log(_STDIN, content.decode("utf-8", "backslashreplace"), time.time()))
        elif os.path.isdir(word):
            paths += find_logs(word)
        elif not os.path.exists(word):
            fail(f"There is no file or folder {word!r}.")
        elif os.path.isfile(word) and os.access(word, os.R_OK):
            paths.append(word)
        else:
            fail(
                f"{word!r} cannot be read: it is no regular file, or not yours.",
                "`ascend-session explain -` reads what a program writes to it.",
            )
    logs += read_logs(paths)
    if not logs:
        fail(
            f"There is no log in {join_words(what)}.",
            "Files named *.log, *.txt, *.out, *.err, or without a suffix, and error.json are read.",
        )
    return logs


# Codes


def _show_codes(failures: "Sequence[Failure]", as_json: bool) -> None:
    if as_json:
        cause, *others = map(_failure_as_dict, failures)
        show_json({"cause": cause, "others": others, "peers": [], "logs": []})
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
    word = failure.failure_class.value
    kind = f"{word}; {_VAGUE if failure.definition.is_vague else _KINDS[word]}"
    yield "Kind", kind if failure.definition.is_listed else _UNLISTED
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
    from ascend_session.failures.graph_error import reason_of

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
    peers = [
        f"{peer} (named {count} times)" if count > 1 else str(peer)
        for peer, count in explanation.peers[:_MOST_PEERS]
    ]
    left = len(explanation.peers) - len(peers)
    yield from label_first("Peer", [*peers, *([f"and {left} more"] if left > 0 else [])])
    if cause.failure is not None:
        yield from _list_facts(cause.failure)
    else:
        yield "Kind", "the program's own exception, which no known failure explains"
    others: Dict[str, List[str]] = {}
    for finding in explanation.others:
        others.setdefault(_name_finding(finding), []).append(_describe_place(finding))
    texts = [
        name
        + (f" ({places[0]}{f' and {len(places) - 1} more' if places[1:] else ''})" if logs else "")
        for name, places in others.items()
    ]
    left = len(texts) - _MOST_OTHERS
    more = [f"and {left} more" if left > 0 else ""]
    yield from label_first("Also", [text for text in [*texts[:_MOST_OTHERS], *more] if text])
    if len(logs) > 1:
        yield "Logs", f"{len(logs)}, which --json lists"
    cut = [log.path for log in logs if not log.is_whole]
    if cut:
        yield "Cut", f"only the end was read of {join_words(cut[:_MOST_PEERS])}"


def _describe_place(finding: "LocatedFailure") -> str:
    number = finding.line_number
    return f"{finding.log.path}{'' if number is None else f':{number}'}"


def _explanation_as_dict(explanation: "Explanation", logs: "Sequence[Log]") -> Dict[str, Any]:
    cause = explanation.cause
    return {
        "cause": None if cause is None else _finding_as_dict(cause),
        "others": list(map(_finding_as_dict, explanation.others)),
        "peers": [{**peer._asdict(), "times": count} for peer, count in explanation.peers],
        "logs": [log.path for log in logs],
    }


def _finding_as_dict(finding: "LocatedFailure") -> Dict[str, Any]:
    place = {"file": finding.log.path or None, "line": finding.line_number}
    if finding.failure is not None:
        return {**_failure_as_dict(finding.failure), **place, "text": finding.failure.line}
    return {"code": None, "meaning": _name_finding(finding), **place}
