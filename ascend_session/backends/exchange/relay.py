"""What the ranks of a node say and hear, the same way on every node.

What a rank says goes to the node of rank 0, whose `Systems` answer. What it does in shared memory
is kept in step on its own node, where the end of its process is noticed, too.
"""

import collections
import functools
import os
import socket
import threading
import time
from typing import Callable, Deque, Mapping, Optional, Sequence, Tuple

from ascend_session.backends.exchange.coordinator import Run
from ascend_session.backends.exchange.messages import Header, Operation, encode, rank_ended
from ascend_session.backends.exchange.rendezvous import Rank, credentials_of, same_starter
from ascend_session.backends.exchange.standstill import EndedError, RankProcess
from ascend_session.backends.exchange.systems import FIRST, Systems
from ascend_session.backends.exchange.transfers import Transfers
from ascend_session.errors import AscendError

INTERVAL_S = 0.5
"""Between two looks at ranks that wait."""

_INTERVAL_PER_RANK_S = 0.02  # and more with many ranks: a look takes a fifth of a millisecond each


class Client:
    """A process that is connected to the hub.

    Attributes:
        number: Another one for each.
        uid: Its user.
        pid: As the kernel knows it; 0 if it is not visible from here.
        process: What is seen of it; None if it has not said who it is, or is not visible.
        since: When it connected.
        has_said_hello: Whether it has said who it is.
        system: Number of the system that it was let into; 0 if it was not yet.
        rank: As which.
        outbox: What it could not take yet, and the open files that go with it.
    """

    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self.connection = connection
        self.pid, self.uid = credentials_of(connection)
        self.process: Optional[RankProcess] = None
        self.since = time.monotonic()
        self.has_said_hello = False
        self.system, self.rank = 0, -1
        self.outbox: Deque[Tuple[bytes, Optional[int]]] = collections.deque()

    def empty_outbox(self) -> None:
        """Forget what was not sent."""
        while self.outbox:
            descriptor = self.outbox.popleft()[1]
            if descriptor is not None:
                os.close(descriptor)


