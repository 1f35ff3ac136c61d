"""Explain a failure from the logs of a job: its cause, and the peers that the logs name.

This is for logs without the verdict of a launcher, which saw the ranks end. A rank's record of its
own exception counts as in a launch; among equally good explanations the earliest failure wins.
"""

import itertools
import os
import re
import time
from dataclasses import dataclass, replace
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from ascend_session.failures.failure import Failure
from ascend_session.failures.peers import Peer, find_peers
from ascend_session.failures.reason import TRACEBACK, reason_of
from ascend_session.failures.record import ErrorRecord, read_record
from ascend_session.failures.scanner import classify
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.files import read_end
from ascend_session.rank_folder import RECORD_NAME, STACKS_NAME

_MOST_BYTES = 16 << 20  # read from the end of one log, which takes about three seconds
_ALL_BYTES = 64 << 20  # read from all logs together
_LEAST_BYTES = 64 << 10  # read from each log, however many there are
_MOST_FILES = 10_000
_SUFFIXES = ("", ".log", ".txt", ".out", ".err")
_RANK = re.compile(r"rank_[0-9]{1,7}")
# The vendor's times have milliseconds and microseconds: 2026-01-02-10:00:00.000.100.
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[-T ]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,]([0-9]+)(?:\.([0-9]{3}))?)?"
)
_OF_ONE_RANK = re.compile(rf"{JOB_CANNOT_GO_ON}rank [0-9]+ (?:failed:|has exited)")
_TIME_BEFORE = 4096  # characters before a failure in which its time is looked for
_MESSAGE_CHARS = 16_384  # of an exception's text below its first line
# The line that ends a Python traceback; notes and the cause's traceback may follow.
_RAISED = re.compile(
    r"^(\[[^\]]{1,40}\]:? )?([A-Za-z_][\w.]{0,100}(?:Error|Exception|Interrupt))(?:: (.*))?$", re.M
)


class Log(NamedTuple):
    """A log that was read.

    Attributes:
        path: Its file; ``-`` is the standard input.
        text: Its content, or the end of a very large file; message and traceback of a record.
        time: When it was last written, in seconds since 1970.
        record: The parsed exception, if the file is a rank's record; else None.
        is_whole: Whether ``text`` begins where the file does.
    """

    path: str
    text: str
    time: float
    record: Optional[ErrorRecord] = None
    is_whole: bool = True


class LocatedFailure(NamedTuple):
    """A known failure, or an exception of the program itself, in a log.

    Attributes:
        log: The log.
        failure: The known failure; None for the exception in ``log.record``.
        time: When it happened, in seconds since 1970: the time in the log before it, or that of
            the file.
    """

    log: Log
    failure: Optional[Failure]
    time: float

    @property
    def line_number(self) -> Optional[int]:
        """The number of its line, from 1; None if unknown."""
        if self.failure is None or self.log.record is not None or not self.log.is_whole:
            return None
        start = self.log.text.find(self.failure.line)
        return None if start < 0 else self.log.text.count("\n", 0, start) + 1


@dataclass(frozen=True)
class Explanation:
    """The explanation of a failure from logs.

    Attributes:
        cause: The failure that explains the others best; None if none is known.
        others: The other failures, the earliest first.
        peers: The peers that the logs name, each with the number of ranks that name it, the most
            frequent first. Empty if the cause does not involve other ranks.
        raised: Type and reason of the last exception, if there is no known failure; else empty.
    """

    cause: Optional[LocatedFailure]
    others: Tuple[LocatedFailure, ...] = ()
    peers: Tuple[Tuple[Peer, int], ...] = ()
    raised: str = ""


def explain_logs(logs: Iterable[Log]) -> Explanation:
    """Find the cause of a failure in the logs of one job."""
    read = list(logs)
    findings = find_failures(read)
    if not findings:
        raised = [(log, match) for log in read for match in _RAISED.finditer(log.text)]
        return Explanation(None, raised=_describe_raised(*raised[-1]) if raised else "")
    cause = min(findings, key=_order)
    others = tuple(finding for finding in findings if finding is not cause)
    return Explanation(_blame_job(cause), others, count_peers(read, cause.failure))


def find_failures(logs: List[Log]) -> List[LocatedFailure]:
    """Find the known failures in logs, and exceptions that none explains, the earliest first."""
    return sorted(_find_all(logs), key=lambda finding: finding.time)


def _blame_job(cause: LocatedFailure) -> LocatedFailure:
    """Let a sentence about all ranks be the job's own failure, as in the launcher's summary."""
    failure = cause.failure
    if failure is None or not failure.line.startswith(JOB_CANNOT_GO_ON):
        return cause
    if _OF_ONE_RANK.match(failure.line):
        return cause
    definition = replace(failure.definition, is_secondary=False)
    return cause._replace(failure=replace(failure, definition=definition))


