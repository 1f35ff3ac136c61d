"""Where the TensorFlow server of each rank is, and how the ranks tell each other.

A rank knows its own port, and learns by which of its addresses others reach it from its way to
the coordinator. If that way stays inside the machine, only the others know how to get there: then
the server is where they reach the coordinator, and the rank says no host at all.
"""

import os
import socket
from typing import Dict, List, Mapping, NamedTuple, Sequence

from ascend_session.cluster.coordinator import is_loopback, parts_of
from ascend_session.cluster.ports import bound
from ascend_session.cluster.variables import PORT, number
from ascend_session.errors import InitializationError

__all__ = ["Endpoint", "endpoint_in", "local_side", "own_port", "servers", "this_machine"]

_LOOPBACK = "127.0.0.1"
_kept: Dict[str, socket.socket] = {}


class Endpoint(NamedTuple):
    """One rank's place in the network.

    Attributes:
        port: Of its TensorFlow server.
        host: Address of that; empty if it is where the coordinator is.
        node: What is the same for all ranks of a node, and for no others.
        machine: What is the same for processes that can see each other.
        local_size: How many ranks it says are on its node.
    """

    port: int = 0
    host: str = ""
    node: str = ""
    machine: str = ""
    local_size: int = 1


def endpoint_in(fields: Sequence[object]) -> Endpoint:
    """The endpoint, which JSON has made a list.

    Raises:
        TypeError, ValueError: If it is none.
    """
    port, host, node, machine, local_size = fields
    return Endpoint(int(str(port)), str(host), str(node), str(machine), int(str(local_size)))


def own_port(environ: Mapping[str, str]) -> int:
    """The port of this process's server: the launcher's, else one that is kept from now on.

    Raises:
        InitializationError: If there is none to be had.
    """
    given = number(environ, PORT)
    if given is not None:
        return given
    if "server" not in _kept:
        try:
            _kept["server"] = bound()
        except OSError as error:
            raise InitializationError(
                f"This rank needs a free TCP port for its TensorFlow server: {error.strerror}."
            ) from error
    return int(_kept["server"].getsockname()[1])


def local_side(coordinator: str) -> str:
    """This machine's address on the way to the coordinator; empty if that way stays inside.

    Nothing is sent; only the route is looked up.

    Raises:
        InitializationError: If there is no way.
    """
    host, port = parts_of(coordinator)
    if is_loopback(host):
        return ""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as asking:
            asking.connect(address)
            own = str(asking.getsockname()[0])
    except OSError as error:
        raise InitializationError(
            f"There is no way from here to {coordinator}, where rank 0 listens for the others: "
            f"{error.strerror or error}.",
            hint="Give the coordinator an address that every node can reach.",
        ) from error
    return "" if is_loopback(own) or own == address[0] else own


def servers(ranks: Sequence[Endpoint], coordinator: str, own: int) -> List[str]:
    """Where each rank's server is, ``host:port`` by rank, as this rank reaches it.

    Args:
        ranks: What each has said.
        coordinator: Where rank 0 listens.
        own: This rank.
    """
    there = parts_of(coordinator)[0]
    found = []
    for rank, endpoint in enumerate(ranks):
        # TensorFlow 1.15 cannot read the port of its own server behind an IPv6 address.
        host = _LOOPBACK if rank == own else endpoint.host or there
        host = f"[{host}]" if ":" in host else host
        found.append(f"{host}:{endpoint.port}")
    return found


def this_machine() -> str:
    """What processes have in common that can look at each other by their pids."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()
