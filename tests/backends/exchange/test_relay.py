"""What a node makes of messages, whatever order they come in."""

import os
import socket
from typing import Any, Iterator, List, Tuple

import pytest

from ascend_session.backends.exchange.messages import Header, decode
from ascend_session.backends.exchange.relay import Client, Relay
from ascend_session.backends.exchange.rendezvous import Rank, Rendezvous

Told = List[Tuple[int, str]]


@pytest.fixture
def told() -> Told:
    """What the two processes were told, in order, each with its number: events, or refusals."""
    return []


@pytest.fixture
def clients() -> Iterator[List[Client]]:
    """Two processes that are connected."""
    pairs = [socket.socketpair() for _ in range(2)]
    yield [Client(number, here) for number, (here, _) in enumerate(pairs)]
    for pair in pairs:
        for end in pair:
            end.close()


@pytest.fixture
def relay(clients: List[Client], told: Told) -> Relay:
    hub = Rank(0, 2, "", 2, Rendezvous("job", ("name",)), is_hub=True)

    def send(client: Client, message: bytes, descriptor: Any) -> None:
        header, _ = decode(message)
        told.append((client.number, str(header.get("reason", header["event"]))))

    def refuse(client: Client, reason: str) -> None:
        told.append((client.number, reason))

    return Relay(hub, dict(enumerate(clients)), send, refuse, 1)


def greet(relay: Relay, client: Client, rank: int, size: int) -> None:
    """Say for a process which rank it is."""
    hello = {"kind": "hello", "job": "job", "starter": None, "system": 1, "rank": rank}
    hello.update(size=size, pid=os.getpid(), node="", local_size=2)
    relay.handle(client, hello, b"")


DIFFERENT = "ank 1 says that the job has 3 ranks, rank 0 says 2"


def test_rank_0_hears_of_a_rank_with_another_size_that_came_before_it(
    relay: Relay, clients: List[Client], told: Told
) -> None:
    greet(relay, clients[0], rank=1, size=3)
    greet(relay, clients[1], rank=0, size=2)
    assert [number for number, _ in told] == [0, 1]
    assert all(DIFFERENT in reason for _, reason in told)


def test_a_rank_with_another_size_hears_so_before_rank_0_ends_and_the_hub_with_it(
    relay: Relay, clients: List[Client], told: Told
) -> None:
    greet(relay, clients[0], rank=0, size=2)
    greet(relay, clients[1], rank=1, size=3)
    assert [number for number, _ in told] == [0, 1, 0]
    assert told[0][1] == "welcome"
    assert all(DIFFERENT in reason for _, reason in told[1:])


class Wire:
    """The way from the first node to the second; nobody reads what is sent."""

    name = ""

    def send(self, node: str, header: Header, payload: bytes) -> None:
        """Send the node a message."""


def test_the_first_node_waits_until_another_one_has_told_a_rank_that_it_is_refused(
    clients: List[Client],
) -> None:
    hub = Rank(0, 2, "", 1, Rendezvous("job", ("name",)), True, "a:1", Wire())  # type: ignore
    relay = Relay(hub, {0: clients[0]}, lambda *message: None, lambda *refusal: None, 1)
    greet(relay, clients[0], rank=0, size=2)
    hello = {"kind": "hello", "system": 1, "rank": 1, "size": 3}
    hello.update(pid=1, node="b", local_size=1)
    relay.receive("second", {"kind": "from", "client": 1, "header": hello}, b"")
    assert not relay.settle(0)
    relay.receive("second", {"kind": "settled"}, b"")
    assert relay.settle(0)


class Node:
    """The second node of two, with rank 1, as its first rank's hub sees it.

    Attributes:
        clients: The processes that are connected.
        told: What they were told, each with its process.
    """

    name = "second"

    def __init__(self, client: Client) -> None:
        self.clients = {client.number: client}
        self.told: Told = []
        hub = Rank(1, 2, "b", 1, Rendezvous("job", ("name",)), True, "a:1", self)  # type: ignore
        self.relay = Relay(hub, self.clients, self._note, lambda *refusal: None, 1)

    def send(self, node: str, header: Header, payload: bytes) -> None:
        """Send another node a message; nobody reads it."""

    def hear(self, **header: Any) -> None:
        """Take a message of the first node."""
        self.relay.receive("", header, header.pop("payload", b""))

    def welcome(self, system: int) -> None:
        """Let the process in as rank 1."""
        event = {"event": "welcome", "system": system, "rank": 1}
        self.hear(kind="to", event=event, clients=list(self.clients))

    def begin(self, system: int) -> None:
        """Have rank 1 begin a sum of sixteen numbers with rank 0."""
        self.hear(
            kind="run",
            system=system,
            number=1,
            operation=["key", "all_reduce", [0, 1], ""],
            plan="sum float32",
            sizes=[64, 64],
            members={"": [[0, 1]], self.name: [[1, 0]]},
        )

    def take_steps(self, client: Client) -> None:
        """Have rank 1 write, and reduce its part: then it waits for the first node's."""
        for _ in range(2):
            self.relay.handle(client, {"kind": "step"}, b"")

    def receive_sum(self, system: int) -> None:
        """Receive what rank 0 has for the sum."""
        self.hear(kind="piece", system=system, run=1, step=1, rank=0, payload=bytes(64))

    def lose(self, client: Client) -> None:
        """Note that a process has ended."""
        del self.clients[client.number]
        self.relay.disconnect(client)

    def _note(self, client: Client, message: bytes, descriptor: Any) -> None:
        self.told.append((client.number, str(decode(message)[0]["event"])))


@pytest.fixture
def node(clients: List[Client]) -> Iterator[Node]:
    node = Node(clients[0])
    yield node
    node.relay.close()


def test_what_another_node_sends_for_ranks_that_have_ended_is_left_alone(
    node: Node, clients: List[Client]
) -> None:
    node.welcome(1)
    node.begin(1)
    node.take_steps(clients[0])
    node.lose(clients[0])
    del node.told[:]
    node.receive_sum(1)
    node.begin(1)
    assert node.told == []


def test_a_run_whose_ranks_have_ended_meanwhile_takes_no_shared_memory(node: Node) -> None:
    node.clients.clear()
    before = len(os.listdir("/proc/self/fd"))
    node.begin(1)
    assert len(os.listdir("/proc/self/fd")) <= before
