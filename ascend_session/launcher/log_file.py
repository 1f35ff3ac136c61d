"""One log file: the bytes that a rank wrote, untouched, as far as the disk takes them."""

import os
from typing import Optional

from ascend_session.launcher.notices import Notices

__all__ = ["LogFile"]


class LogFile:
    """A new file; what an earlier one of this name held is gone.

    A file that cannot be opened is said once and takes nothing. When the disk is full, what it
    does not take is lost, which is said once; if there is room again, the file says how much was
    lost and goes on. No method raises OSError.

    Args:
        path: The file; its folder is there.
        notices: Who is told.
    """

    def __init__(self, path: str, notices: Notices) -> None:
        self.path = path
        self._notices = notices
        self._lost = 0
        self._fd: Optional[int] = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o666)
        except OSError as failure:
            self._complain(failure, "cannot be opened")

    def write(self, chunk: bytes) -> None:
        """Appends the bytes."""
        if self._fd is None:
            return
        if self._lost:
            mark = f"\n[{self._lost} bytes are missing here: they could not be written]\n".encode()
            if self._written(mark) < len(mark):
                self._lost += len(chunk)
                return
            self._lost = 0
        self._lost += len(chunk) - self._written(chunk)

    def close(self) -> None:
        """Closes the file; again does nothing."""
        fd, self._fd = self._fd, None
        if fd is not None:
            try:
                os.close(fd)
            except OSError as failure:  # some file systems say only now that there was no room
                self._complain(failure, "is not complete")

    def _written(self, data: bytes) -> int:
        """How many of the bytes the file took."""
        assert self._fd is not None
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:] if done else data)
        except OSError as failure:
            self._complain(failure, "is not complete")
        return done

    def _complain(self, failure: OSError, what: str) -> None:
        self._notices.once(
            f"log file, errno {failure.errno}",
            f"The log file {self.path} {what}: {failure.strerror}. The job goes on; what other "
            "log files miss for the same reason is not said again.",
        )
