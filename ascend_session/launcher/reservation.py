"""TCP ports that the launcher keeps for a job on the stub whose ranks exchange data.

Source: stub_collectives.md (a port that is bound with SO_REUSEADDR and not listened at can be taken
by TensorFlow's server, which then listens on every interface). Linux never gives such a port to
one who asks for any, nor to an outgoing connection, as long as it is bound on every interface:
bound on 127.0.0.1 alone, it goes to whoever asks for one on another address.
"""

import fcntl
import os
import socket
from types import TracebackType
from typing import List, Optional, Sequence, Tuple, Type

from ascend_session.errors import JobError
from ascend_session.launcher.open_files import lowest_number

__all__ = ["Reservation", "reserve"]

_HOST = "127.0.0.1"


class Reservation:
    """Ports that are bound until they are let go; with a ``with`` block, at its end.

    Args:
        ports: Their numbers, that of the coordinator first.
        fds: The sockets that are bound to them, which no other program inherits.
    """

    def __init__(self, ports: Sequence[int] = (), fds: Sequence[int] = ()) -> None:
        self._ports = tuple(ports)
        self._fds = list(fds)

    @property
    def coordinator(self) -> Optional[str]:
        """Where rank 0 is to listen for the others, ``host:port``; None if nothing is reserved."""
        return f"{_HOST}:{self._ports[0]}" if self._ports else None

    @property
    def addresses(self) -> Tuple[str, ...]:
        """Where the TensorFlow server of each rank is to listen, ``host:port``."""
        return tuple(f"{_HOST}:{port}" for port in self._ports[1:])

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
    count = ranks + 1
    ports: List[int] = []
    fds: List[int] = []
    try:
        with lowest_number(count, ranks) as lowest:
            for _ in range(count):
                with _bound() as made:
                    ports.append(made.getsockname()[1])
                    fds.append(fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest))
    except BaseException as failure:
        Reservation(ports, fds).release()
        if not isinstance(failure, OSError):
            raise
        raise JobError(
            f"A job of {ranks} ranks on the stub needs {count} free TCP ports; after {len(fds)} "
            f"there was no other: {failure.strerror}.",
            hint="Start it again when other programs have ended, or with fewer ranks.",
        ) from failure
    return Reservation(ports, fds)


def _bound() -> socket.socket:
    """A socket that has a port on every interface, of IPv6 too if there is that."""
    try:
        return _bound_on(socket.AF_INET6, "::")
    except OSError:
        return _bound_on(socket.AF_INET, "")


def _bound_on(family: int, address: str) -> socket.socket:
    made = socket.socket(family)
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, 0))
    except BaseException:
        made.close()
        raise
    return made
