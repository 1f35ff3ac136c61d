"""``--events FILE``: what happens, as JSON lines, for programs that watch a launch."""

import json
import os
from typing import Any

from ascend_session.errors import ConfigError, Problem
from ascend_session.launcher.events import Event, as_dict
from ascend_session.launcher.notices import Notices

__all__ = ["EventFile"]


class EventFile:
    """A file with one line for each event; what an earlier launch left in it is gone.

    Each line is written at once and as a whole, so that one who follows the file sees what has
    happened. A pipe that somebody reads will do as well; it is never waited for.

    Args:
        path: The file; its folder is there.

    Raises:
        ConfigError: If it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_torn = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            # A named pipe that nobody reads is refused then, instead of waited for.
            self._fd = os.open(path, flags | os.O_NONBLOCK, 0o666)
        except OSError as failure:
            said = f"events={path!r} cannot be written: {failure.strerror}."
            hint = "Give a file in a folder that this user may write to."
            raise ConfigError.of([Problem("events", said, hint)]) from None

    def __enter__(self) -> "EventFile":
        return self

    def __exit__(self, *failure: Any) -> None:
        os.close(self._fd)

    def write(self, event: Event, notices: Notices) -> None:
        """Writes an event; trouble with the file is said once, and changes nothing else."""
        line = json.dumps(as_dict(event), separators=(",", ":")).encode() + b"\n"
        if self._is_torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError as failure:
            self._complain(notices, failure.strerror or str(failure))
            return
        self._is_torn = written < len(line)
        if self._is_torn:
            self._complain(notices, "there is no room for a whole line")

    def _complain(self, notices: Notices, why: str) -> None:
        said = f"The file of events {self._path} misses some of them: {why}. The job goes on."
        notices.once("events", said)
