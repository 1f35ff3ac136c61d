"""Ports that are bound for another process: it can listen there, and nobody else is given them."""

import contextlib
import errno
import os
import socket
import subprocess
import sys
from typing import Iterator, List

import pytest

from ascend_session.backends.exchange.network import import_grpc
from ascend_session.cluster import bind_port, coordinator

# Asks for any port, again and again, in all the ways there are, and keeps what it gets.
_GREEDY = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
family, address, reuse = sys.argv[1:]
kept = []
for _ in range(1000):
    one = socket.socket(socket.AF_INET6 if family == "6" else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
    one.bind((address, 0))
    one.listen(1)
    kept.append(one)
print(*[one.getsockname()[1] for one in kept])
"""


@contextlib.contextmanager
def bound_ports(count: int) -> Iterator[List[int]]:
    """Bind so many ports, any that are free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(bind_port()) for _ in range(count)]
        yield [one.getsockname()[1] for one in sockets]


def can_listen(port: int, reuse: bool) -> bool:
    """Whether a program can listen at this port."""
    with socket.socket() as wanting:
        wanting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        try:
            wanting.bind(("127.0.0.1", port))
            wanting.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as trying:
            trying.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_only_who_reuses_addresses_can_listen_at_a_bound_port() -> None:
    with bound_ports(1) as (port,):
        assert not can_listen(port, reuse=False)
        assert can_listen(port, reuse=True)
        assert not can_listen(port, reuse=False)
    assert can_listen(port, reuse=False)


def test_without_ipv6_a_port_is_bound_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bind_address = coordinator.bind_address

    def without(family: int, address: str, port: int = 0) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return bind_address(family, address, port)

    monkeypatch.setattr(coordinator, "bind_address", without)
    with bound_ports(1) as (port,):
        assert not can_listen(port, reuse=False)
        assert can_listen(port, reuse=True)


def test_grpc_listens_at_a_bound_port() -> None:
    from concurrent import futures

    grpc = import_grpc()
    with bound_ports(1) as (port,):
        server = grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
        assert server.add_insecure_port(f"127.0.0.1:{port}") == port
        server.start()
        socket.create_connection(("127.0.0.1", port), 60).close()
        server.stop(None).wait()


@pytest.mark.parametrize("reuse", ["0", "1"])
@pytest.mark.parametrize(
    ("family", "address"),
    [("4", "127.0.0.1"), ("4", ""), ("4", "127.0.0.2"), ("6", "::1"), ("6", "::")],
)
def test_who_asks_for_any_port_is_never_given_a_bound_one(
    family: str, address: str, reuse: str
) -> None:
    if family == "6" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with bound_ports(500) as kept:
        given = subprocess.run(
            [sys.executable, "-S", "-c", _GREEDY, family, address, reuse],
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        ).stdout
    assert len(given.split()) == 1000
    # One in thirty of all that there are: by chance about thirty would be among them.
    assert not set(map(int, given.split())) & set(kept)
