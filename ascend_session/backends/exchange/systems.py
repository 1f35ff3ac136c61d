"""What the ranks of a node and the other nodes send, and what follows from it.

The hubs of all nodes pass on what their ranks send to the hub of rank 0's node, which has a
coordinator for each system. It answers with events, for one rank or for all of them. What is
exchanged in shared memory is kept in step on each node.
"""

import collections
import functools
import os
import socket
import threading
import time
from typing import (
    TYPE_CHECKING,
    Callable,
    Deque,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ascend_session.backends.exchange.coordinator import (
    Coordinator,
    RankInfo,
    RefusedError,
    Run,
    parted,
    read_entry,
)
from ascend_session.backends.exchange.messages import (
    CANNOT_GO_ON,
    FIRST_NODE_LEFT,
    Header,
    Operation,
    encode,
    encode_result,
    rank_ended,
    rank_failed,
)
from ascend_session.backends.exchange.rendezvous import Rendezvous, credentials_of, same_starter
from ascend_session.backends.exchange.standstill import Lookout
from ascend_session.backends.exchange.transfers import Transfers
from ascend_session.errors import AscendError

if TYPE_CHECKING:  # jobs of one node have no gRPC
    from ascend_session.backends.exchange.links import Links

_FIRST = ""  # the name of rank 0's node

Place = Tuple[str, int]
"""Where a rank is connected: the node, and the number of its connection there."""


class Node(NamedTuple):
    """The ranks of one node, as their hub knows them beforehand.

    Attributes:
        rendezvous: Where they meet.
        rank: The rank of the process that is their hub.
        size: The number of ranks of the whole job.
        links: The way to the other nodes; None in a job of one node.
    """

    rendezvous: Rendezvous
    rank: int
    size: int
    links: "Optional[Links]" = None

    @property
    def name(self) -> str:
        """What the other nodes call it; empty where rank 0 is."""
        return _FIRST if self.links is None else self.links.name


class Client:
    """A process that is connected to the hub.

    Attributes:
        number: Another one for each.
        pid: As the kernel knows it; 0 if it is not visible from here.
        uid: Its user.
        since: When it connected.
        has_said_hello: Whether it has said who it is.
        system: The system that it was let into.
        rank: As which.
        outbox: What it could not take yet, and the open files that go with it.
    """

    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self.connection = connection
        self.pid, self.uid = credentials_of(connection)
        self.since = time.monotonic()
        self.has_said_hello = False
        self.system: Optional[System] = None
        self.rank = -1
        self.outbox: Deque[Tuple[bytes, Optional[int]]] = collections.deque()

    def empty_outbox(self) -> None:
        """Forget what was not sent."""
        while self.outbox:
            descriptor = self.outbox.popleft()[1]
            if descriptor is not None:
                os.close(descriptor)


class System:
    """The ranks of one system on this node.

    Attributes:
        number: Which system of the job, from 1.
        clients: The ranks that are here.
        coordinator: Of all ranks, on the first node; None elsewhere.
        places: Where each rank is, on the first node.
        is_over: Whether all ranks have left, or the job cannot go on.
        has_failed: Whether it cannot go on.
        first_has_left: Whether rank 0, which is elsewhere, has left it.
    """

    def __init__(self, number: int, lookout: Lookout, transfers: Transfers) -> None:
        self.number = number
        self.clients: Dict[int, Client] = {}
        self.coordinator: Optional[Coordinator] = None
        self.places: Dict[int, Place] = {}
        self.is_over = self.has_failed = self.first_has_left = False
        self.lookout = lookout
        self.transfers = transfers

    @property
    def other_nodes(self) -> Set[str]:
        """The other nodes of its ranks, on the first one; empty elsewhere."""
        return {node for node, _ in self.places.values()} - {_FIRST}


class Systems:
    """All systems that the ranks of a node open one after the other.

    Args:
        node: Which node.
        clients: The processes that are connected, by number.
        send: Sends one of them a message, and a descriptor with it.
        refuse: Tells one of them why it is not let in, and ends its connection.
        first_system: Number of the system that the hub's process is about to join.
    """

    def __init__(
        self,
        node: Node,
        clients: Mapping[int, Client],
        send: Callable[[Client, bytes, Optional[int]], None],
        refuse: Callable[[Client, str], None],
        first_system: int,
    ) -> None:
        self._node = node
        self._clients = clients
        self._send = send
        self._refuse = refuse
        self._systems: Dict[int, System] = {}
        self._first = first_system
        self._latest = first_system - 1
        self._joined: Dict[Place, Tuple[System, int]] = {}  # all ranks, on the first node
        self._addresses: Dict[str, str] = {}  # of the other nodes, on the first one
        self._first_lost = ""  # why the first node cannot be asked
        self._unsettled: Set[str] = set()  # nodes that have not heard that the job has failed
        self._settled = threading.Event()
        self._settled.set()

    @property
    def are_over(self) -> bool:
        """Whether there was a system, and none has to be remembered any more."""
        return self._latest >= self._first and not self._systems

    def settle(self, timeout_s: float) -> None:
        """Wait until all nodes know why the job cannot go on, if it cannot; from any thread."""
        self._settled.wait(timeout_s)

    def close(self) -> None:
        """Let go of the shared memory."""
        for system in self._systems.values():
            system.transfers.close()

    # What the ranks of this node send

    def handle(self, client: Client, header: Header, payload: bytes) -> None:
        """Handle a message of a process of this node.

        Raises:
            One of UNREADABLE: If it is none, or one that it may not send.
        """
        kind, system = header["kind"], client.system
        if system is None:
            self._greet(client, header)
        elif kind == "step":
            system.transfers.arrive(client.rank)
        elif kind == "finish":
            finish = functools.partial(system.transfers.finish, client.rank)
            self._use_memory(client, finish)
        elif kind == "hello":
            raise ValueError("a rank says once who it is")
        else:
            if kind == "leave" and client.rank == self._node.rank:
                self._announce(system, {"event": "hub_left"})
                for node in system.other_nodes:
                    self._send_to(node, {"kind": "first_left", "system": system.number})
            self._pass_on(client.number, header, payload)

    def disconnect(self, client: Client) -> None:
        """Note that the connection of a process has ended."""
        if client.has_said_hello:
            self._pass_on(client.number, {"kind": "disconnect"})
        system = client.system
        if system is not None:
            del system.clients[client.rank]
            self._forget_ended(system)

    def _greet(self, client: Client, hello: Header) -> None:
        """Ask the first node whether a process that says which rank it is may come in."""
        rendezvous, rank = self._node.rendezvous, int(hello["rank"])
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
            if client.pid != numbers["pid"]:
                client.pid = 0  # in another namespace: it cannot be looked at
            header = {"kind": "hello", "rank": rank, "node": str(hello["node"]), **numbers}
            self._pass_on(client.number, header)

    def _use_memory(self, client: Client, action: Callable[[], None]) -> None:
        """Do what needs shared memory; the job ends for all if there is none."""
        try:
            action()
        except (AscendError, MemoryError, OSError) as error:
            self._pass_on(client.number, {"kind": "fail", "reason": str(error)})

    def _pass_on(self, number: int, header: Header, payload: bytes = b"") -> None:
        """Tell the coordinator what a process of this node says."""
        if self._node.name == _FIRST:
            self._coordinate((_FIRST, number), header, payload)
        else:
            self._send_to(_FIRST, {"kind": "from", "client": number, "header": header}, payload)

    def _send_to(self, node: str, header: Header, payload: bytes = b"") -> None:
        assert self._node.links is not None
        self._node.links.send(node, header, payload)

    def _announce(self, system: System, event: Header) -> None:
        """Send an event to all ranks of a system on this node."""
        if event["event"] in ("over", "end"):
            system.is_over, system.has_failed = True, event["event"] == "end"
        message = encode(event)
        for client in list(system.clients.values()):
            self._send(client, message, None)
        self._forget_ended(system)

    def _forget_ended(self, system: System) -> None:
        """Forget a system that has ended in order; late ranks are told how others have failed."""
        if system.is_over and not system.has_failed and not system.clients:
            system.transfers.close()
            self._systems.pop(system.number, None)

    def _answer(self, number: int, event: Header) -> None:
        """Tell a process of this node whether it is let in."""
        client = self._clients.get(number)
        if client is None:
            return  # it has ended meanwhile, which the first node hears, too
        if event["event"] == "refused":
            self._refuse(client, str(event["reason"]))
        else:
            client.system, client.rank = self._system(int(event["system"])), int(event["rank"])
            client.system.clients[client.rank] = client
            self._send(client, encode({**event, "hub": self._node.rank}), None)

    def _system(self, number: int) -> System:
        if number not in self._systems:
            self._systems[number] = self._new_system(number)
        return self._systems[number]

    def _new_system(self, number: int) -> System:
        def lose(rank: int) -> None:
            self._pass_on(system.clients[rank].number, {"kind": "disconnect"})

        def tell(rank: int, message: bytes, descriptor: Optional[int]) -> None:
            if rank in system.clients:
                self._send(system.clients[rank], message, descriptor)

        def send(node: str, header: Header, piece: bytes) -> None:
            self._send_to(node, {"kind": "piece", "system": number, **header}, piece)

        def finish(rank: int, run: int) -> None:
            self._pass_on(system.clients[rank].number, {"kind": "finish", "run": run})

        system = System(number, Lookout(lose), Transfers(tell, send, finish))
        return system

    def _begin(self, system: System, run: Run, members: Mapping[str, List[int]]) -> None:
        """Have the ranks of this node begin a run."""
        here = members[self._node.name]
        if run.result is not None:
            message = encode_result(run.operation.key, run.sizes) + run.result
            for rank in here:
                if rank in system.clients:
                    self._send(system.clients[rank], message, None)
        elif here[0] in system.clients:
            elsewhere = {node: ranks for node, ranks in members.items() if node != self._node.name}
            begin = functools.partial(system.transfers.begin, run, here, elsewhere)
            self._use_memory(system.clients[here[0]], begin)

    # On the first node: the coordinators of all ranks

    def _coordinate(self, place: Place, header: Header, payload: bytes) -> None:
        """Tell the coordinator what a process says, wherever that is."""
        kind = header["kind"]
        if kind == "hello":
            self._admit(place, header)
        if place not in self._joined:
            return
        system, rank = self._joined[place]
        coordinator = system.coordinator
        assert coordinator is not None
        if kind == "enter":
            coordinator.enter(rank, read_entry(header, payload))
        elif kind == "finish":
            coordinator.finish(rank, int(header["run"]))
        elif kind == "disconnect":
            del self._joined[place]
            coordinator.disconnect(rank)
        elif kind == "leave":
            coordinator.leave(rank)
        elif kind == "fail":
            coordinator.end(rank_failed(rank, str(header["reason"])))
        elif kind == "give_up":
            coordinator.give_up(float(header["seconds"]))
        elif kind == "time_out":
            coordinator.time_out(rank, str(header["key"]), float(header["seconds"]))
        elif kind == "hello":
            coordinator.announce()
        else:
            raise ValueError(f"a rank does not send {kind!r}")

    def _admit(self, place: Place, hello: Header) -> None:
        """Let a rank in, or say why not.

        It may join the next system before the others have left this one, but no later one: that
        would keep all others from those between.
        """
        node, client = place
        number, rank = int(hello["system"]), int(hello["rank"])
        host = self._addresses.get(node, "").rpartition(":")[0]
        info = RankInfo(hello["pid"], hello["node"], hello["local_size"], host)
        system = self._systems.get(number) or self._new_system(number)
        event = {"event": "welcome", "system": number, "rank": rank}
        try:
            if number not in self._systems and number != self._latest + 1:
                raise RefusedError(parted(rank))
            self._coordinator(system).admit(rank, hello["size"], info)
        except RefusedError as refusal:
            event = {"event": "refused", "reason": str(refusal)}
            if system.coordinator is not None and system.coordinator.ended is not None:
                self._remember(system)  # whoever comes later has to hear why, even rank 0
        else:
            self._remember(system)
            self._joined[place], system.places[rank] = (system, rank), place
        if node == _FIRST:
            self._answer(client, event)
        else:
            self._send_to(node, {"kind": "answer", "client": client, "event": event})

    def _remember(self, system: System) -> None:
        self._systems[system.number] = system
        self._latest = max(self._latest, system.number)

    def _coordinator(self, system: System) -> Coordinator:
        if system.coordinator is None:
            system.coordinator = Coordinator(
                self._node.size,
                functools.partial(self._tell_all, system),
                functools.partial(self._start, system),
            )
        return system.coordinator

    def _tell_all(self, system: System, event: Header) -> None:
        """Send an event to all ranks of a system, on all nodes."""
        nodes = system.other_nodes
        if event["event"] == "end":
            self._settled.clear()
            self._unsettled |= nodes
        for node in nodes:
            if event["event"] == "together":
                self._send_to(node, {"kind": "nodes", "addresses": self._addresses})
            self._send_to(node, {"kind": "event", "system": system.number, "event": event})
        self._announce(system, event)
        self._check_settled()

    def _check_settled(self, node: str = _FIRST) -> None:
        self._unsettled.discard(node)
        if not self._unsettled:
            self._settled.set()

    def _start(self, system: System, run: Run) -> None:
        """Have the ranks of a run begin, each on its node."""
        members: Dict[str, List[int]] = {}
        for rank in run.operation.ranks:
            members.setdefault(system.places[rank][0], []).append(rank)
        header = {"kind": "run", "system": system.number, "members": members}
        header.update(run._replace(result=None)._asdict(), has_result=run.result is not None)
        for node in members:
            if node == _FIRST:
                self._begin(system, run, members)
            else:
                self._send_to(node, header, run.result or b"")

    def _lose_ranks(self, node: str, by: str = "", reason: str = "") -> None:
        """Note that a node is lost; with a reason, that another one could never reach it."""
        for system in list(self._systems.values()):
            coordinator = system.coordinator
            assert coordinator is not None
            lost = sorted(rank for rank in coordinator.staying if system.places[rank][0] == node)
            if lost and reason:
                others = min(rank for rank, (there, _) in system.places.items() if there == by)
                coordinator.end(
                    f"{CANNOT_GO_ON}rank {others} cannot reach the node of rank {lost[0]}: "
                    f"{reason} The nodes of a job have to reach each other, at ports that the "
                    "system gives them."
                )
            elif lost:
                coordinator.disconnect(lost[0])

    # What other nodes send

    def receive(self, node: str, header: Header, payload: bytes) -> None:
        """Handle a message of another node's hub.

        Raises:
            One of UNREADABLE: If it is none.
        """
        kind = header["kind"]
        if kind == "nodes":
            assert self._node.links is not None
            self._node.links.introduce(header["addresses"])
        elif kind == "address":
            self._addresses[node] = str(header["address"])
        elif kind == "from":
            self._coordinate((node, int(header["client"])), header["header"], payload)
        elif kind == "answer":
            self._answer(int(header["client"]), header["event"])
        elif kind == "settled":
            self._check_settled(node)
        elif kind == "lost":
            self._lose_ranks(str(header["node"]), node, str(header["reason"]))
        elif int(header["system"]) in self._systems:
            self._receive_of(self._systems[int(header["system"])], kind, header, payload)

    def _receive_of(self, system: System, kind: str, header: Header, payload: bytes) -> None:
        if kind == "piece":
            system.transfers.receive(header, payload)
        elif kind == "first_left":
            system.first_has_left = True
        elif kind == "event":
            self._settled.clear()
            self._announce(system, header["event"])
            self._settled.set()
            if system.has_failed:
                self._send_to(_FIRST, {"kind": "settled"})
        elif kind == "run":
            key, name, ranks, signature = header["operation"]
            operation = Operation.of(key, name, tuple(ranks), signature)
            result = payload if header["has_result"] else None
            sizes = tuple(header["sizes"])
            run = Run(int(header["number"]), operation, str(header["plan"]), sizes, result)
            self._begin(system, run, header["members"])
        elif kind == "used" and system.coordinator is not None:
            used_s = {int(rank): float(used) for rank, used in header["used"].items()}
            system.lookout.report(used_s, system.coordinator.version)

    def lose_node(self, node: str, reason: str) -> None:
        """Note that another node cannot be reached any more, or not at all."""
        if self._node.name == _FIRST:
            self._check_settled(node)
            self._lose_ranks(node)
        elif node != _FIRST:
            self._send_to(_FIRST, {"kind": "lost", "node": node, "reason": reason})
        else:
            self._first_lost = reason or rank_ended(0, were_all_there=False)
            for client in list(self._clients.values()):
                if client.system is None:
                    self._refuse(client, self._first_lost)
            for system in self._systems.values():
                if not system.is_over:
                    ended = FIRST_NODE_LEFT if system.first_has_left else rank_ended(0)
                    self._announce(system, {"event": "end", "reason": ended})

    # The clock

    def look(self, now: float) -> bool:
        """Look at ranks that have waited for a while; tell whether anybody waits at all."""
        is_watched = False
        for system in list(self._systems.values()):
            coordinator = system.coordinator
            # Whether others wait for a rank of this node, only the first node knows.
            waits = coordinator is None or coordinator.has_waits
            if system.is_over or not (waits or system.transfers.is_busy):
                continue
            is_watched = True
            since = coordinator.waiting_since if coordinator is not None and waits else 0.0
            if not system.lookout.is_due(now, since):
                continue
            pids = {rank: client.pid for rank, client in system.clients.items()}
            used_s = system.lookout.look(pids)
            if coordinator is None:
                used = {"kind": "used", "system": system.number, "used": used_s}
                self._send_to(_FIRST, used)
            elif not system.is_over:
                system.lookout.judge(coordinator, used_s)
        return is_watched
