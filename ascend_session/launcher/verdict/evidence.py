"""What a rank has left: its record, the ends of its logs, the vendor's log files, its stacks."""

import errno
import os
import resource
import signal
import tempfile
from typing import Iterable, Iterator, List, Optional

from ascend_session.failures.failure import Failure
from ascend_session.failures.record import read_stacks
from ascend_session.failures.scanner import classify, root_cause
from ascend_session.files import read_end
from ascend_session.launcher.plan.local_ranks import LOG_PATH
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.rank_folder import STACKS_NAME
from ascend_session.text import clean, is_blank, shorten

# The signals of which `faulthandler` leaves the stacks.
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_TAIL_BYTES = 256 * 1024  # of each file that are looked at
_ALL_BYTES = 16 * 1024 * 1024  # of all files of a job: about two seconds
_LEAST_BYTES = 8 * 1024
_LAST_LINES, _WIDTH = 20, 400
_LAST_LINES_BYTES = 64 * 1024  # in which they are looked for
_PLOGS = 16  # files of one process; beyond these the newest count
_PROBE_BYTES = 64 * 1024  # that are written to see whether a disk is full


def read_texts(rank: LaunchRank, rank_count: int) -> Iterator[str]:
    """Read what a rank has recorded, and the end of each of its logs, as much as a job allows."""
    yield from read_record_text(rank)
    limit = max(_LEAST_BYTES, min(_TAIL_BYTES, _ALL_BYTES // (3 * rank_count)))
    yield _read_tail(rank.stderr, limit)
    yield _read_tail(rank.stdout, limit)
    paths = find_plogs(rank)
    for path in paths:
        yield _read_tail(path, limit // len(paths))


def read_record_text(rank: LaunchRank) -> List[str]:
    """Return the text and the traceback of the exception that a rank has recorded, if any."""
    return [] if rank.error is None else [f"{rank.error.message}\n{rank.error.traceback}"]


def _read_tail(path: str, limit: int) -> str:
    return read_end(path, limit).decode("utf-8", "backslashreplace")


def find_failure(texts: Iterable[str]) -> Optional[Failure]:
    """Find the failure to act upon; texts that could only say it less exactly are not read."""
    failures: List[Failure] = []
    for text in texts:
        failures += classify(text)
        failure = root_cause(failures)
        if failure is not None and failure.is_exact:
            return failure
    return root_cause(failures)


def read_last_lines(*paths: str) -> List[str]:
    """Read the last lines of the first of some files that has any, fit to be shown.

    Lines that are blank at its end do not count. What is no file, such as a terminal, has none.
    """
    for path in paths:
        data = read_end(path, _LAST_LINES_BYTES).rstrip() if os.path.isfile(path) else b""
        lines = clean(data + b"\n", colour=False).split(b"\n") if data else []
        while lines and is_blank(lines[-1]):
            lines.pop()
        if lines:
            texts = (line.decode("utf-8", "backslashreplace") for line in lines[-_LAST_LINES:])
            return [shorten(text, _WIDTH) for text in texts]
    return []


def find_plogs(rank: LaunchRank) -> List[str]:
    """Find the vendor's log files of a rank's process, sorted by name.

    If there are none of that process in the rank's own folder, but there are others, it was one
    that the process started: then these. Source: guides/facts/devices.md#logs
    """
    folder = rank.environment.get(LOG_PATH) or rank.plog
    paths = [
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.startswith("plog-") and name.endswith(".log")
    ]
    own = [path for path in paths if os.path.basename(path).startswith(f"plog-{rank.pid}_")]
    if not own and folder == rank.plog:
        own = paths
    return sorted(sorted(own, key=_changed_at)[-_PLOGS:])


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def had_witness(rank: LaunchRank) -> bool:
    """Return whether a rank was a Python with the witness, which makes the file of stacks first."""
    return os.path.exists(os.path.join(rank.folder, STACKS_NAME))


def has_crashed(rank: LaunchRank) -> bool:
    """Return whether compiled code has crashed in a rank."""
    return rank.error is None and -(rank.status or 0) in _CRASHES


def find_stacks(rank: LaunchRank) -> str:
    """Return the path of the stacks that a rank left; empty if it left none."""
    path = os.path.join(rank.folder, STACKS_NAME)
    return path if read_end(path, 1) else ""


def read_crash(rank: LaunchRank, name: str = STACKS_NAME) -> str:
    """Read the stacks of the last crash from a file in a rank's folder; empty if it left none."""
    _, begin, rest = read_stacks(rank.folder, name).rpartition("Fatal Python error")
    return begin + rest if begin else ""


def find_lack_of_room(rank: LaunchRank) -> str:
    """Find out why a rank can write no more into its log files; empty if it can."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]  # the ranks have the launcher's
    try:
        sizes = [os.path.getsize(path) for path in (rank.stdout, rank.stderr)]
        if limit != resource.RLIM_INFINITY and max(sizes) >= limit:
            return os.strerror(errno.EFBIG)
        with tempfile.TemporaryFile(dir=rank.folder, buffering=0) as file:
            file.write(bytes(_PROBE_BYTES))
            os.fsync(file.fileno())  # a file server may say it only now
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            return failure.strerror or str(failure)
    return ""
