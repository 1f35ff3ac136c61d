"""Whether the ports are free that HCCL takes on this host.

Sources: guides/facts/launch.md#hccl-ports (32 ports from ``HCCL_IF_BASE_PORT``, and 16666; the
manual advises ``net.ipv4.ip_local_reserved_ports``), guides/facts/failures.md#ports-in-use; HCOMM,
GetHostPort, and HOST_CONTROL_BASE_PORT in topoinfo_detect.cc (each rank takes those that belong to
its device's physical id).
"""

import contextlib
import errno
import ipaddress
import socket
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.variables import read_number
from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.text import format_ranges

DEVICE_PORT = 16666
BASE_PORTS = 32

PORTS = "ports"
"""The name of the check."""

_DEFAULT, _LOWEST, _HIGHEST = 60000, 1024, 65520
_VARIABLE = "HCCL_IF_BASE_PORT"
_SECOND = 8  # from the port of a device's control to that of its data
_RANGE = "HCCL_HOST_SOCKET_PORT_RANGE"


def base_port(environ: Mapping[str, str]) -> int:
    """Give the first of HCCL's ports on the host."""
    return read_number(environ, _VARIABLE) or _DEFAULT


def ports_of_hccl(environ: Mapping[str, str]) -> Tuple[int, ...]:
    """List the ports that HCCL takes itself; none above the highest there is."""
    first = base_port(environ)
    return (DEVICE_PORT, *(port for port in range(first, first + BASE_PORTS) if port < 65536))


def check_ports(
    environ: Mapping[str, str], physical: Optional[Sequence[int]] = None
) -> Iterator[Finding]:
    """Try to bind each port for a moment.

    Args:
        environ: The environment of the ranks, for ``HCCL_IF_BASE_PORT``.
        physical: The devices of the ranks by their physical ids, for another job on this server
            has its own ports; None means all ports.
    """
    given = environ.get(_VARIABLE)
    if given and not _LOWEST <= (read_number(environ, _VARIABLE) or 0) <= _HIGHEST:
        message = (
            f"{_VARIABLE}={given!r} is not a port from {_LOWEST} to {_HIGHEST}; HCCL refuses it."
        )
        yield Finding(ERROR, message, f"Correct or unset {_VARIABLE}.", rule=PORTS)
        return
    ports = _ports_of(environ, physical)
    busy, problem = _find_busy(ports)
    if problem:
        yield Finding(NOT_CHECKED, f"The ports of HCCL: {problem}", rule=PORTS)
        return
    users = _find_users(busy)
    # A connection can end between two looks.
    busy = [port for port in busy if port in users or _find_busy([port])[0]]
    taken = [port for port in busy if port not in users or not users[port].is_local]
    if not taken:
        yield Finding(OK, f"The ports {format_ranges(ports)} are free.", rule=PORTS)
        return
    yield from _report_taken(taken, users, environ)


def _ports_of(environ: Mapping[str, str], physical: Optional[Sequence[int]]) -> Tuple[int, ...]:
    ports = ports_of_hccl(environ)
    # A2 and later look for ports in this range instead.
    if environ.get(_RANGE):
        return ports[:1]
    if not physical:
        return ports
    firsts = (base_port(environ), base_port(environ) + _SECOND)
    own = {first + int(number) for first in firsts for number in physical}
    return tuple(port for port in ports if port == DEVICE_PORT or port in own)


class _User(NamedTuple):
    """Who has a port: in words, whether it is listening there, and for this host only."""

    name: str
    listens: bool
    is_local: bool = False


def _find_busy(ports: Sequence[int]) -> Tuple[List[int], str]:
    """Find the ports that cannot be bound, and why that could not be tried."""
    busy = []
    for port in ports:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
                # One on which an ended job's connections still linger counts as free.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                return [], f"{error.strerror}."
            busy.append(port)
    return busy, ""


def _report_taken(
    busy: Sequence[int], users: Mapping[int, _User], environ: Mapping[str, str]
) -> Iterator[Finding]:
    reserve = f"sysctl net.ipv4.ip_local_reserved_ports={_reserved(environ)}"
    by_user: Dict[Optional[_User], List[int]] = {}
    for port in (port for port in busy if port != DEVICE_PORT):
        by_user.setdefault(users.get(port), []).append(port)
    for user, ports in by_user.items():
        which = f"Port(s) {format_ranges(ports)} of HCCL"
        move = f"export {_VARIABLE} as the first of {BASE_PORTS} others"
        if user is None:
            message = f"{which} cannot be bound, and no process was found to use them."
            yield Finding(WARNING, message, f"If HCCL fails there (EJ0003), {move}.", rule=PORTS)
        elif user.listens:
            hint = f"End it, {move}, and reserve them: {reserve}."
            yield Finding(ERROR, f"{which} are used by {user.name}.", hint, rule=PORTS)
        else:
            message = f"{which} are used by a connection of {user.name} at the moment."
            yield Finding(WARNING, message, f"Reserve them for HCCL: {reserve}.", rule=PORTS)
    if DEVICE_PORT in busy:
        owner = users.get(DEVICE_PORT)
        who = "an unknown process" if owner is None else owner.name.rstrip(",")
        message = (
            f"Port {DEVICE_PORT} of this host is in use by {who}. HCCL needs it on the cards, and "
            "on the host only if these have no network of their own."
        )
        yield Finding(WARNING, message, f"Reserve it for HCCL: {reserve}.", rule=PORTS)


def _reserved(environ: Mapping[str, str]) -> str:
    first = base_port(environ)
    return f"{DEVICE_PORT},{first}-{first + BASE_PORTS - 1}"


def _find_users(busy: Sequence[int]) -> Dict[int, _User]:
    """Find out who has these ports, as far as this user may know."""
    import psutil  # only where a port is taken

    users: Dict[int, _User] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if not connection.laddr or connection.laddr.port not in busy:
                continue
            port = connection.laddr.port
            listens = connection.status == psutil.CONN_LISTEN
            is_local = listens and _is_local(connection.laddr.ip)
            user = _User(_name_process(connection.pid), listens, is_local)
            if port not in users or _weight(user) > _weight(users[port]):
                users[port] = user
    return users


def _weight(user: _User) -> int:
    """Weigh several that have a port: the one that is most in the way is named."""
    return 0 if user.is_local else 2 if user.listens else 1


def _is_local(address: str) -> bool:
    """Tell whether it is a loopback address, which HCCL does not bind."""
    with contextlib.suppress(ValueError):
        ip = ipaddress.ip_address(address)
        mapped = getattr(ip, "ipv4_mapped", None)
        return ip.is_loopback or (mapped is not None and mapped.is_loopback)
    return False


def _name_process(pid: object) -> str:
    if not isinstance(pid, int):
        return "another process, which this user may not see,"
    import psutil

    with contextlib.suppress(psutil.Error):
        return f"process {pid} ({psutil.Process(pid).name()})"
    return f"process {pid}"
