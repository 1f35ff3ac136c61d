"""Where a rank failed, in lines for a person: the user's own line first, then what is around it."""

import os
import re
import signal
from itertools import groupby
from typing import Iterable, List, NamedTuple, Sequence

from ascend_session.failures.record import (
    STACKS_NAME,
    ErrorRecord,
    Frame,
    parse_frames,
    read_stacks,
)
from ascend_session.files import read_end
from ascend_session.launcher import rank_main
from ascend_session.launcher.lines import clean
from ascend_session.text import shorten
from ascend_session.user_code import is_user_file

CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""The signals of which `faulthandler` leaves the stacks."""

_CALLERS, _LIBRARY_FRAMES, _MESSAGE_LINES, _WIDTH = 6, 4, 5, 400
_LIBRARY = re.compile(r"\S*/(?:site-packages|dist-packages|lib(?:64)?/python3\.\d+)/")
# TensorFlow puts stacks into its messages.
_END_OF_MESSAGE = ("Original stack trace", "Traceback (most recent call last)", "Detected at node")
_MOST_SOURCE_BYTES = 1 << 22


def describe_exception(rank: int, error: ErrorRecord, folder: str) -> List[str]:
    """Describe where a rank's exception was raised, and give its text.

    Args:
        rank: The rank.
        error: Its record.
        folder: The folder that it was started in, for paths that are relative to it.

    Returns:
        Lines; none if the record has no frames.
    """
    head = f"Rank {rank} failed in"
    if error.type == "SystemExit":  # what the program says itself is more than its text
        own = [n for n, frame in enumerate(error.frames, 1) if _is_users(frame, folder)]
        return _describe_frames(head, error.frames[: own[-1]], folder) if own else []
    if not error.frames:
        return []
    return [*_describe_frames(head, error.frames, folder), *_message_lines(error)]


def describe_crash(rank: int, rank_folder: str, folder: str) -> List[str]:
    """Describe where a rank crashed: the thread that did, or what Python did meanwhile.

    Args:
        rank: The rank.
        rank_folder: The rank's folder, which has its stacks.
        folder: The folder that it was started in.

    Returns:
        Lines; none if it left no stacks of the user's files.
    """
    threads = _parse_threads(read_crash(rank_folder))
    crashed = next((thread for thread in threads if thread.has_crashed), None)
    if crashed is not None and crashed.is_users:
        return _describe_frames(f"Rank {rank} crashed in", crashed.frames, folder)
    main = next((thread for thread in reversed(threads) if thread.is_users), None)
    if main is None:
        return []
    head = f"Rank {rank} crashed in a thread that runs no Python of yours; meanwhile it was in"
    return _describe_frames(head, main.frames, folder)


def find_stacks(rank_folder: str) -> str:
    """Give the path of the stacks that a rank left; empty if it left none."""
    path = os.path.join(rank_folder, STACKS_NAME)
    return path if read_end(path, 1) else ""


def read_crash(rank_folder: str) -> str:
    """Read the stacks of a rank's last crash; empty if it left none."""
    _, begin, rest = read_stacks(rank_folder).rpartition("Fatal Python error")
    return begin + rest if begin else ""


def without_runner(lines: Iterable[str]) -> List[str]:
    """Leave out the lines of a stack that are the runner's frames, and not the user's."""
    own = (rank_main.RUNNER, rank_main.__file__, f'File "{rank_main.GLUE}", line 1')
    return [line for line in lines if not any(part in line for part in own)]


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
        frames = reversed(parse_frames(block))
        own = [frame for frame in frames if frame.path != rank_main.GLUE]
        threads.append(_Thread("Current thread" in block, own))
    return threads


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


def _message_lines(error: ErrorRecord) -> List[str]:
    lines = []
    for line in error.message.split("\n"):
        if line.startswith(_END_OF_MESSAGE):
            break
        lines += [_LIBRARY.sub("", line.strip())] if line.strip() else []
    first, *more = lines or [""]
    shown = [f"  {error.name}: {first}" if first else f"  {error.name}"]
    shown += [f"    {line}" for line in more[: _MESSAGE_LINES - 1]]
    shown += ["    ..."] if len(more) >= _MESSAGE_LINES else []
    written = clean("\n".join(shown).encode("utf-8", "backslashreplace"), colour=False).decode()
    return [shorten(line, _WIDTH) for line in written.split("\n")]