def _describe_raised(log: Log, match: "re.Match[str]") -> str:
    """Give type and reason of an exception, which may stand in the lines below the first."""
    prefix, kind, first = match[1] or "", match[2], match[3] or ""
    end = match.end() + _MESSAGE_CHARS
    below = log.text[match.end() : end].split("\n")[1:]
    lines = itertools.takewhile(lambda line: line.startswith(prefix), below)
    text = "\n".join([first, *(line[len(prefix) :] for line in lines)]).partition(TRACEBACK)[0]
    return f"{kind}: {reason_of(text) if match[3] is not None else ''}".rstrip(": ")


def _find_all(logs: List[Log]) -> Iterator[LocatedFailure]:
    """Find the known failures of each log, and the exceptions that none of them explains."""
    explained = set()
    for log in logs:
        for failure in classify(log.text):
            explained.add(os.path.dirname(log.path))
            yield LocatedFailure(log, failure, _find_time(log, failure.line))
    for log in logs:
        record = log.record
        if record is None or record.failed_rank is not None or record.exit_code > 128:
            continue  # ended by another rank's failure, or by a signal
        if record.speaks_for_itself or os.path.dirname(log.path) not in explained:
            yield LocatedFailure(log, None, record.time)


def _order(finding: LocatedFailure) -> Tuple[int, bool]:
    if finding.failure is None:
        record = finding.log.record
        # A RuntimeError may merely report a failure of the device; a KeyError does not.
        return 0, record is not None and not record.speaks_for_itself
    return finding.failure.precedence, finding.failure.definition.is_vague


def _find_time(log: Log, line: str) -> float:
    """Return the last time in the log up to a line, in seconds since 1970; else the file's."""
    start, otherwise = max(0, log.text.find(line)), log.time
    near = _TIME.finditer(log.text, max(0, start - _TIME_BEFORE), start + len(line))
    times = list(near)
    if not times:
        return otherwise
    match = times[-1]
    try:
        seconds = time.mktime(time.strptime(f"{match[1]} {match[2]}", "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return otherwise
    return seconds + float(f"0.{match[3] or 0}{match[4] or ''}")


def count_peers(logs: List[Log], failure: Optional[Failure]) -> Tuple[Tuple[Peer, int], ...]:
    """Count the ranks that name each peer; empty if the failure does not involve other ranks."""
    if failure is None or not (failure.definition.is_secondary or failure.code.startswith("EI")):
        return ()
    places: Dict[Peer, Set[str]] = {}
    for log in logs:
        folder = os.path.dirname(log.path)  # a rank's folder has its record and its output
        place = folder if _RANK.fullmatch(os.path.basename(folder)) else log.path
        for peer in find_peers(log.text):
            places.setdefault(peer, set()).add(place)
    counts = [(peer, len(named)) for peer, named in places.items()]
    return tuple(sorted(counts, key=lambda count: -count[1]))


# Reading


def find_logs(folder: str) -> List[str]:
    """List the logs below a folder, and the records of ranks."""
    paths = [
        os.path.join(place, name)
        for place, _, names in sorted(os.walk(folder))
        for name in sorted(names)
        if name == RECORD_NAME or (_is_log(name) and os.path.isfile(os.path.join(place, name)))
    ]
    return paths[:_MOST_FILES]


def _is_log(name: str) -> bool:
    unrotated = re.sub(r"\.[0-9]{1,6}$", "", name)
    return os.path.splitext(unrotated)[1].lower() in _SUFFIXES and name != STACKS_NAME


def read_logs(paths: List[str]) -> List[Log]:
    """Read logs; if they are many or very large, only the end of each."""
    share = max(_LEAST_BYTES, min(_MOST_BYTES, _ALL_BYTES // max(len(paths), 1)))
    return [log for path in paths for log in [_read_log(path, share)] if log is not None]


def _read_log(path: str, share: int) -> Optional[Log]:
    """Read a log; None for a binary file, or a record that this package did not write."""
    if os.path.basename(path) == RECORD_NAME:
        record = read_record(os.path.dirname(path) or ".")
        if record is None:
            return None
        return Log(path, f"{record.message}\n{record.traceback}", record.time, record)
    try:
        facts = os.stat(path)
    except OSError:  # removed meanwhile
        return None
    content = read_end(path, share)
    if b"\0" in content[:4096]:
        return None
    text = content.decode("utf-8", "backslashreplace")
    return Log(path, text, facts.st_mtime, is_whole=facts.st_size <= share)
