"""Whether the ports are free that HCCL takes on this host.

Source: launch_facts.md, A9 (32 ports from ``HCCL_IF_BASE_PORT``, by default 60000, and 16666; the
manual advises ``net.ipv4.ip_local_reserved_ports``) and E (EI0019, EJ0003: bound already).
"""

import contextlib
import errno
import socket
from typing import Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from ascend_session.checks.finding import ERROR, NOT_CHECKED, OK, WARNING, Finding, listed
from ascend_session.cluster.variables import number

__all__ = ["BASE_PORTS", "DEVICE_PORT", "PORTS", "base_port", "check_ports", "ports_of_hccl"]

DEVICE_PORT = 16666
BASE_PORTS = 32

PORTS = "ports"
"""The name of the check."""

_DEFAULT, _LOWEST, _HIGHEST = 60000, 1024, 65520
_VARIABLE = "HCCL_IF_BASE_PORT"
_RANGE = "HCCL_HOST_SOCKET_PORT_RANGE"


def base_port(environ: Mapping[str, str]) -> int:
    """The first of HCCL's ports on the host."""
    return number(environ, _VARIABLE) or _DEFAULT


def ports_of_hccl(environ: Mapping[str, str]) -> Tuple[int, ...]:
    """The ports that HCCL takes itself; none above the highest there is."""
    first = base_port(environ)
    return (DEVICE_PORT, *(port for port in range(first, first + BASE_PORTS) if port < 65536))


def check_ports(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Tries to bind each port for a moment.

    Args:
        environ: The environment of the ranks, for ``HCCL_IF_BASE_PORT``.
    """
    given = environ.get(_VARIABLE)
    if given and not _LOWEST <= (number(environ, _VARIABLE) or 0) <= _HIGHEST:
        said = f"{_VARIABLE}={given!r} is no port from {_LOWEST} to {_HIGHEST}; HCCL refuses it."
        yield Finding(PORTS, ERROR, said, f"Mend or unset {_VARIABLE}.")
        return
    ports = ports_of_hccl(environ)
    # A2 and later look for ports in this range instead (A9).
    ports = ports[:1] if environ.get(_RANGE) else ports
    busy, problem = _busy(ports)
    if problem:
        yield Finding(PORTS, NOT_CHECKED, f"The ports of HCCL: {problem}")
        return
    if not busy:
        yield Finding(PORTS, OK, f"Nobody has bound the ports {listed(ports)}.")
        return
    yield from _taken(busy, environ)


class _User(NamedTuple):
    """Who has a port: in words, and whether it is listening there."""

    name: str
    listens: bool


def _busy(ports: Sequence[int]) -> Tuple[List[int], str]:
    """The ports that cannot be bound, and why that could not be tried."""
    busy = []
    for port in ports:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trying:
                # One on which an ended job's connections still linger counts as free.
                trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trying.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                return [], f"{error.strerror}."
            busy.append(port)
    return busy, ""


def _taken(busy: Sequence[int], environ: Mapping[str, str]) -> Iterator[Finding]:
    users = _users(busy)
    reserve = f"sysctl net.ipv4.ip_local_reserved_ports={_reserved(environ)}"
    by_user: Dict[_User, List[int]] = {}
    for port in busy:
        by_user.setdefault(users.get(port, _User("another process", True)), []).append(port)
    for user, ports in by_user.items():
        which = f"Port(s) {listed(ports)} of HCCL"
        if user.listens:
            others = [port for port in ports if port != DEVICE_PORT]
            move = f"export {_VARIABLE} as the first of {BASE_PORTS} others, " if others else ""
            hint = f"End it, {move}and reserve them: {reserve}."
            yield Finding(PORTS, ERROR, f"{which}: {user.name} has bound them.", hint)
        else:
            said = f"{which}: a connection of {user.name} has them at the moment."
            yield Finding(PORTS, WARNING, said, f"Reserve them for HCCL: {reserve}.")


def _reserved(environ: Mapping[str, str]) -> str:
    first = base_port(environ)
    return f"{DEVICE_PORT},{first}-{first + BASE_PORTS - 1}"


def _users(busy: Sequence[int]) -> Dict[int, _User]:
    """Who has these ports, as far as this user may know."""
    import psutil  # only where a port is taken

    found: Dict[int, _User] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp"):
            port = one.laddr.port if one.laddr else None
            if port not in busy or port is None:
                continue
            listens = one.status == psutil.CONN_LISTEN
            if port not in found or (listens and not found[port].listens):
                found[port] = _User(_name(one.pid), listens)
    return found


def _name(pid: object) -> str:
    if not isinstance(pid, int):
        return "another process, which this user may not see,"
    import psutil

    with contextlib.suppress(psutil.Error):
        return f"process {pid} ({psutil.Process(pid).name()})"
    return f"process {pid}"
