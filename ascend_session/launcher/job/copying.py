"""Copies what programs write to pipes into their ranks' log files, in the guardian.

``echo text > /dev/stderr`` in a shell, and ``tee /dev/stderr``, truncate a plain file, but not a
pipe. So ranks of ``--no-python`` write to pipes, and never wait for a terminal. When a file takes
no more, its pipe is closed: the next write fails in the program, as it would in a file.
"""

import array
import fcntl
import os
import selectors
import termios
import threading
from typing import Dict, List, Tuple

_READ_BYTES = 64 * 1024


class PipeCopier:
    """Copies until all pipes have ended, or until `finish`.

    Args:
        pipes: The rank and the path of the log file of each pipe, by the descriptor that is read
            and closed.

    Attributes:
        problems: The rank and log file for each that took no more, and why.
    """

    def __init__(self, pipes: Dict[int, Tuple[int, bytes]]) -> None:
        self.problems: List[Tuple[int, str, str]] = []
        self._logs = pipes
        self._selector = selectors.DefaultSelector()
        for pipe in pipes:
            self._selector.register(pipe, selectors.EVENT_READ)
        self._is_finishing, self._wake = os.pipe()
        self._selector.register(self._is_finishing, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="launch-copier", daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Copy what is in the pipes now, and not what comes meanwhile: that may never end."""
        os.close(self._wake)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while self._logs:
            ready = [key.fd for key, _ in self._selector.select()]
            for pipe in ready:
                if pipe in self._logs:
                    self._copy(pipe, _READ_BYTES)
            if self._is_finishing in ready:
                break
        for pipe in list(self._logs):
            count = array.array("i", [0])
            fcntl.ioctl(pipe, termios.FIONREAD, count)
            left = count[0]
            while left > 0 and pipe in self._logs:
                self._copy(pipe, min(left, _READ_BYTES))
                left -= _READ_BYTES

    def _copy(self, pipe: int, size: int) -> None:
        data = os.read(pipe, size)
        is_open = bool(data)
        rank, path = self._logs[pipe]
        try:
            with open(path, "ab", buffering=0) as file:
                while data:
                    data = data[file.write(data) :]
        except OSError as failure:  # the disk is full
            self.problems.append((rank, os.fsdecode(path), failure.strerror or str(failure)))
            is_open = False
        if not is_open:
            self._selector.unregister(pipe)
            os.close(pipe)
            del self._logs[pipe]
