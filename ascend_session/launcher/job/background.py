"""Trainings that ranks leave running in the background, as the guardian sees them.

The ``python3 train.py &`` of a script without a ``wait`` still runs when the script has exited with
0. The guardian adopts it then, waits for it, and gets its exit status.

A process is such a training if it has loaded TensorFlow, the vendor's packages or this one. It is
none if it listens on a port or is a known server (TensorBoard, Jupyter), or if it is a worker of a
Python that has exited: such a worker may wait for its next task for ever.
"""

import contextlib
import math
import os
import re
import time
from typing import Collection, NamedTuple, Tuple

from ascend_session.launcher.job.children import DEEPEST, SeenProcess, read_process_file
from ascend_session.launcher.job.timers import Lasting

IMPORT_S = 30.0
"""Seconds that a Python which has just started has to load TensorFlow."""

MOMENT_S = 1.0
"""Seconds that a shell, or a program that has just started, has to start a Python."""

_QUIET_S = 3.0  # without any CPU time or page fault, in which it loads nothing
_LIBRARIES = re.compile(rb"/(?:lib|_pywrap_)tensorflow|/npu_(?:bridge|device)/")
_SERVERS = re.compile(r"(?:tensorboard|jupyter(?:-?\w+)?|ipykernel(?:_launcher)?)(?:\.\w+)?")
_WORKERS = b"from multiprocessing."  # in the command that starts them, except for forked ones
_FORKED = 0x40  # PF_FORKNOEXEC of the kernel's sched.h, in field 9 of /proc/PID/stat
_LISTENS = "0A"  # TCP_LISTEN in /proc/PID/net/tcp


class Training(NamedTuple):
    """A training in the background.

    Attributes:
        rank: The rank that left it, counted from 0.
        pid: The process that the guardian has adopted: the training, or a program around it.
        command: The command of the training.
        output: What its standard error goes to.
        is_script_rank: True for a rank that a script has started, which records itself how it ends.
    """

    rank: int
    pid: int
    command: str
    output: str
    is_script_rank: bool


def find_left(
    process: SeenProcess, users: Collection[int], lasting: Lasting, depth: int = 0
) -> Tuple[float, SeenProcess]:
    """Find the process below this one, or itself, that there is most reason to wait for.

    Args:
        process: One that the guardian has adopted.
        users: The processes that have reported that they use this package or the vendor's.
        lasting: For how long processes have done nothing.
        depth: How far below the adopted one it is.

    Returns:
        For how many seconds to wait, if nothing else happens, infinite for a training; and for
        what.
    """
    if not process.is_alive:
        return 0.0, process
    if not process.words:  # it is just starting its program, or exiting
        return MOMENT_S, process
    flags, started = int(process.stat[6]), int(process.stat[19])
    is_worker = process.is_python and (flags & _FORKED or _WORKERS in process.words)
    if is_worker or _is_server(process):
        return 0.0, process
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    age_s -= lasting.left_out_s
    if process.pid in users or _LIBRARIES.search(read_process_file(process.pid, "maps")):
        found = [(math.inf, process)]
    else:
        wait_s = MOMENT_S if process.is_shell or age_s < MOMENT_S else 0.0
        if process.is_python and age_s < IMPORT_S and _works(process, lasting):
            wait_s = IMPORT_S
        children = process.children if depth < DEEPEST else []
        below = (find_left(child, users, lasting, depth + 1) for child in children)
        found = [(wait_s, process), *below]
    most = max(found, key=lambda each: each[0])
    # Last, for the kernel takes milliseconds to list the ports of a host.
    return (0.0, process) if most[0] > MOMENT_S and _listens(process) else most


def _works(process: SeenProcess, lasting: Lasting) -> bool:
    """Return whether a process has lately done anything, or waits for a CPU or a disk."""
    is_busy = process.stat[0] in (b"R", b"D")
    return is_busy or lasting.note_s(process.pid, "is quiet", process.activity) < _QUIET_S


def _is_server(process: SeenProcess) -> bool:
    """Return whether a process runs the command of a known server."""
    words = os.fsdecode(process.words).rstrip("\0").split("\0")
    program = words[0]
    if process.is_python:
        program = next((word for word in words[1:] if not word.startswith("-")), "")
    return bool(_SERVERS.fullmatch(os.path.basename(program)))


def _listens(process: SeenProcess) -> bool:
    """Return whether a process listens on a TCP port, but for those where ranks find each other."""
    inodes, pid = set(), process.pid
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in read_process_file(pid, f"net/{name}").decode("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    if not ports:
        return False
    from ascend_session.checks.network import list_hccl_ports

    chief = process.environ.get("CM_CHIEF_PORT", "")
    return bool(ports - {*list_hccl_ports(process.environ), int(chief) if chief.isdecimal() else 0})
