"""TCP ports that are bound, but not listened at, until whoever is to have them takes them.

Source: stub_collectives.md (a port that is bound with SO_REUSEADDR and not listened at can be taken
by TensorFlow's server, which then listens on every interface). Linux never gives such a port to
one who asks for any, nor to an outgoing connection, as long as it is bound on every interface:
bound on 127.0.0.1 alone, it goes to whoever asks for one on another address.
"""

import socket

__all__ = ["bound", "bound_on"]


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