class Relay:
    """The way between the processes of a node and the systems of the job.

    Args:
        hub: The rank of which this is the hub.
        clients: The processes that are connected, by number.
        send: Sends one of them a message, and a descriptor with it.
        refuse: Tells one of them why it is not let in, and ends its connection.
        first_system: Number of the system that the hub's process is about to join.
    """

    def __init__(
        self,
        hub: Rank,
        clients: Mapping[int, Client],
        send: Callable[[Client, bytes, Optional[int]], None],
        refuse: Callable[[Client, str], None],
        first_system: int,
    ) -> None:
        self._rank, self._rendezvous, self._links = hub.rank, hub.rendezvous, hub.links
        self._name = FIRST if hub.links is None else hub.links.name
        self._clients = clients
        self._send = send
        self._refuse = refuse
        self._transfers = Transfers(self._deliver, self._send_to)
        self._first_lost = ""  # why the first node cannot be asked
        self._next_look = 0.0
        self._settled = threading.Event()
        self._settled.set()
        self._systems: Optional[Systems] = None  # they are where rank 0 is
        if self._name == FIRST:
            self._systems = Systems(hub.size, first_system, self._send_to, self._settled)

    @property
    def is_over(self) -> bool:
        """Whether there was a system, and none has to be remembered any more."""
        return self._systems is not None and self._systems.are_over

    def settle(self, timeout_s: float) -> bool:
        """Wait until all nodes know why the job cannot go on, if it cannot; from any thread.

        Returns:
            Whether they do.
        """
        return self._settled.wait(timeout_s)

    def close(self) -> None:
        """Let go of the shared memory."""
        self._transfers.close()

    # What the ranks of this node send

    def handle(self, client: Client, header: Header, payload: bytes) -> None:
        """Handle a message of a process of this node.

        Raises:
            One of UNREADABLE: If it is none, or one that it may not send.
        """
        kind = header["kind"]
        if not client.system:
            self._greet(client, header)
        elif kind == "step":
            self._transfers.arrive(client.number)
        elif kind == "hello":
            raise ValueError("a rank says once who it is")
        else:
            if kind == "leave" and client.rank == self._rank:
                peers = [
                    peer.number for peer in self._clients.values() if peer.system == client.system
                ]
                self._deliver({"event": "left", "rank": client.rank}, peers)
            self._pass_on(client.number, header, payload)
            if kind == "finish":
                finish = functools.partial(self._transfers.finish, client.number)
                self._use_memory(client.number, finish)

    def disconnect(self, client: Client) -> None:
        """Note that the connection of a process has ended."""
        if client.has_said_hello:
            self._pass_on(client.number, {"kind": "disconnect"})
        if all(other.system != client.system for other in self._clients.values()):
            self._transfers.end(client.system)

    def _greet(self, client: Client, hello: Header) -> None:
        """Ask the first node whether a process that says which rank it is may come in."""
        rendezvous, rank = self._rendezvous, int(hello["rank"])
        if client.has_said_hello:
            raise ValueError("a process says once who it is")
        numbers = {name: int(hello[name]) for name in ("system", "size", "pid", "local_size")}
        if str(hello["job"]) != rendezvous.job:
            self._refuse(
                client,
                f"This process wanted to join as rank {rank}, but the ranks of another job meet "
                "there. Start the ranks with `ascend-session launch`, which gives each job "
                "addresses of its own; on several nodes give each launcher the job's --coordinator "
                "and a --node-rank of its own.",
            )
        elif not same_starter(rendezvous.starter, hello["starter"]):
            named = f"with JOB_ID={rendezvous.job}" if rendezvous.job else ""
            self._refuse(
                client,
                f"This process wanted to join as rank {rank}, but the ranks that meet there belong "
                f"to another job {named or 'that the same shell has started'}: process "
                f"{os.getpid()} is the first of them, and has another parent and process group, "
                "working directory or script. Give each job a JOB_ID of its own: export "
                "JOB_ID=$$.",
            )
        elif self._first_lost:
            self._refuse(client, self._first_lost)
        else:
            client.has_said_hello = True
            if client.pid == numbers["pid"]:  # else in another namespace
                client.process = RankProcess(client.pid)
            header = {"kind": "hello", "rank": rank, "node": str(hello["node"]), **numbers}
            self._pass_on(client.number, header)

    def _pass_on(self, number: int, header: Header, payload: bytes = b"") -> None:
        """Tell the first node what a process of this node says."""
        if self._systems is not None:
            self._systems.hear((FIRST, number), header, payload)
        else:
            self._send_to(FIRST, {"kind": "from", "client": number, "header": header}, payload)

    def _send_to(self, node: str, header: Header, payload: bytes = b"") -> None:
        if node == self._name:
            self.receive(node, header, payload)
        else:
            assert self._links is not None
            self._links.send(node, header, payload)

    def _use_memory(self, number: int, action: Callable[[], None]) -> None:
        """Do what needs shared memory; the job ends for all if there is none."""
        try:
            action()
        except (AscendError, MemoryError, OSError) as error:
            self._pass_on(number, {"kind": "fail", "reason": str(error)})

    # What the nodes send

    def receive(self, node: str, header: Header, payload: bytes) -> None:
        """Handle a message of a node's hub, which may be this one.

        Raises:
            One of UNREADABLE: If it is none.
        """
        kind = header["kind"]
        if kind == "to":
            self._deliver(header["event"], header["clients"], payload)
        elif kind == "run":
            self._begin(header)
        elif kind == "piece":
            self._transfers.receive(header, payload)
        elif kind == "nodes":
            assert self._links is not None
            self._links.introduce(header["addresses"])
        else:
            assert self._systems is not None
            self._systems.receive(node, header, payload)

    def lose_node(self, node: str, reason: str) -> None:
        """Note that another node cannot be reached any more, or not at all."""
        if self._systems is not None:
            self._systems.lose_node(node)
        elif node != FIRST:
            self._send_to(FIRST, {"kind": "lost", "node": node, "reason": reason})
        else:
            self._first_lost = reason or rank_ended(0, were_all_there=False)
            for client in list(self._clients.values()):
                if client.system:
                    self._deliver({"event": "lost", "rank": 0}, [client.number])
                else:
                    self._refuse(client, self._first_lost)

    def _deliver(
        self,
        event: Header,
        numbers: Sequence[int],
        payload: bytes = b"",
        descriptor: Optional[int] = None,
    ) -> None:
        """Send an event to processes of this node, and perhaps an open file with it."""
        kind, message = event["event"], encode(event, payload)
        if kind == "end":
            self._settled.clear()
        for number in numbers:
            client = self._clients.get(number)
            if client is None:
                continue  # it has ended meanwhile, which the first node hears, too
            if kind == "refused":
                self._refuse(client, str(event["reason"]))
            elif kind == "welcome":
                client.system, client.rank = int(event["system"]), int(event["rank"])
                self._send(client, encode({**event, "hub": self._rank}), None)
            else:
                self._send(client, message, descriptor)
        if kind == "end" and self._systems is None:
            self._settled.set()
        if kind in ("end", "refused"):
            self._send_to(FIRST, {"kind": "settled"})

    def _begin(self, header: Header) -> None:
        """Have the ranks of this node begin a run."""
        key, name, ranks, signature = header["operation"]
        operation = Operation.of(key, name, tuple(ranks), signature)
        sizes = tuple(header["sizes"])
        run = Run(int(header["number"]), operation, str(header["plan"]), sizes)
        members = {node: dict(ranks) for node, ranks in header["members"].items()}
        here, system = members.pop(self._name), int(header["system"])
        if not any(number in self._clients for number in here.values()):
            return  # they have ended meanwhile
        elsewhere = {node: list(ranks) for node, ranks in members.items()}
        begin = functools.partial(self._transfers.begin, system, run, here, elsewhere)
        self._use_memory(next(iter(here.values())), begin)

    # The clock

    def look(self, now: float) -> bool:
        """Look at ranks that may have waited for a while; tell whether anybody waits at all."""
        since = 0.0
        if self._systems is not None:
            if self._systems.waiting_since is None:
                return False
            since = self._systems.waiting_since
        clients = [client for client in self._clients.values() if client.system]
        if self._systems is None and not clients:
            return False
        # Most waits are over before the first look.
        if now < max(self._next_look, since + INTERVAL_S):
            return True
        self._next_look = now + INTERVAL_S + _INTERVAL_PER_RANK_S * len(clients)
        used_s = []
        for client in clients:
            if client.process is None:
                continue
            try:
                seconds = client.process.processor_seconds()
            except EndedError:
                self._pass_on(client.number, {"kind": "disconnect"})
            else:
                if seconds is not None:
                    used_s.append((client.number, seconds))
        self._send_to(FIRST, {"kind": "used", "used_s": used_s})
        return True
