"""Where in its program a rank failed, in lines for a person, the user's own line first."""

import os
import re
from itertools import groupby
from typing import List, NamedTuple, Sequence

from ascend_session.failures.reason import parse_graph_error, reason_of
from ascend_session.failures.record import ErrorRecord, Frame, parse_frames
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.files import read_end
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.verdict.evidence import has_crashed, read_crash
from ascend_session.text import clean, shorten
from ascend_session.user_code import is_user_file

REASON_WIDTH = 1000
"""Characters of a reason that are shown; the sentence about a deadlock has one part a rank."""

_CALLERS, _LIBRARY_FRAMES, _MESSAGE_LINES, _WIDTH = 6, 4, 5, 400
_LIBRARY = re.compile(r"\S*/(?:site-packages|dist-packages|lib(?:64)?/python3\.\d+)/")
_END_OF_MESSAGE = "Traceback (most recent call last)"
_MOST_SOURCE_BYTES = 1 << 22


def describe_place(rank: LaunchRank, alike: int = 0) -> List[str]:
    """Describe where a rank failed: where its exception was raised, with its text, or its crash.

    Args:
        rank: The rank.
        alike: The number of ranks that have all failed like this; 0 for this one alone.

    Returns:
        Lines; none if that is not known.
    """
    error, folder = rank.error, rank.cwd
    if error is None:
        return _describe_crash(rank) if has_crashed(rank) else []
    head = f"Rank {rank.rank} failed in"
    if error.is_termination:
        head = f"Rank {rank.rank} got SIGTERM in"
    elif alike:
        head = f"All {alike} ranks failed, rank {rank.rank} in"
    if error.is_termination or error.type == "SystemExit":  # whose text says less than the log
        own = [n for n, frame in enumerate(error.frames, 1) if _is_users(frame, folder)]
        return _describe_frames(head, error.frames[: own[-1]], folder) if own else []
    if not error.frames:
        return []
    return [*_describe_frames(head, error.frames, folder), *_message_lines(error, folder)]


def _describe_crash(rank: LaunchRank) -> List[str]:
    """Describe where a rank crashed: the thread that did, or what Python did meanwhile."""
    threads = _parse_threads(read_crash(rank))
    crashed = next((thread for thread in threads if thread.has_crashed), None)
    if crashed is not None and crashed.is_users:
        return _describe_frames(f"Rank {rank.rank} crashed in", crashed.frames, rank.cwd)
    main = next((thread for thread in reversed(threads) if thread.is_users), None)
    if main is None:
        return []
    head = f"Rank {rank.rank} crashed in a thread that runs no Python of yours; meanwhile it was in"
    return _describe_frames(head, main.frames, rank.cwd)


def describe_crash_in_short(stacks: str) -> str:
    """Add to how a rank ended that `faulthandler` saw a crash, and in which line."""
    if not stacks:
        return ""
    reason = stacks.partition("\n")[0].partition(": ")[2]
    thread = next((each for each in reversed(_parse_threads(stacks)) if each.is_users), None)
    own = [frame for frame in thread.frames if is_user_file(frame.path)] if thread else []
    return f". It crashed ({reason}){f' at {_describe_frame(own[-1])}' if own else ''}"


class _Thread(NamedTuple):
    has_crashed: bool
    frames: Sequence[Frame]  # the innermost one last

    @property
    def is_users(self) -> bool:
        return any(is_user_file(frame.path) for frame in self.frames)


def _parse_threads(stacks: str) -> List[_Thread]:
    """Parse the stacks of all threads, as `faulthandler` writes them."""
    threads = []
    for block in stacks.split("\n\n"):
        frames = parse_frames(block)[::-1]
        threads.append(_Thread("Current thread" in block, frames))
    return threads


def find_reason(error: ErrorRecord) -> str:
    """Return the reason in an exception's text, without its type, which is said already.

    That another rank is missing is the reason wherever it stands: TensorFlow puts where it was
    noticed before that.
    """
    _, why, rest = error.message.partition(JOB_CANNOT_GO_ON)
    if why:
        return why + rest.split("\n", 1)[0]
    reason = reason_of(error.message)
    kind, _, text = reason.partition(": ")
    is_said = kind.isidentifier() and kind[0].isupper() and error.name.endswith(kind)
    return text if is_said and text else reason


