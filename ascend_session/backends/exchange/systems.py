"""The systems of a job, on the node of rank 0: who is in which, and where.

The ranks open one system after the other, each of which has a coordinator. Whatever a rank says
comes here through its node's `Relay`, and what the coordinator answers goes back the same way.
"""

import functools
import threading
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from ascend_session.backends.exchange.coordinator import (
    Coordinator,
    RankInfo,
    RefusedError,
    Run,
    parted,
    read_entry,
)
from ascend_session.backends.exchange.messages import CANNOT_GO_ON, Header, rank_failed
from ascend_session.backends.exchange.standstill import Standstill

FIRST = ""
"""The name of rank 0's node."""

Place = Tuple[str, int]
"""Where a rank is connected: the node, and the number of its connection there."""


class System:
    """The ranks of one system.

    Attributes:
        number: Which system of the job, from 1.
        coordinator: What they have told.
        places: Where each is, whether it still is or not.
        standstill: What is seen of those that wait.
    """

    def __init__(
        self,
        number: int,
        size: int,
        tell: Callable[["System", Header, bytes, Sequence[int]], None],
        start: Callable[["System", Run], None],
    ) -> None:
        self.number = number
        self.places: Dict[int, Place] = {}
        self.coordinator = Coordinator(
            size,
            lambda event: tell(self, event, b"", list(self.places)),
            functools.partial(start, self),
        )
        self.standstill = Standstill()


