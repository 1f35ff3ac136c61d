"""What the first rank's node makes of messages, whatever order they come in."""

import os
import socket
from typing import Dict, Iterator, List

import pytest

from ascend_session.backends.exchange.relay import Client, Relay
from ascend_session.backends.exchange.rendezvous import Rank, Rendezvous

Refusals = Dict[int, str]


@pytest.fixture
def refusals() -> Refusals:
    return {}


@pytest.fixture
def clients() -> Iterator[List[Client]]:
    """Two processes that are connected."""
    pairs = [socket.socketpair() for _ in range(2)]
    yield [Client(number, here) for number, (here, _) in enumerate(pairs)]
    for pair in pairs:
        for end in pair:
            end.close()


@pytest.fixture
def relay(clients: List[Client], refusals: Refusals) -> Relay:
    hub = Rank(0, 2, "", 2, Rendezvous("job", ("name",)), is_hub=True)

    def refuse(client: Client, reason: str) -> None:
        refusals[client.number] = reason

    return Relay(hub, dict(enumerate(clients)), lambda *message: None, refuse, 1)


def test_rank_0_hears_of_a_rank_with_another_size_that_came_before_it(
    relay: Relay, clients: List[Client], refusals: Refusals
) -> None:
    for client, rank, size in zip(clients, (1, 0), (3, 2)):
        hello = {"kind": "hello", "job": "job", "starter": None, "system": 1, "rank": rank}
        hello.update(size=size, pid=os.getpid(), node="", local_size=2)
        relay.handle(client, hello, b"")
    assert sorted(refusals) == [0, 1]
    for refusal in refusals.values():
        assert "ank 1 says that the job has 3 ranks, rank 0 says 2" in refusal
