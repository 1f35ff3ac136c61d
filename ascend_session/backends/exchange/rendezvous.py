"""Where the ranks of a job meet: a Unix socket of rank 0 in `folder`.

The lock file beside it names the machine, for ranks of another one that share the folder.
"""

import contextlib
import json
import os
import re
import socket
import sys
import threading
from typing import Any, Dict, List, Match, NamedTuple, Optional, Sequence, Tuple

from ascend_session.backends.exchange.folder import LOCK, find_folder, lock_file, remove_socket
from ascend_session.backends.exchange.wire import MALFORMED, make_socket, read_peer
from ascend_session.cluster.machine import ONE_MACHINE
from ascend_session.errors import InitializationError

_BACKLOG = 128  # processes that connect at once; more of them try again

Starter = Dict[str, Any]


class Endpoint(NamedTuple):
    """What the ranks of a job have in common before they meet.

    Attributes:
        job: Names the job: ``JOB_ID``, what a scheduler calls it, or the launcher's token.
        names: Files in the folder at which rank 0 listens; the others try one after the other.
        starter: Who started this process, if ``job`` may be the same for several jobs: then the
            ranks have to agree on that too.
    """

    job: str
    names: Tuple[str, ...]
    starter: Optional[Starter] = None

    @classmethod
    def named(cls, job: str, *parts: str) -> "Endpoint":
        """Make the endpoint of a job whose name no other job has."""
        return cls(job, (_digest(job, *parts),))

    @classmethod
    def started_together(cls, job: str, numbers: Sequence[int]) -> "Endpoint":
        """Make the endpoint of processes that the same parent or process group has started.

        Args:
            job: ``JOB_ID``, which most scripts set to a constant; may be empty.
            numbers: This process's rank and device, which may be in the names of its folders.
        """
        starter = describe_starter(numbers)
        if job:
            return cls(job, (_digest("job", job),), starter)
        names = tuple(_digest(kind, *starter[kind]) for kind in ("parent", "group"))
        return cls("", names, starter)

    def of_system(self, number: int) -> "Endpoint":
        """Return the endpoint of the job's n-th system: each has a socket of its own."""
        return self._replace(names=tuple(f"{name}.{number}" for name in self.names))


def describe_starter(numbers: Sequence[int]) -> Starter:
    """Describe who started this process: its parent, process group, working directory and script.

    Scripts often give each rank a folder of its own, so each part of a path comes with a second
    spelling, in which ``#`` replaces this process's numbers.
    """
    script = os.path.realpath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    own_numbers = {str(number) for number in numbers}

    def hide_number(match: "Match[str]") -> str:
        return "#" if match.group() in own_numbers else match.group()

    return {
        "parent": _describe_process(os.getppid()),
        "group": _describe_process(os.getpgrp()),
        "path": [
            [part, re.sub("[0-9]+", hide_number, part)]
            for part in f"{os.getcwd()}{os.sep}{script}".split(os.sep)
        ],
    }


def is_same_starter(mine: Optional[Starter], other: Any) -> bool:
    """Tell whether two processes belong to one job, by who started them.

    They need the same parent or the same process group, and the same working directory and script
    except for their own numbers.
    """
    if mine is None:
        return True
    try:
        together = mine["parent"] == other["parent"] or mine["group"] == other["group"]
        paths = mine["path"], other["path"]
        return (
            together
            and len(paths[0]) == len(paths[1])
            and all(a == c or b == d for (a, b), (c, d) in zip(*paths))
        )
    except MALFORMED:
        return False


def read_boot_id() -> str:
    """Return the id of this boot of the machine; empty if unknown."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""


class Listening:
    """The sockets at which rank 0 listens, from `open` to `close`."""

    def __init__(self) -> None:
        self.sockets: List[socket.socket] = []
        self._locks: List[int] = []
        self._paths: List[str] = []
        self._closing = threading.Lock()

    def open(self, names: Sequence[str]) -> None:
        """Listen under each of these names; after an error, call `close`.

        Raises:
            BlockingIOError: If a live process listens there.
            InitializationError: As from `find_folder`, or on a full disk.
        """
        folder = find_folder()
        try:
            for path in (os.path.join(folder, name) for name in names):
                self._locks.append(lock_file(path + LOCK))
                self._paths.append(path)
                machine = {"host": socket.gethostname(), "boot": read_boot_id()}
                os.write(self._locks[-1], json.dumps(machine).encode())
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                self.sockets.append(make_socket())
                self.sockets[-1].bind(path)
                self.sockets[-1].setblocking(False)
                self.sockets[-1].listen(_BACKLOG)
        except BlockingIOError:
            raise
        except OSError as error:
            raise InitializationError(
                f"The ranks of this machine cannot use {folder} for their rendezvous: "
                f"{error.strerror}.",
                hint="Look at its free space, and at the limit of open files (ulimit -n).",
            ) from error

    def close(self) -> None:
        """Remove the sockets and locks; calling it again does nothing."""
        with self._closing:  # a process that ends meanwhile waits for it
            for path in self._paths:
                remove_socket(path)
            self._paths = []
            self.forget()

    def forget(self) -> None:
        """Close what this process has inherited, and leave the files to the parent."""
        for listening in self.sockets:
            listening.close()
        locks, self._locks = self._locks, []
        for lock in locks:
            os.close(lock)


def connect(names: Sequence[str]) -> socket.socket:
    """Connect to rank 0.

    Raises:
        OSError: If it does not listen (yet).
        InitializationError: As from `find_folder`; if another user's process listens; or if rank 0
            is on another machine, which shares the folder.
    """
    failure: OSError = FileNotFoundError()
    for name in names:
        path = os.path.join(find_folder(), name)
        with contextlib.ExitStack() as failed:
            connecting = failed.enter_context(make_socket())
            try:
                connecting.setblocking(False)  # a hub that accepts nobody holds up nobody
                connecting.connect(path)
                connecting.setblocking(True)
            except OSError as error:
                failure = error
                _check_machine(path + LOCK)
                continue
            if read_peer(connecting)[1] != os.geteuid():
                raise InitializationError("A process of another user listens for these ranks.")
            failed.pop_all()
            return connecting
    raise failure


def _check_machine(path: str) -> None:
    """Raise InitializationError if a lock file was written on another machine."""
    try:
        with open(path, "rb") as file:
            machine = json.loads(file.read(4096).decode())
        host, boot = str(machine["host"]), str(machine["boot"])
    except (OSError, *MALFORMED):
        return
    if boot != read_boot_id():
        raise InitializationError(
            f"Rank 0 of this job is on another machine, {host}; this one is "
            f"{socket.gethostname()}.",
            hint=ONE_MACHINE,
        )


def _describe_process(pid: int) -> List[str]:
    """Return a process's pid and start time, which no later process has both."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return [str(pid), file.read().rpartition(")")[2].split()[19]]
    except (OSError, IndexError):
        return [str(pid), ""]


def _digest(*parts: str) -> str:
    import hashlib  # it takes longer to load than all else here

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]
