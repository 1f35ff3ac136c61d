"""The program of the guardian's process."""

from __future__ import annotations

import os
import select
import signal
import sys

from ascend_session.launcher.guardian.channel import Channel
from ascend_session.launcher.guardian.child import be_subreaper, die_with_parent
from ascend_session.launcher.guardian.job import GuardedJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

__all__ = ["main"]


def main() -> None:
    """Reads two arguments, the socket and the pid of the launcher; then the job from the socket."""
    fd, launcher = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(fd, False)
    be_subreaper()
    # The socket says it too, unless a child of the launcher keeps the other end open.
    if not die_with_parent(signal.SIGTERM, launcher):
        return
    channel = Channel(fd)
    messages = _first(channel)
    if not messages:
        return
    job = messages[0]
    for rank in job["ranks"]:
        os.set_inheritable(rank["stdout"], False)
        os.set_inheritable(rank["stderr"], False)
    os.chdir("/")
    GuardedJob(channel, job).run(messages[1:])


def _first(channel: Channel) -> List[Any]:
    """Waits for a message; with it may come more. Empty if the launcher has gone."""
    found: List[Any] = []
    while channel.is_open and not found:
        channel.wait(select.POLLIN)
        found = channel.hear()
    return found
