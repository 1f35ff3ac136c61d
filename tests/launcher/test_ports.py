"""A port that is free, and one that is not."""

import random
import socket
from typing import Iterator

import pytest

from ascend_session.errors import JobError
from ascend_session.launcher.rendezvous import check_port, free_port, own_address


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        yield int(listening.getsockname()[1])


def test_a_free_port_can_be_bound() -> None:
    port = free_port("127.0.0.1", {})
    with socket.socket() as binding:
        binding.bind(("127.0.0.1", port))
        assert binding.getsockname()[1] == port


def test_a_port_that_somebody_has_is_passed_over(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = free_port("127.0.0.1", {})
    monkeypatch.setattr(random.SystemRandom, "sample", lambda *_: [taken, free])
    assert free_port("127.0.0.1", {}) == free


def test_hccls_own_ports_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_port("127.0.0.1", {})
    monkeypatch.setattr(random.SystemRandom, "sample", lambda *_: [16666, 30000, 30031, free])
    assert free_port("127.0.0.1", {"HCCL_IF_BASE_PORT": "30000"}) == free


def test_no_free_port_is_an_error(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random.SystemRandom, "sample", lambda *_: [taken])
    with pytest.raises(JobError, match="none was free"):
        free_port("127.0.0.1", {})


def test_two_launches_do_not_try_the_same_ports_in_the_same_order() -> None:
    assert len({free_port("127.0.0.1", {}) for _ in range(5)}) > 1


@pytest.mark.parametrize("port", [16666, 60000, 60031])
def test_a_port_that_hccl_takes_is_refused(port: int) -> None:
    with pytest.raises(JobError, match=f"chief_port={port} .* HCCL uses that port itself"):
        check_port("127.0.0.1", port, {})


def test_a_given_port_that_is_taken_is_refused(taken: int) -> None:
    with pytest.raises(JobError, match="another process has bound it"):
        check_port("127.0.0.1", taken, {})


def test_a_given_port_counts_as_free_while_old_connections_linger() -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", free_port("127.0.0.1", {})))
        listening.listen(1)
        port = int(listening.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as calling:
            answering, _ = listening.accept()
            answering.close()  # the side that closes first keeps the port in TIME_WAIT
            assert calling.recv(1) == b""
    check_port("127.0.0.1", port, {})
    with socket.socket() as binding, pytest.raises(OSError, match="in use"):
        binding.bind(("127.0.0.1", port))


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_an_address_of_another_server_is_refused(address: str) -> None:
    with pytest.raises(JobError, match="is not an address of this server"):
        free_port(address, {})


def test_the_own_address_is_one_of_this_server() -> None:
    assert free_port(own_address(), {}) > 1024
