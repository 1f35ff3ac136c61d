"""What happened to a rank or to the launcher, in a sentence; and where, in lines for a person."""

import contextlib
import errno
import os
import re
import signal
from itertools import groupby
from typing import List, NamedTuple, Optional, Sequence

from ascend_session.cluster.member import JoinedProcess
from ascend_session.failures.failure import Failure
from ascend_session.failures.graph_error import parse_graph_error, reason_of
from ascend_session.failures.peers import find_peers
from ascend_session.failures.record import ErrorRecord, Frame, parse_frames, read_stacks
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.files import read_end
from ascend_session.launcher.job.events import BackgroundEnded, NotStarted, Repeated, ScriptRank
from ascend_session.launcher.job.signals import find_signal_name, signal_name
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.rank_folder import STACKS_NAME
from ascend_session.text import (
    blank_unprintable,
    clean,
    format_ranges,
    format_rank_ids,
    join_words,
    shorten,
)
from ascend_session.user_code import is_user_file

CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""The signals of which `faulthandler` leaves the stacks."""

_CALLERS, _LIBRARY_FRAMES, _MESSAGE_LINES, _WIDTH = 6, 4, 5, 400
_REASON_WIDTH = 1000  # characters of a reason; the sentence about a deadlock has one part a rank
_LIBRARY = re.compile(r"\S*/(?:site-packages|dist-packages|lib(?:64)?/python3\.\d+)/")
_END_OF_MESSAGE = "Traceback (most recent call last)"
_MOST_SOURCE_BYTES = 1 << 22
_MOST_PEERS_NAMED = 8


def describe_not_started(rank: LaunchRank, event: NotStarted) -> str:
    """Say why the program of a rank could not be started."""
    what, text = "", event.text
    if event.tried == "started" and rank.command:  # a rank of a saved result has none
        what = f"{rank.command[0]}: "
        why = _explain_program(rank.command[0], event.number)
        text += f" ({why})" if why else ""
    return f"Rank {rank.rank} could not be {event.tried}: {what}{text}."


def _explain_program(path: str, number: int) -> str:
    """Say what about a program's file keeps the kernel from starting it; empty if nothing."""
    begin = _read_begin(path)
    if number == errno.ENOENT and begin.startswith(b"#!") and begin.rstrip(b"\n").endswith(b"\r"):
        return "its lines end as on Windows, so the interpreter's name ends with a carriage return"
    if number == errno.ENOENT and begin:
        return "the file is there; the interpreter that its first line names is not"
    if number == errno.ENOEXEC and not begin:
        return "the file is empty"
    if number == errno.ENOEXEC and lacks_interpreter(path):
        return "it is a script, but no first line such as '#!/bin/bash' says what runs it"
    if number == errno.ENOEXEC:
        return "it is no program for this machine, or damaged"
    return ""


def lacks_interpreter(path: str) -> bool:
    """Tell whether a file is text that does not name its interpreter in the first line."""
    begin = _read_begin(path)
    is_text = bool(begin) and b"\0" not in begin and not begin.startswith(b"\x7fELF")
    return is_text and not begin.startswith(b"#!")


def _read_begin(path: str) -> bytes:
    """Read the first line of a file, as far as the kernel looks; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.readline(256)
    return b""


def describe_end(rank: LaunchRank) -> str:
    """Say how a failed rank ended; its exception counts, if there was one."""
    status, error = rank.status, rank.error
    if rank.outcome == Outcome.NOT_STARTED:
        return rank.trouble
    if error is not None and error.is_termination:
        return f"Rank {rank.rank} was killed by SIGTERM."
    if error is not None and error.type != "SystemExit":
        message = _end_sentence(_reason_of(error))
        operator = _describe_operator(error, rank.cwd)
        more = f" {operator[0].upper()}{operator[1:]}." if operator else ""
        return f"Rank {rank.rank} raised {error.name}{f': {message}' if message else '.'}{more}"
    if status is not None and status < 0 and error is None:
        return f"Rank {rank.rank} was killed by {_describe_signal(-status)}."
    code = rank.exit_code if error is None else error.exit_code
    sentence = f"Rank {rank.rank} exited with code {code}"
    text = "" if error is None else error.message
    is_code = text.lstrip("-").isdigit() or text in ("True", "False")
    if error is not None and text and not is_code:
        return f"{sentence}: {_end_sentence(_reason_of(error))}"
    inner = find_signal_name(code - 128) if code > 128 else None
    return f"{sentence}, the code a shell gives for {inner}." if inner else f"{sentence}."


def describe_background(event: BackgroundEnded) -> str:
    """Say how a training ended that a rank had left running in the background."""
    what = f"Process {event.pid} ({event.command}), which rank {event.rank} left in the background,"
    end = f"exited with code {event.status}"
    if event.status < 0:
        end = f"was killed by {_describe_signal(-event.status)}"
    output = _name_output(event.output)
    return f"{what} {end}.{output}"


def describe_failure(failure: Optional[Failure], before: str = "") -> str:
    """Add what a rank reported, in a sentence that begins with a space; empty if nothing.

    Args:
        failure: What is known of the failure, if anything.
        before: What is said of it already.
    """
    if failure is None:
        return ""
    if not failure.definition.is_listed and failure.meaning in before:
        return ""
    if failure.meaning:
        # A rank of a group may have another number in the job.
        peers = [each for each in find_peers(failure.line) if each.rank is not None]
        named = [str(peer) for peer in peers if not peer.in_group][:_MOST_PEERS_NAMED]
        waited = f"; it waited for {join_words(named)}" if named else ""
        return f" It reported {failure.code}: {failure.meaning}{waited}."
    if JOB_CANNOT_GO_ON in failure.line:
        return "" if JOB_CANNOT_GO_ON in before else f" It reported: {_end_sentence(failure.line)}"
    is_said = failure.code in before or failure.line.strip() in before
    return "" if is_said else f" It reported '{failure.code}'."


def describe_stopped(rank: LaunchRank, failure: Failure, first: LaunchRank) -> str:
    """Report a rank with a failure of its own that was stopped because of another one's."""
    meaning = f" ({failure.meaning})" if failure.meaning else ""
    return (
        f"Rank {rank.rank} reported {failure.code}{meaning} and was stopped when rank "
        f"{first.rank} failed, whose failure says less."
    )


