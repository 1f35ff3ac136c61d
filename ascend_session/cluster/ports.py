"""TCP ports that are bound, but not listened at, until whoever is to have them takes them.

Source: stub_collectives.md (a port that is bound with SO_REUSEADDR and not listened at can be taken
by TensorFlow's server, which then listens on every interface). Linux never gives such a port to
one who asks for any, nor to an outgoing connection, as long as it is bound on every interface:
bound on 127.0.0.1 alone, it goes to whoever asks for one on another address.
"""

import socket

__all__ = ["bound", "bound_on", "claimed", "is_own"]


def bound(port: int = 0) -> socket.socket:
    """A socket that has a port on every interface, of IPv6 too if there is that.

    Args:
        port: Which; 0 means any that is free.

    Raises:
        OSError: If it cannot be had.
    """
    try:
        return bound_on(socket.AF_INET6, "::", port)
    except OSError:
        return bound_on(socket.AF_INET, "", port)


def bound_on(family: int, address: str, port: int = 0) -> socket.socket:
    """A socket that has a port on an address."""
    made = socket.socket(family)
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
    except BaseException:
        made.close()
        raise
    return made


def claimed(port: int) -> socket.socket:
    """A mark that this port is meant for a job; of all who ask for it, one has it at a time.

    Two who set SO_REUSEADDR can both be bound to a port as long as neither listens, and without it
    connections of a job that has just ended keep a port from its next one. So what tells two
    launchers apart is a name among the abstract sockets, which like ports belong to a network
    namespace, and vanish with their last owner.

    Args:
        port: Which.

    Returns:
        The mark, until it is closed.

    Raises:
        OSError: If another has it (EADDRINUSE).
    """
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(f"\0ascend_session port {port}")
    except BaseException:
        made.close()
        raise
    return made


def is_own(address: str) -> bool:
    """Whether an IP address is one of this machine, at which a program here can listen."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        bound_on(family, address).close()
    except OSError:
        return False
    return True
