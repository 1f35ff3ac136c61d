"""What to do about the failure of a rank, and whether trying again may help."""

import errno
import os
import resource
import signal
from typing import Optional

from ascend_session.failures.failure import Failure, FailureClass
from ascend_session.failures.table import PROCESS_LIMIT
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict.descriptions import lacks_interpreter
from ascend_session.launcher.verdict.evidence import find_stacks, has_crashed

# What a debugger and input() raise at the end of standard input.
_WITHOUT_TERMINAL = (("bdb.BdbQuit", ""), ("EOFError", "EOF when reading a line"))

_OUT_OF_MEMORY = (
    "If nobody sent it, 'dmesg' or 'journalctl -k' names the process that the kernel killed; then "
    "give the job more memory, or let each rank use less."
)
_OUT_OF_TIME = (
    "The kernel also kills a process here once it has used {} s of CPU time: see 'ulimit -t'."
)
_CRASHED = (
    "That line led to a crash in compiled code. stacks.log, below, has the stacks of all threads."
)
_CRASHED_SILENTLY = (
    "Compiled code crashed. Run the program of one rank alone under a debugger, or allow core "
    "dumps with 'ulimit -c unlimited'."
)
_NO_INTERPRETER = "Start it with a line '#!/bin/bash', or put bash before it: --no-python bash {}"
_NO_ROOM = (
    "Make room or raise the limit (quota, 'ulimit -f'), or put the logs on another disk with "
    "--log-dir (in Python, log_dir)."
)
_NO_TERMINAL = (
    "A rank has no terminal to be debugged at: launch with --attach {0} (in Python, attach={0}) to "
    "give it yours."
)
_NOT_STARTED = (
    "See that the program runs when it is started by hand in the ranks' folder, and that 'ulimit "
    "-a' leaves room for so many processes."
)


def advise(
    plan: Plan, rank: LaunchRank, code: int, failure: Optional[Failure], lacks_room: bool
) -> str:
    """Say what to do about the end of a rank; empty if only its output can tell.

    Args:
        plan: The job.
        rank: The rank.
        code: What the launch ends with because of it.
        failure: The known failure of the vendor's stack behind it.
        lacks_room: Whether it could write no more.
    """
    error = rank.error
    if lacks_room:
        return _NO_ROOM
    if rank.outcome == Outcome.NOT_STARTED:
        program = os.path.normpath(rank.command[0])
        if rank.start_errno == errno.EAGAIN:
            return PROCESS_LIMIT
        is_script = rank.start_errno == errno.ENOEXEC and lacks_interpreter(program)
        return _NO_INTERPRETER.format(program) if is_script else _NOT_STARTED
    wants_terminal = error is not None and (error.type, error.message) in _WITHOUT_TERMINAL
    if wants_terminal and plan.config.attach is None:
        return _NO_TERMINAL.format(rank.rank)
    if failure is not None:
        return failure.advice
    if code == 128 + signal.SIGKILL and (error is None or error.type == "SystemExit"):
        limit_s = resource.getrlimit(resource.RLIMIT_CPU)[1]  # the ranks have the launcher's
        is_limited = limit_s != resource.RLIM_INFINITY
        return _OUT_OF_MEMORY + (f" {_OUT_OF_TIME.format(limit_s)}" if is_limited else "")
    if has_crashed(rank):
        return _CRASHED if find_stacks(rank) else _CRASHED_SILENTLY
    return ""


def classify_in_job(plan: Plan, failure: Failure, is_first: bool) -> FailureClass:
    """Return the class of a failure in this job.

    A secondary one has the class of its row where no other rank can have failed first. That the
    TSD client does not open passes, unless two ranks of the job were given the same device.
    """
    devices = [rank.physical_id for rank in plan.ranks if rank.physical_id is not None]
    if failure.code == "Open TsdClient failed" and len(set(devices)) < len(devices):
        return FailureClass.PERMANENT
    return failure.definition.failure_class if is_first else failure.failure_class