def describe_elsewhere(rank: LaunchRank, why: str) -> str:
    """Report that a rank of another node, which is named, is the cause."""
    first = why.split(". ")[0].rstrip(".")
    first = first[0].lower() + first[1:] if first.startswith("Rank") else first
    return f"The cause is on another node: {first}. Rank {rank.rank} failed because of that."


def describe_left(ranks: Sequence[int]) -> str:
    """Add the ranks that had ended in order before others failed; empty if there are none."""
    if not ranks:
        return ""
    noun = "Rank" if len(ranks) == 1 else "Ranks"
    return f" {noun} {format_ranges(ranks)} had exited with code 0 before that."


def describe_interrupt(number: int) -> str:
    """Report that the launcher got a signal."""
    key = " (Ctrl-C)" if number == signal.SIGINT else ""
    return f"The launcher was stopped by {signal_name(number)}{key}."


def describe_killed(rank: LaunchRank, grace_s: float) -> str:
    """Report a rank that did not exit after a signal had stopped the job."""
    return f"Rank {rank.rank} had not exited after {grace_s:g} s and was killed."


def describe_guardian(died: bool) -> str:
    """Report that the guardian was killed, or got a signal to stop."""
    if died:
        return (
            "The launcher's guardian, the parent of the ranks, was killed, and the ranks with it."
        )
    return "The launcher's guardian, the parent of the ranks, got a signal to stop."


def describe_lost(
    rank: LaunchRank,
    first: JoinedProcess,
    ended: Sequence[JoinedProcess],
    count: int,
    output: Sequence[str],
    stacks: str,
) -> str:
    """Report the ranks below a rank that failed, of so many; or before they had joined the job.

    Args:
        rank: The rank.
        first: The one below it that explains the others.
        ended: All that failed.
        count: The number of all that were started.
        output: The last lines that the first one wrote, if they are known to be its own.
        stacks: Those with which it crashed; may be empty.
    """
    hides = ", which its exit code 0 hides" if rank.status == 0 else ""
    others = sorted({process.rank for process in ended} - {first.rank, -1})
    kind, _, text = first.error.partition(": ")
    if kind == "Terminated":
        how = "was killed by SIGTERM"
    elif kind == "SystemExit":
        how = f"exited with code {text}" if text.lstrip("-").isdigit() else f"ended: {text}"
        how += describe_last_line(output) if text.lstrip("-").isdigit() else ""
    elif first.error:
        how = f"raised {first.error}"
    else:
        how = "exited without an exception, as after a signal" + _describe_crash_in_short(stacks)
    how = how if how.endswith((".", "!", "?")) else f"{how}."
    noun = "other was rank" if len(others) == 1 else "others were ranks"
    more = f" The {noun} {format_ranges(others)}." if others else ""
    have_joined = all(process.joined for process in ended)
    which = "processes that joined the job" if have_joined else "ranks that were started"
    file = _name_output(first.output)
    return (
        f"{len(ended)} of the {count} {which} below rank {rank.rank} ended with an exception or a "
        f"signal{hides}: rank {first.rank_id} {how}{more}{file}"
    )


def _name_output(path: str) -> str:
    """Add the file with the output of a process, in a sentence that begins with a space."""
    return f" Its output is in {path}." if os.path.isfile(path) else ""


def describe_last_line(output: Sequence[str]) -> str:
    """Add to how a rank ended what it wrote last, such as the text that it gave `sys.exit`."""
    return f". It wrote last: {_end_sentence(output[-1])}" if output else ""