class Systems:
    """All systems of a job.

    Args:
        size: The number of its ranks.
        first_system: Number of the system that rank 0 is about to join.
        send: Sends a node a message, which may be this one.
        settled: Set while all nodes know why the job cannot go on, if it cannot.
    """

    def __init__(
        self,
        size: int,
        first_system: int,
        send: Callable[[str, Header, bytes], None],
        settled: threading.Event,
    ) -> None:
        self._size = size
        self._send = send
        self._settled = settled
        self._unsettled: Set[str] = set()
        self._systems: Dict[int, System] = {}
        self._first = first_system
        self._latest = first_system - 1
        self._joined: Dict[Place, Tuple[System, int]] = {}
        self._addresses: Dict[str, str] = {}  # at which the other nodes listen

    @property
    def are_over(self) -> bool:
        """Whether there was a system, and none has to be remembered any more."""
        return self._latest >= self._first and not self._systems

    @property
    def waiting_since(self) -> Optional[float]:
        """When ranks began to wait for others, if any do."""
        coordinators = [system.coordinator for system in self._systems.values()]
        return min((one.waiting_since for one in coordinators if one.is_busy), default=None)

    def receive(self, node: str, header: Header, payload: bytes) -> None:
        """Handle what a node says.

        Raises:
            One of UNREADABLE: If it is no message, or one that a node or rank may not send.
        """
        kind = header["kind"]
        if kind == "from":
            self._coordinate((node, int(header["client"])), header["header"], payload)
        elif kind == "used":
            self._judge(node, header["used_s"])
        elif kind == "address":
            self._addresses[node] = str(header["address"])
        elif kind == "settled":
            self._settle(node)
        elif kind == "lost":
            self._lose_ranks(str(header["node"]), node, str(header["reason"]))
        else:
            raise ValueError(f"a node does not send {kind!r}")

    def lose_node(self, node: str) -> None:
        """Note that another node cannot be reached any more."""
        self._lose_ranks(node)
        self._settle(node)

    def _coordinate(self, place: Place, header: Header, payload: bytes) -> None:
        """Tell the coordinator what a process says."""
        kind = header["kind"]
        if kind == "hello":
            self._admit(place, header)
        if place not in self._joined:
            return
        system, rank = self._joined[place]
        coordinator = system.coordinator
        if kind == "enter":
            coordinator.enter(rank, read_entry(header, payload))
        elif kind == "finish":
            coordinator.finish(rank)
        elif kind == "disconnect":
            del self._joined[place]
            coordinator.disconnect(rank)
            self._forget_ended(system)
        elif kind == "leave":
            if rank == 0:  # through it the other nodes reach each other
                self._tell(system, {"event": "left", "rank": 0}, b"", list(system.places))
            coordinator.leave(rank)
        elif kind == "fail":
            coordinator.end(rank_failed(rank, str(header["reason"])))
        elif kind == "give_up":
            coordinator.give_up(float(header["seconds"]))
        elif kind == "time_out":
            coordinator.time_out(rank, str(header["key"]), float(header["seconds"]))
        elif kind == "hello":
            if coordinator.is_complete:
                for node in {node for node, _ in system.places.values()} - {FIRST}:
                    self._send(node, {"kind": "nodes", "addresses": self._addresses}, b"")
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
        system = self._systems.get(number) or System(number, self._size, self._tell, self._start)
        event: Header = {"event": "welcome", "system": number, "rank": rank}
        try:
            if number not in self._systems and number != self._latest + 1:
                raise RefusedError(parted(rank))
            system.coordinator.admit(rank, hello["size"], info)
        except RefusedError as refusal:
            event = {"event": "refused", "reason": str(refusal)}
            if system.coordinator.ended is not None:
                self._remember(system)  # whoever comes later has to hear why, even rank 0
        else:
            self._remember(system)
            self._joined[place], system.places[rank] = (system, rank), place
        self._send(node, {"kind": "to", "event": event, "clients": [client]}, b"")

    def _remember(self, system: System) -> None:
        self._systems[system.number] = system
        self._latest = max(self._latest, system.number)

    def _forget_ended(self, system: System) -> None:
        """Forget a system that has ended in order; late ranks are told how others have failed."""
        is_left = all(joined[0] is not system for joined in self._joined.values())
        if is_left and system.coordinator.is_over and system.coordinator.ended is None:
            self._systems.pop(system.number, None)

    def _tell(self, system: System, event: Header, payload: bytes, ranks: Sequence[int]) -> None:
        """Send an event to ranks, wherever they are."""
        clients: Dict[str, List[int]] = {}
        for rank in ranks:
            node, client = system.places[rank]
            clients.setdefault(node, []).append(client)
        if event["event"] == "end" and clients:
            self._settled.clear()
            self._unsettled |= set(clients)
        for node, numbers in clients.items():
            self._send(node, {"kind": "to", "event": event, "clients": numbers}, payload)

    def _settle(self, node: str) -> None:
        self._unsettled.discard(node)
        if not self._unsettled:
            self._settled.set()

    def _start(self, system: System, run: Run) -> None:
        """Have the ranks of a run begin, each on its node, or tell them what comes of it."""
        operation, ranks = run.operation, run.operation.ranks
        if run.result is not None:
            event = {"event": "run", "key": operation.key, "sizes": run.sizes}
            self._tell(system, event, run.result, ranks)
            return
        members: Dict[str, List[Tuple[int, int]]] = {}
        for rank in ranks:
            node, client = system.places[rank]
            members.setdefault(node, []).append((rank, client))
        header = {"kind": "run", "system": system.number, "members": members}
        header.update(number=run.number, operation=operation, plan=run.plan, sizes=run.sizes)
        for node in members:
            self._send(node, header, b"")

    def _lose_ranks(self, node: str, by: str = FIRST, reason: str = "") -> None:
        """Note that a node is lost; with a reason, that another one could never reach it."""
        for system in list(self._systems.values()):
            coordinator, places = system.coordinator, system.places
            lost = sorted(rank for rank in coordinator.staying if places[rank][0] == node)
            if lost and reason:
                others = min(rank for rank, (there, _) in places.items() if there == by)
                coordinator.end(
                    f"{CANNOT_GO_ON}rank {others} cannot reach the node of rank {lost[0]}: "
                    f"{reason} The nodes of a job have to reach each other, at ports that the "
                    "system gives them."
                )
            elif lost:
                coordinator.disconnect(lost[0])

    def _judge(self, node: str, used_s: Sequence[Tuple[int, float]]) -> None:
        """Note what processes of a node have used; judge whether ranks that wait can go on."""
        for client, seconds in used_s:
            if (node, int(client)) in self._joined:
                system, rank = self._joined[node, int(client)]
                system.standstill.report(rank, float(seconds), system.coordinator.version)
        if node == FIRST:
            for system in list(self._systems.values()):
                if system.coordinator.is_busy:
                    system.standstill.judge(system.coordinator)
