"""Trainings that ranks leave running in the background, as the guardian sees them.

The ``python3 train.py &`` of a script without a ``wait`` still runs when the script has exited with
0. The guardian adopts it then, waits for it, and gets its exit status.

A process is such a training if it has loaded TensorFlow, the vendor's packages or this one. It is
none if it listens on a port or is a known server (TensorBoard, Jupyter), or if it is a worker of a
Python that has exited: such a worker may wait for its next task for ever.
"""

import contextlib
import enum
import os
import re
import time
from typing import Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from ascend_session.launcher.job.children import DEEPEST, SeenProcess, read_process_file
from ascend_session.launcher.job.signals import SHELLS, TERMINATED
from ascend_session.rank_folder import RANK_FOLDER, is_rank_of_script

_EXIT_S = 1.0  # that a process may take to exit when its rank has; later it was left behind
_MOMENT_S = 1.0  # that a shell, or a program that has just started, has to start a Python
_IMPORT_S = 30.0  # that a Python which has just started has to load TensorFlow
_QUIET_S = 3.0  # without any CPU time or page fault, in which it loads nothing
_LIBRARIES = re.compile(rb"/(?:lib|_pywrap_)tensorflow|/npu_(?:bridge|device)/")
_SERVERS = re.compile(r"(?:tensorboard|jupyter(?:-?\w+)?|ipykernel(?:_launcher)?)(?:\.\w+)?")
_WORKERS = b"from multiprocessing."  # in the command that starts them, except for forked ones
_FORKED = 0x40  # PF_FORKNOEXEC of the kernel's sched.h, in field 9 of /proc/PID/stat
_EXITED = (b"Z", b"X")  # states there
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


class _Kind(enum.IntEnum):
    """What a process may be, by increasing reason to wait for it."""

    OTHER = 0
    SHORT = 1  # a shell, or a program that has just started
    STARTING = 2  # a Python that has just started, and works
    TRAINING = 3


class _Found(NamedTuple):
    kind: _Kind
    process: SeenProcess


class BackgroundWatch:
    """Looks for trainings among the processes that the guardian has adopted.

    Args:
        ranks: Each rank, by its folder.
    """

    def __init__(self, ranks: Mapping[str, int]) -> None:
        self.trainings: Dict[int, Training] = {}  # by pid; each was one when it was last seen
        self._ranks = ranks
        self._users: Collection[int] = ()
        self._announced: Set[int] = set()
        self._living: Set[int] = set()
        self._kinds: Set[_Kind] = set()
        self._exited = self._last_training = time.monotonic()
        self._activity: Dict[int, Tuple[str, float]] = {}  # of a young Python, and since when

    def examine(
        self, adopted: Iterable[SeenProcess], alive: Iterable[int], users: Collection[int]
    ) -> None:
        """Look at the adopted processes, of whose ranks at least one has exited.

        Args:
            adopted: These processes.
            alive: The ranks that have not exited, whose processes are not looked at.
            users: The processes that have reported that they use this package or the vendor's.
        """
        now, running = time.monotonic(), set(alive)
        if running:
            self._exited = now
        self._living, self._kinds, self._users = set(), set(), users
        for process in adopted:
            rank = self._ranks.get(process.environ.get(RANK_FOLDER, ""))
            if rank in running or (rank is None and running):
                continue
            kind, training = self._examine_tree(process)
            self._kinds.add(kind)
            if kind is _Kind.TRAINING:
                self._living.add(process.pid)
                if process.pid not in self.trainings:
                    number = min(self._ranks.values()) if rank is None else rank
                    self.trainings[process.pid] = Training(
                        number,
                        process.pid,
                        training.command,
                        training.output,
                        is_rank_of_script(training.environ),
                    )
        if self._living or running:
            self._last_training = now

    @property
    def is_waiting(self) -> bool:
        """Whether a training runs, or what the ranks left may become one."""
        most = max(self._kinds, default=_Kind.OTHER)
        waits_s = {_Kind.SHORT: _MOMENT_S, _Kind.STARTING: _IMPORT_S}.get(most, 0.0)
        return bool(self._living) or time.monotonic() - self._last_training < waits_s

    def take_new(self) -> List[Training]:
        """Return the trainings that nobody was told of, once it is clear which there are."""
        since_s = time.monotonic() - self._exited
        is_clear = _Kind.STARTING not in self._kinds or since_s > _IMPORT_S
        new = sorted(self._living - self._announced)
        if not is_clear or since_s < _EXIT_S:
            return []
        self._announced.update(new)
        return [self.trainings[pid] for pid in new]

    def remove(self, pid: int, status: int) -> Optional[Training]:
        """Remove a process that has exited; return it if it was a training whose status counts."""
        self._living.discard(pid)
        training = self.trainings.pop(pid, None)
        # Its script may have stopped it at its own end.
        was_stopped = status in TERMINATED and pid not in self._announced
        return None if was_stopped or (training and training.is_script_rank) else training

    def list_announced(self) -> Dict[int, int]:
        """List the trainings that `take_new` has returned and that live: pids by rank."""
        trainings = self.trainings.items()
        return {training.rank: pid for pid, training in trainings if pid in self._announced}

    def _examine_tree(self, process: SeenProcess, depth: int = 0) -> _Found:
        """Find the process below this one, or itself, that there is most reason to wait for."""
        stat = process.stat
        if not stat or stat[0] in _EXITED:
            return _Found(_Kind.OTHER, process)
        if not process.words:  # it is just starting its program, or exiting
            return _Found(_Kind.SHORT, process)
        name = _read_program(process.pid)
        is_python = name.startswith("python")
        is_worker = is_python and (int(stat[6]) & _FORKED or _WORKERS in process.words)
        if is_worker or _is_server(process.words, is_python):
            return _Found(_Kind.OTHER, process)
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[19]) / os.sysconf("SC_CLK_TCK")
        kind = _Kind.OTHER
        if process.pid in self._users or _LIBRARIES.search(read_process_file(process.pid, "maps")):
            kind = _Kind.TRAINING
        elif is_python and age_s < _IMPORT_S and self._works(process):
            kind = _Kind.STARTING
        elif name in SHELLS or age_s < _MOMENT_S:
            kind = _Kind.SHORT
        examined = [_Found(kind, process)]
        if kind is not _Kind.TRAINING and depth < DEEPEST:
            examined += [self._examine_tree(child, depth + 1) for child in process.children]
        most = max(examined, key=lambda each: each.kind)
        # Last, for the kernel takes milliseconds to list the ports of a host.
        is_server = most.kind > _Kind.SHORT and _listens(process)
        return _Found(_Kind.OTHER, process) if is_server else most

    def _works(self, process: SeenProcess) -> bool:
        """Return whether a process has lately done anything, or waits for a CPU or a disk."""
        now, activity = time.monotonic(), process.activity
        before, since = self._activity.get(process.pid, ("", now))
        if activity != before or process.stat[0] in (b"R", b"D"):
            since = now
        self._activity[process.pid] = activity, since
        return now - since < _QUIET_S


def _read_program(pid: int) -> str:
    """Return the file name of the program: ``python3.7`` also for a script that names it."""
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return ""


def _is_server(command: bytes, is_python: bool) -> bool:
    """Return whether this is the command of a known server."""
    words = os.fsdecode(command).rstrip("\0").split("\0")
    program = words[0]
    if is_python:
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