def _describe_crash_in_short(stacks: str) -> str:
    """Add to how a rank ended that `faulthandler` saw a crash, and in which line."""
    if not stacks:
        return ""
    reason = stacks.partition("\n")[0].partition(": ")[2]
    thread = next((each for each in reversed(_parse_threads(stacks)) if each.is_users), None)
    own = [frame for frame in thread.frames if is_user_file(frame.path)] if thread else []
    return f". It crashed ({reason}){f' at {_describe_frame(own[-1])}' if own else ''}"


def describe_unstarted(rank: LaunchRank, absent: Sequence[int], size: str) -> str:
    """Report ranks that a script, which has started others of their job, has not started."""
    are = "rank {} was" if len(absent) == 1 else "ranks {} were"
    return (
        f"Rank {rank.rank} is a script for {size} ranks that exited with code 0, but "
        f"{are.format(format_ranges(absent))} not started, or exited at once: no program reported "
        "to be one of them."
    )


def describe_unrecorded(rank_ids: Sequence[str]) -> str:
    """Report ranks that have left no record of how they ended."""
    who = format_rank_ids(rank_ids)
    noun, have, they = ("Rank", "has", "it") if len(rank_ids) == 1 else ("Ranks", "have", "they")
    return (
        f"{noun} {who} {have} left no record of how {they} ended, as below python -I, env -i or "
        f"sudo, or with another PYTHONPATH: that {they} succeeded is known from exit codes alone."
    )


def describe_missing(rank: LaunchRank, seen: Sequence[ScriptRank], output: List[str]) -> str:
    """Report ranks that a script has started and that never joined a job; output is the last's."""
    last = seen[-1]
    command, size = shorten(blank_unprintable(last.command), _WIDTH), len(seen)
    which = f"none of the {size} ranks it started joined a job or"
    if size == 1:
        which = "the only rank it started neither joined a job nor"
    end = describe_last_line(output) or "."
    file = _name_output(last.output)
    return (
        f"Rank {rank.rank} is a script that exited with code 0, but {which} reported "
        f"how it ended. Rank {last.rank_id} ran: {command}{end}{file}"
    )


def describe_repeated(repeated: Repeated, size: int) -> str:
    """Report a launch of so many ranks of which each starts the ranks itself."""
    ranks = format_ranges(map(int, repeated.rank_ids))
    return (
        f"Each of the {size} ranks of this launch runs a script that starts the ranks itself: "
        f"ranks {ranks} were running below rank {repeated.rank}."
    )


def describe_announced(rank: LaunchRank, size: int) -> str:
    """Report a script for so many ranks that has started none that anybody saw."""
    return (
        f"Rank {rank.rank} is a script for {size} ranks that exited with code 0, but no process "
        "became one of them: nothing was trained."
    )


def _end_sentence(text: str) -> str:
    """End a text with a full stop, on one line that can be shown; leave an empty one empty."""
    _, why, rest = text.partition(JOB_CANNOT_GO_ON)
    line = shorten(blank_unprintable((why + rest or text).strip()), _REASON_WIDTH)
    return line if not line or line.endswith((".", "!", "?")) else f"{line}."


def _reason_of(error: ErrorRecord) -> str:
    """Give the reason in an exception's text, without its type, which is said already.

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


def _describe_operator(error: ErrorRecord, folder: str) -> str:
    """Name the operator that failed, and the line that made it; empty if it is not known."""
    if JOB_CANNOT_GO_ON in error.message:
        return ""  # what happened is that another rank is missing
    graph_error = parse_graph_error(error.message)
    if graph_error is None or not graph_error.operator:
        return ""
    own = [frame for frame in graph_error.frames if _is_users(frame, folder)]
    where = f", which was made in {_describe_frame(own[-1])}" if own else ""
    return f"the operator is {graph_error.operator!r}{where}"


def _describe_signal(number: int) -> str:
    if number == signal.SIGKILL:
        return "SIGKILL, which is what the kernel's out-of-memory killer sends"
    name = find_signal_name(number)
    return f"signal {number} ({name})" if name else f"signal {number}"


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
    if error.is_termination:
        head = f"Rank {rank} got SIGTERM in"
    if error.is_termination or error.type == "SystemExit":  # whose text says less than the log
        own = [n for n, frame in enumerate(error.frames, 1) if _is_users(frame, folder)]
        return _describe_frames(head, error.frames[: own[-1]], folder) if own else []
    if not error.frames:
        return []
    return [*_describe_frames(head, error.frames, folder), *_message_lines(error, folder)]


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


def read_crash(rank_folder: str, name: str = STACKS_NAME) -> str:
    """Read the stacks of the last crash from a file in a rank's folder; empty if it left none."""
    _, begin, rest = read_stacks(rank_folder, name).rpartition("Fatal Python error")
    return begin + rest if begin else ""


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
    first = _reason_of(error)
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
    return [shorten(head, _REASON_WIDTH), *(shorten(line, _WIDTH) for line in tail)]


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
    operator = _describe_operator(error, folder)
    own = [frame for frame in frames if _is_users(frame, folder)]
    if not operator or not own:
        return [operator] if operator else []
    source = _read_source(os.path.join(folder, own[-1].path), own[-1].line)
    return [f"{operator}:", f"    {source}"] if source else [operator]
