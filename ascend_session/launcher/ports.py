"""Address and port at which the ranks of a job without a rank table meet.

Source: launch_facts.md, A6 (``CM_CHIEF_PORT`` is 0 to 65520) and A9 (ports that HCCL itself takes:
16666 on devices, 32 from ``HCCL_IF_BASE_PORT``, by default 60000, on the host).
"""

import socket
from typing import Iterator, Mapping, Set

from ascend_session.errors import JobError

__all__ = ["HIGHEST_PORT", "check_port", "free_port", "own_address"]

HIGHEST_PORT = 65520

# Below the ports that Linux gives to outgoing connections (ip_local_port_range, from 32768), so
# that none of these takes the port before the chief does.
_CANDIDATES = range(20000, 32768)
_TRIES = 200
# Addresses for documentation (RFC 5737): nothing is sent there, only the route is looked up.
_ELSEWHERE = ("192.0.2.1", 9)


def own_address() -> str:
    """The IPv4 address of the interface that leads out of this server; loopback without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_ELSEWHERE)
        except OSError:
            return "127.0.0.1"
        return str(asking.getsockname()[0])


def free_port(address: str, environ: Mapping[str, str]) -> int:
    """A TCP port that nobody on this server has bound at the moment.

    It is not reserved: until the chief binds it, another process can take it.

    Args:
        address: The chief's IPv4 or IPv6 address, one of this server's.
        environ: The environment of the job, for ``HCCL_IF_BASE_PORT``.

    Raises:
        JobError: If the address is none of this server's, or no port was free.
    """
    taken_by_hccl = _ports_of_hccl(environ)
    for port in _shuffled():
        if port not in taken_by_hccl and _is_free(address, port):
            return port
    raise JobError(
        f"Of {_TRIES} ports tried between {_CANDIDATES[0]} and {_CANDIDATES[-1]} on {address}, "
        "none was free.",
        hint="Give chief_port.",
    )


def check_port(address: str, port: int, environ: Mapping[str, str]) -> None:
    """Checks a port that the user gave.

    Raises:
        JobError: If it is bound, or is one that HCCL takes itself, or the address is none of this
            server's.
    """
    if port in _ports_of_hccl(environ):
        why = "HCCL uses that port itself"
    elif not _is_free(address, port, reuse=True):
        why = "another process has bound it, or this user may not"
    else:
        return
    raise JobError(
        f"chief_port={port} cannot be the port of the chief: {why}.",
        hint="Leave chief_port out, and a free one is taken.",
    )


def _shuffled() -> Iterator[int]:
    import random  # only a job without a rank table needs it

    # Not the process's own generator: a seeded one would give all launches the same ports.
    return iter(random.SystemRandom().sample(_CANDIDATES, _TRIES))


def _ports_of_hccl(environ: Mapping[str, str]) -> Set[int]:
    from ascend_session.checks.ports import ports_of_hccl  # few launches need it

    return set(ports_of_hccl(environ))


def _is_free(address: str, port: int, reuse: bool = False) -> bool:
    """Whether the port can be bound on all addresses of the family.

    Args:
        address: Says the family, and has to be one of this server's.
        port: The port.
        reuse: Whether one on which an ended job's connections still linger counts as free.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    _check_address(family, address)
    with socket.socket(family, socket.SOCK_STREAM) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        if family == socket.AF_INET6:
            trying.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            trying.bind(("", port))
        except OSError:
            return False
    return True


def _check_address(family: int, address: str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as trying:
        try:
            trying.bind((address, 0))
        except OSError as error:
            raise JobError(
                f"chief_ip={address!r} is no address of this server ({error.strerror}), where all "
                "ranks of the job run.",
                hint="Leave chief_ip out, or give an address that `ip addr` shows.",
            ) from error
