"""The files in which the ranks of a job record their training runs, one for each rank.

Ranks that wrote into one file would have to share it over the network between nodes, and the end of
one could tear a line of another. Rank 0 has the file that was given, so that a job of one rank has
that alone.
"""

import contextlib
import fcntl
import os
from typing import Iterable, Mapping

from ascend_session.cluster.schedulers import read_identity
from ascend_session.errors import AscendError, ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.spelling import option


def name_record(path: str, rank: int) -> str:
    """Name the file of a rank: ``run.jsonl`` for rank 0, ``run.rank3.jsonl`` for rank 3."""
    stem, suffix = os.path.splitext(path)
    return path if rank == 0 else f"{stem}.rank{rank}{suffix}"


def read_rank(environ: Mapping[str, str]) -> int:
    """Return the rank of a process with this environment; 0 if nothing says it."""
    try:
        rank = read_identity(environ).rank
    except AscendError:  # a system that opens says what is wrong
        return 0
    return 0 if rank is None else rank.value


def clear_records(path: str, ranks: Iterable[int]) -> None:
    """Make the files of these ranks empty, before anything is started.

    Raises:
        ConfigError: If one cannot be written.
    """
    for path in [name_record(path, rank) for rank in ranks]:
        try:
            if os.path.exists(path) and not os.path.isfile(path):
                raise OSError(0, "it is not a regular file")
            with open(path, "ab") as file:
                with contextlib.suppress(OSError):  # a file system without locks
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        raise ValueError("another training is being recorded there") from None
                file.truncate(0)
        except (OSError, ValueError) as failure:
            why = getattr(failure, "strerror", None) or str(failure)
            message = f"{option('record', path)} cannot be written: {why}."
            hint = "Give a file in a folder that this user may write to."
            raise ConfigError.from_problems(
                [Finding(ERROR, message, hint, option="record")]
            ) from None