def describe_operator(error: ErrorRecord, folder: str) -> str:
    """Name the operator that failed, and the line that made it; empty if it is not known."""
    if JOB_CANNOT_GO_ON in error.message:
        return ""  # what happened is that another rank is missing
    graph_error = parse_graph_error(error.message)
    if graph_error is None or not graph_error.operator:
        return ""
    own = [frame for frame in graph_error.frames if _is_users(frame, folder)]
    where = f", which was made in {_describe_frame(own[-1])}" if own else ""
    return f"the operator is {graph_error.operator!r}{where}"


def _describe_frames(head: str, frames: Sequence[Frame], folder: str) -> List[str]:
    """Put the innermost frame in a file of the user's first, or else the innermost one."""
    own = [number for number, frame in enumerate(frames) if _is_users(frame, folder)]
    last = own[-1] if own else len(frames) - 1
    lines = [f"{head} {_describe_frame(frames[last])}:"]
    source = _read_source(os.path.join(folder, frames[last].path), frames[last].line)
    lines += [f"    {source}"] if source else []
    callers = [_describe_frame(frames[number]) for number in reversed(own[:-1])]
    if callers:
        lines += ["  called from", *_list_some(callers, _CALLERS)]
    inner = [_describe_frame(frame) for frame in frames[last + 1 :]]
    if inner:
        lines += ["  which calls", *_list_some(inner, _LIBRARY_FRAMES)]
    return lines


def _list_some(texts: Sequence[str], most: int) -> List[str]:
    """List texts, with a number in the middle for those that are too many."""
    merged = [(text, len(list(group))) for text, group in groupby(texts)]  # of a recursion
    lines = [text if count == 1 else f"{text}, {count} times" for text, count in merged]
    if len(lines) > most:
        half = most // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} more ...", *lines[-half:]]
    return [f"    {line}" for line in lines]


def _is_users(frame: Frame, folder: str) -> bool:
    is_real = not frame.path.startswith("<")
    return is_real and is_user_file(os.path.join(folder, frame.path))


def _describe_frame(frame: Frame) -> str:
    text = f"{_LIBRARY.sub('', frame.path)}:{frame.line} ({frame.function})"
    return clean(os.fsencode(text), colour=False).decode()


def _read_source(path: str, line: int) -> str:
    """Read a line of a file, without its indentation; empty if it cannot be read or counted."""
    data = read_end(path, _MOST_SOURCE_BYTES)
    lines = data.split(b"\n") if len(data) < _MOST_SOURCE_BYTES else []
    source = lines[line - 1] if 0 < line <= len(lines) else b""
    return clean(source, colour=False).decode().strip()[:_WIDTH]


def _message_lines(error: ErrorRecord, folder: str) -> List[str]:
    graph_error = parse_graph_error(error.message)
    first = find_reason(error)
    if graph_error is None:
        more = [line for line in _lines_before_stack(error.message) if line not in first]
    else:
        more = _operator_lines(error, graph_error.frames, folder)
    lines_shown = [f"  {error.name}: {first}" if first else f"  {error.name}"]
    lines_shown += [f"    {line}" for line in more[: _MESSAGE_LINES - 1]]
    lines_shown += ["    ..."] if len(more) >= _MESSAGE_LINES else []
    written = clean(
        "\n".join(lines_shown).encode("utf-8", "backslashreplace"), colour=False
    ).decode()
    head, *tail = written.split("\n")
    return [shorten(head, REASON_WIDTH), *(shorten(line, _WIDTH) for line in tail)]


def _lines_before_stack(message: str) -> List[str]:
    """Take the lines of a message before a stack."""
    lines = []
    for line in message.split("\n"):
        if line.startswith(_END_OF_MESSAGE):
            break
        lines += [_LIBRARY.sub("", line.strip())] if line.strip() else []
    return lines


def _operator_lines(error: ErrorRecord, frames: Sequence[Frame], folder: str) -> List[str]:
    """Name the operator that failed, and show the line that made it."""
    operator = describe_operator(error, folder)
    own = [frame for frame in frames if _is_users(frame, folder)]
    if not operator or not own:
        return [operator] if operator else []
    source = _read_source(os.path.join(folder, own[-1].path), own[-1].line)
    return [f"{operator}:", f"    {source}"] if source else [operator]
