"""Whose lines are still shown once a rank has failed, or the launcher was told to stop.

The screen belongs to the cause: what merely follows from it goes to the logs, which always have
everything. A rank records its failure before the others hear of it, and those that hear of it
record that before they write anything; so a look for records whenever lines come is in time. A
program may catch the failure and open another system, which removes the record. So until a rank
ends because of it, only the standard error of the others is hidden, and no longer than it is there.
"""

import signal
import threading
import time
from typing import Dict, Mapping, Optional, Set

from ascend_session.failures.record import ErrorRecord, read_record

TRACEBACK = b"Traceback (most recent call last)"
"""Begin of a traceback of Python's."""
_BEFORE_TRACEBACK = b"  + Exception Group "  # in the same line

_LOOK_S = 0.1  # between two looks because of lines on standard output


class FailureFilter:
    """Decides which lines of an attempt are shown.

    Lines are looked at by one thread; what happens is noted by another one.

    Args:
        folders: The folder of each rank, in which it leaves its record.

    Attributes:
        first_failed: The rank that failed first, as far as is known; None while none has.
    """

    def __init__(self, folders: Mapping[int, str]) -> None:
        self.first_failed: Optional[int] = None
        self._folders = folders
        self._records: Dict[int, ErrorRecord] = {}
        self._reported: Set[int] = set()
        self._with_traceback: Set[int] = set()  # ranks whose traceback has begun after a stop
        self._is_stopped = self._has_traceback = self._is_final = False
        self._next_look = 0.0
        self._lock = threading.Lock()

    def note_end(self, rank: int) -> None:
        """Note that a rank has ended in another way than with exit code 0."""
        with self._lock:
            self._look()
            self._is_final = True
            if self.first_failed is None:
                self.first_failed = rank

    def note_first_failed(self, rank: int) -> None:
        """Note which rank failed first, by more than the times of records."""
        with self._lock:
            self.first_failed, self._is_final = rank, True

    def note_stop(self) -> None:
        """Note that the launcher asks everyone to end, although no rank has failed."""
        with self._lock:
            self._is_stopped = self.first_failed is None

    def admits_all(self) -> bool:
        """Look for records; return whether whatever was written by now is shown."""
        with self._lock:
            self._look()
            return self.first_failed is None and not (self._records or self._is_stopped)

    def admit(self, rank: int, stream: str, chunk: bytes, hides_traceback: bool) -> bytes:
        """Give what is shown of what a rank has just written.

        Args:
            rank: The rank.
            stream: ``stdout`` or ``stderr``.
            chunk: What it has written.
            hides_traceback: Whether somebody else reports the exception that ends the program of
                the rank that failed first.
        """
        with self._lock:
            if stream == "stderr" or time.monotonic() >= self._next_look:
                self._look()
            record = self._records.get(rank)
            if self._is_stopped:  # what it writes besides, such as of a checkpoint, is shown
                if stream != "stderr" or record is None:
                    return chunk
                before, traceback, _ = chunk.partition(TRACEBACK)
                text = b"" if rank in self._with_traceback else before
                if traceback:
                    self._with_traceback.add(rank)
                return text
            if self.first_failed is None:
                follows = record is not None and record.failed_rank is not None
                return b"" if follows and stream == "stderr" else chunk
            if rank != self.first_failed:
                return b"" if self._is_final or stream == "stderr" else chunk
            if not hides_traceback or stream != "stderr" or record is None:
                return chunk
            if self._has_traceback:
                return b""
            if not record.ends_program:
                return chunk
            before, traceback, _ = chunk.partition(TRACEBACK)
            self._has_traceback = bool(traceback)
            if traceback and before.endswith(_BEFORE_TRACEBACK):
                before = before[: -len(_BEFORE_TRACEBACK)]
            return before

    def take_sentence(self, rank: int) -> str:
        """Say, once, that a rank ends because another one failed; empty for any other one."""
        record = self._records.get(rank)
        if self._is_stopped or record is None or record.failed_rank is None:
            return ""
        if self.first_failed is None and self._is_terminated(record.failed_rank):
            return ""  # perhaps all ranks were
        if rank in self._reported:
            return ""
        self._reported.add(rank)
        return f"rank {rank}: stopped, because rank {record.failed_rank} failed"

    def _is_terminated(self, rank: int) -> bool:
        """Tell whether a rank exits because of SIGTERM, which others may get as well."""
        record = self._records.get(rank)
        return (
            record is not None
            and record.failed_rank is None
            and record.exit_code == 128 + signal.SIGTERM
        )

    def _look(self) -> None:
        self._next_look = time.monotonic() + _LOOK_S
        for rank, folder in self._folders.items():
            known = self._records.get(rank)
            if known is not None and known.ends_program:
                continue
            record = read_record(folder)
            if record is None:
                self._records.pop(rank, None)
                self._reported.discard(rank)
            else:
                self._records[rank] = record
        if self._is_final or self._is_stopped:
            return
        # A rank that was asked to exit reports no more of the cause than what it had heard before.
        failed = [
            rank
            for rank, record in self._records.items()
            if not self._is_terminated(rank if record.failed_rank is None else record.failed_rank)
        ]
        self._is_final = any(self._records[rank].ends_program for rank in failed)
        self.first_failed = None
        if failed:
            first = min(failed, key=lambda rank: self._records[rank].time)
            other = self._records[first].failed_rank
            self.first_failed = first if other is None else other
