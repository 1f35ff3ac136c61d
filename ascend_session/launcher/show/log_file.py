"""A log file of a rank that grows, and the kernel's reports of that."""

import os
from typing import Optional, Sequence, Tuple

from ascend_session.launcher.show.failure_filter import TRACEBACK

READ_BYTES = 64 * 1024
"""The most that is read at once."""


class LogFile:
    """A log file, made empty; `offset` of its `size` bytes are shown by now.

    What is before `admitted` was there when no rank had failed.

    Raises:
        OSError: If it cannot be made.
    """

    def __init__(self, rank: int, stream: str, path: str) -> None:
        self.rank, self.stream, self.path = rank, stream, path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self.size = self.offset = self.admitted = 0
        self.grown_at = 0.0
        self.is_in_traceback = False

    @property
    def has_more(self) -> bool:
        """Whether it has bytes that were not read."""
        return self.offset < self.size

    def look(self, now: float) -> bool:
        """Note the size; return whether the file was truncated."""
        size = os.fstat(self.fd).st_size
        if size != self.size:
            self.grown_at = now
        self.size = size
        if size >= self.offset:
            return False
        self.offset = self.admitted = 0
        return True

    def read(self) -> Tuple[bytes, bool]:
        """Read the next block, and whether it was there before a rank failed."""
        is_admitted = self.offset < self.admitted
        end = self.admitted if is_admitted else self.size
        data = os.pread(self.fd, min(READ_BYTES, end - self.offset), self.offset)
        self.offset += len(data)
        if not data:  # it was truncated this moment
            self.size = self.offset
        elif not data.strip(b"\0"):  # a hole, as a program leaves that seeks
            try:
                self.offset = min(os.lseek(self.fd, self.offset, os.SEEK_DATA), self.size)
            except OSError:  # it has no end yet
                self.offset = self.size
            data = b""
        self._look_for_traceback(data)
        return data, is_admitted

    def _look_for_traceback(self, data: bytes) -> None:
        """Note whether the file ends, as far as it was read, within a traceback."""
        if self.stream != "stderr":
            return
        begin = data.rfind(TRACEBACK)
        if begin >= 0:
            self.is_in_traceback, data = True, data[begin:].partition(b"\n")[2]
        if self.is_in_traceback:
            # Its last line is the first one that is not indented.
            lines = data.splitlines(keepends=True)
            self.is_in_traceback = all(
                line[:1] in b" \t\r\n" or not line.endswith(b"\n") for line in lines
            )


_IN_MODIFY, _IN_NONBLOCK, _IN_CLOEXEC = 0x2, 0o4000, 0o2000000  # inotify(7)


def watch_growth(paths: Sequence[str]) -> Optional[int]:
    """Have the kernel report when files grow: a descriptor to poll, or None if it cannot."""
    import ctypes  # here, as it takes 3 ms

    libc = ctypes.CDLL(None)
    try:
        fd: int = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if fd < 0:
            return None
        watches = [libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY) for path in paths]
    except AttributeError:
        return None
    if min(watches, default=0) < 0:  # this user has too many
        os.close(fd)
        return None
    return fd
