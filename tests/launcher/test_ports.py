"""The port of a chief: one that is free, and one that is not."""

import random
import socket
from typing import Any, Iterator

import pytest

from ascend_session.errors import JobError
from tests.fake_host import a2_chips, npu_smi_answers
from tests.launcher.jobs import Bench, bench

__all__ = ["bench"]


@pytest.fixture
def hosted(bench: Bench) -> Bench:
    """A host with two A2 devices, whose ranks meet at a chief."""
    bench.nodes(range(2))
    bench.host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    return bench


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        yield int(listening.getsockname()[1])


def port_of(bench: Bench, **asked: Any) -> int:
    """The port that a plan finds for the chief, or takes as it is given."""
    chief = {"no_rank_table": True, "chief_ip": "127.0.0.1", **asked}
    return int(bench.plan(processes=2, **chief).ranks[1].environment["CM_CHIEF_PORT"])


def test_a_free_port_can_be_bound(hosted: Bench) -> None:
    port = port_of(hosted)
    with socket.socket() as binding:
        binding.bind(("127.0.0.1", port))
        assert binding.getsockname()[1] == port


def test_a_port_that_somebody_has_is_passed_over(
    hosted: Bench, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = port_of(hosted)
    monkeypatch.setattr(random.SystemRandom, "sample", lambda *_: [taken, free])
    assert port_of(hosted) == free


def test_hccls_own_ports_are_passed_over(hosted: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hosted.environ["HCCL_IF_BASE_PORT"] = "30000"
    free = port_of(hosted)
    monkeypatch.setattr(random.SystemRandom, "sample", lambda *_: [16666, 30000, 30031, free])
    assert port_of(hosted) == free


def test_no_free_port_is_an_error(
    hosted: Bench, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random.SystemRandom, "sample", lambda *_: [taken])
    with pytest.raises(JobError, match="none was free"):
        port_of(hosted)


def test_two_launches_do_not_try_the_same_ports_in_the_same_order(hosted: Bench) -> None:
    assert len({port_of(hosted) for _ in range(5)}) > 1


@pytest.mark.parametrize("port", [16666, 60000, 60031])
def test_a_port_that_hccl_takes_is_refused(hosted: Bench, port: int) -> None:
    with pytest.raises(JobError, match=f"chief_port={port} .* HCCL uses that port itself"):
        port_of(hosted, chief_port=port)


def test_a_given_port_that_is_taken_is_refused(hosted: Bench, taken: int) -> None:
    with pytest.raises(JobError, match="another process has bound it"):
        port_of(hosted, chief_port=taken)


def test_a_given_port_counts_as_free_while_old_connections_linger(hosted: Bench) -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port_of(hosted)))
        listening.listen(1)
        port = int(listening.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as calling:
            answering, _ = listening.accept()
            answering.close()  # the side that closes first keeps the port in TIME_WAIT
            assert calling.recv(1) == b""
    assert port_of(hosted, chief_port=port) == port
    with socket.socket() as binding, pytest.raises(OSError, match="in use"):
        binding.bind(("127.0.0.1", port))


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_an_address_of_another_server_is_refused(hosted: Bench, address: str) -> None:
    with pytest.raises(JobError, match="is not an address of this server"):
        port_of(hosted, chief_ip=address)


def test_the_own_address_is_one_of_this_server(hosted: Bench) -> None:
    assert port_of(hosted, chief_ip=None) > 1024
