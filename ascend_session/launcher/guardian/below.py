"""The processes below the guardian; psutil is loaded when they are first asked for."""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

__all__ = ["Below"]

_LONGEST = 200


class Below:
    """All that live below this process, each known by its pid and the time it was started.

    Args:
        folders: Where psutil is found.
    """

    def __init__(self, folders: List[str]) -> None:
        self._folders = folders

    def all(self) -> List[Any]:
        """The processes, without those that have ended."""
        psutil = self._psutil()
        found = psutil.Process().children(recursive=True)
        return [process for process in found if self._lives(process)]

    def ask_to_end(self, outside_of: Any) -> List[str]:
        """Sends SIGTERM to those in none of the groups; returns what they are."""
        found = [one for one in self.all() if _group(one.pid) not in outside_of]
        said = [self.described(one) for one in found]
        for process in found:
            with contextlib.suppress(self._psutil().Error):
                process.terminate()
                process.resume()  # one that was stopped has to wake for it
        return said

    def kill(self) -> None:
        """Sends SIGKILL to all of them."""
        for process in self.all():
            with contextlib.suppress(self._psutil().Error):
                process.kill()

    def described(self, process: Any) -> str:
        """A process in words: its pid and its command."""
        try:
            said = " ".join(process.cmdline()) or process.name()
        except self._psutil().Error:
            return str(process.pid)
        return f"{process.pid} ({said[:_LONGEST]})"

    def _lives(self, process: Any) -> bool:
        try:
            return bool(process.status() != self._psutil().STATUS_ZOMBIE)
        except self._psutil().Error:
            return False

    def _psutil(self) -> Any:
        if "psutil" not in sys.modules:
            sys.path += self._folders
        import psutil

        return psutil


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
