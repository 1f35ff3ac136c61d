"""Where the servers of the ranks are, as each of them reaches the others."""

import socket
from typing import Any

import pytest

from ascend_session.backends.ranks import endpoint
from ascend_session.backends.ranks.endpoint import (
    Endpoint,
    endpoint_in,
    local_side,
    own_port,
    servers,
    this_machine,
)
from ascend_session.errors import InitializationError
from tests.launcher.nodes import own_address


def test_who_says_no_host_is_where_the_others_reach_the_coordinator() -> None:
    ranks = [Endpoint(1), Endpoint(2), Endpoint(3, "192.0.2.7"), Endpoint(4, "fd00::7")]
    assert servers(ranks, "node0:9", own=1) == [
        "node0:1",
        "127.0.0.1:2",
        "192.0.2.7:3",
        "[fd00::7]:4",
    ]
    assert servers(ranks, "[fd00::2]:9", own=2)[:3] == ["[fd00::2]:1", "[fd00::2]:2", "127.0.0.1:3"]


def test_on_one_machine_all_are_on_loopback() -> None:
    assert servers([Endpoint(1), Endpoint(2)], "127.0.0.1:9", 0) == ["127.0.0.1:1", "127.0.0.1:2"]


@pytest.mark.parametrize("where", ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"])
def test_the_way_to_loopback_stays_inside(where: str) -> None:
    assert local_side(where) == ""


def test_the_way_to_an_own_address_stays_inside() -> None:
    assert local_side(f"{own_address()}:4000") == ""


@pytest.mark.skipif(own_address() == "127.0.0.1", reason="there is no way out of this machine")
def test_the_way_out_has_an_address() -> None:
    assert local_side("192.0.2.77:4000") == own_address()


def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InitializationError, match="There is no way from here to no-such-host:1"):
        local_side("no-such-host:1")


def test_a_port_that_the_launcher_keeps_is_taken() -> None:
    assert own_port({"ASCEND_SESSION_PORT": "4001"}) == 4001


def test_without_a_launcher_a_port_is_kept_until_the_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(endpoint, "_kept", {})
    port = own_port({})
    assert own_port({}) == port
    with socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    with socket.socket() as server:  # as TensorFlow's does it
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", port))
        server.listen(1)
    endpoint._kept["server"].close()


def test_places_travel() -> None:
    place = Endpoint(4000, "192.0.2.7", "4", "machine", 2)
    assert endpoint_in(list(place)) == place
    with pytest.raises(ValueError, match="invalid literal"):
        endpoint_in(["port", "", "", "", 1])
    with pytest.raises(ValueError, match="not enough values"):
        endpoint_in([1, "", ""])


def test_processes_of_one_machine_know_that_they_are() -> None:
    assert this_machine() == this_machine() != ""
