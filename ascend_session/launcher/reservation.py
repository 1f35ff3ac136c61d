"""TCP ports that the launcher keeps for a job on the stub whose ranks exchange data."""

import fcntl
import os
from types import TracebackType
from typing import List, Optional, Sequence, Tuple, Type

from ascend_session.cluster.coordinator import parts_of
from ascend_session.cluster.ports import bound, claimed
from ascend_session.errors import JobError
from ascend_session.launcher.nodes import Nodes
from ascend_session.launcher.open_files import lowest_number

__all__ = ["Reservation", "reserve", "reserve_on_node", "reserved_for"]

_HOST = "127.0.0.1"


class Reservation:
    """Ports that are bound until they are let go; with a ``with`` block, at its end.

    Args:
        coordinator: Where rank 0 is to listen for the others, ``host:port``; None if nowhere.
        ports: For the TensorFlow server of each rank that is started here.
        fds: The sockets that are bound to them, which no other program inherits.
    """

    def __init__(
        self,
        coordinator: Optional[str] = None,
        ports: Sequence[int] = (),
        fds: Sequence[int] = (),
    ) -> None:
        self.coordinator = coordinator
        self.ports = tuple(ports)
        self._fds = list(fds)

    def release(self) -> None:
        """Lets go of the ports; a rank that listens at one keeps it."""
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def reserve(ranks: int) -> Reservation:
    """Binds a port for the coordinator and one for each rank, any that are free.

    Raises:
        JobError: If there are not so many, or there may not be so many open files.
    """
    ports, fds = _bind([0] * (ranks + 1), ranks)
    return Reservation(f"{_HOST}:{ports[0]}", ports[1:], fds)


def reserved_for(backend: str, nodes: Nodes, here: int) -> Reservation:
    """The ports of a job's ranks on this node; none for one rank alone, and on devices.

    Raises:
        JobError: If nothing says where the ranks of several nodes meet, or as from `reserve`.
    """
    if backend != "stub" or nodes.size(here) == 1:
        return Reservation()
    if nodes.of == 1:
        return reserve(here)
    if nodes.coordinator is None:
        raise JobError(
            f"The job has {nodes.of} nodes, and nothing says where their ranks meet.",
            hint="Give coordinator=HOST:PORT on all nodes: an address of node 0 and a port that is "
            "free there.",
        )
    return reserve_on_node(here, nodes.coordinator, nodes.number == 0)


def reserve_on_node(ranks: int, coordinator: str, is_first: bool) -> Reservation:
    """Binds a port for each rank of one node among several, and the coordinator's on the first.

    Raises:
        JobError: If the coordinator's is taken, there are not so many others, or there may not be
            so many open files.
    """
    ports, fds = _bind([0] * ranks, ranks)
    if is_first:
        try:
            port = parts_of(coordinator)[1]
            with claimed(port) as mark, bound(port) as made:
                fds += [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, 0) for one in (mark, made)]
        except OSError as failure:
            Reservation(None, ports, fds).release()
            raise JobError(
                f"Node 0 is to listen at {coordinator} for the other nodes, but the port is not to "
                f"be had: {failure.strerror}. Another job may have it.",
                hint="Give coordinator with another port, the same on all nodes.",
            ) from failure
    return Reservation(coordinator, ports, fds)


def _bind(wanted: Sequence[int], ranks: int) -> Tuple[List[int], List[int]]:
    count = len(wanted)
    ports: List[int] = []
    fds: List[int] = []
    try:
        with lowest_number(count, ranks) as lowest:
            for port in wanted:
                with bound(port) as made:
                    ports.append(made.getsockname()[1])
                    fds.append(fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest))
    except BaseException as failure:
        Reservation(None, ports, fds).release()
        if not isinstance(failure, OSError):
            raise
        raise JobError(
            f"A job of {ranks} ranks on the stub needs {count} free TCP ports; after {len(fds)} "
            f"there was no other: {failure.strerror}.",
            hint="Start it again when other programs have ended, or with fewer ranks.",
        ) from failure
    return ports, fds
