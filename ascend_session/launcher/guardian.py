"""The guardian, the process of a job's loop, which the launcher starts as a Python of its own.

If the launcher is killed, it writes the result of the launch when the job is over.
"""

import contextlib
import os
import select
import signal
import sys
from typing import Any, List

from ascend_session.launcher.job.children import adopt_descendants, die_with_parent
from ascend_session.launcher.job.loop import GuardedJob
from ascend_session.launcher.job.messages import MessageChannel
from ascend_session.launcher.job.signals import drop_signals_for_ranks


def main() -> None:
    """Guard a job; the arguments of this process begin with the socket and the launcher's pid."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # to end without a traceback while there is no job
    with drop_signals_for_ranks():
        _guard_job(int(sys.argv[1]), int(sys.argv[2]))


def _guard_job(fd: int, launcher: int) -> None:
    """Read the job from the socket, and run it."""
    os.set_inheritable(fd, False)
    adopt_descendants()
    # The socket tells it too, unless a child of the launcher keeps the other end open.
    if not die_with_parent(signal.SIGTERM, launcher):
        return
    channel = MessageChannel(fd)
    messages: List[Any] = []
    while channel.is_open and not messages:
        channel.wait(select.POLLIN)
        messages = channel.receive()
    if not messages:
        return  # the launcher has gone
    job = messages[0]
    guarded = GuardedJob(channel, job)
    guarded.run(messages[1:])
    # Its sockets are closed before it is no process any more.
    has_died = not channel.is_open and not (guarded.is_kill_asked and os.getppid() == launcher)
    if has_died and job["unfinished"]:
        from ascend_session.launcher.verdict.saved import write_result_of_killed

        with contextlib.suppress(OSError):  # nobody is left to be told
            reports = guarded.reports
            write_result_of_killed(job["unfinished"], guarded.folders, channel.sent, reports)
    os._exit(0)  # at once, for the launcher waits
