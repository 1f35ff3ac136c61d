"""The systems of a job, on the node of rank 0: who is in which, and where.

The ranks open one system after the other, each of which has a coordinator. Whatever a rank says
comes here through its node's `Relay`, and what the coordinator answers goes back the same way.
"""

import collections
import threading
from typing import Callable, Collection, Counter, Dict, List, Optional, Sequence, Tuple

from ascend_session.backends.exchange.coordinator import (
    Coordinator,
    Place,
    RankInfo,
    RefusedError,
    Run,
    parted,
    read_entry,
)
from ascend_session.backends.exchange.messages import CANNOT_GO_ON, Header, rank_failed

FIRST = ""
"""The name of rank 0's node."""


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
        self._unsettled: Counter[str] = collections.Counter()  # sentences that nodes have not heard
        self._systems: Dict[int, Coordinator] = {}
        self._first = first_system
        self._latest = first_system - 1
        self._joined: Dict[Place, Tuple[Coordinator, int]] = {}
        self._addresses: Dict[str, str] = {}  # at which the other nodes listen

    @property
    def are_over(self) -> bool:
        """Whether there was a system, and none has to be remembered any more."""
        return self._latest >= self._first and not self._systems

    @property
    def waiting_since(self) -> Optional[float]:
        """When ranks began to wait for others, if any do."""
        busy = [system for system in self._systems.values() if system.is_busy]
        return min((system.waiting_since for system in busy), default=None)

    def receive(self, node: str, header: Header, payload: bytes) -> None:
        """Handle what a node says.

        Raises:
            One of UNREADABLE: If it is no message, or one that a node or rank may not send.
        """
        kind = header["kind"]
        if kind == "from":
            self.hear((node, int(header["client"])), header["header"], payload)
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
        self._unsettled.pop(node, None)
        self._check_settled()

    def hear(self, place: Place, header: Header, payload: bytes) -> None:
        """Tell the coordinator what a process says.

        Raises:
            One of UNREADABLE: If it is no message, or one that a rank may not send.
        """
        kind = header["kind"]
        if kind == "hello":
            self._admit(place, header)
        if place not in self._joined:
            return
        system, rank = self._joined[place]
        if kind == "enter":
            system.enter(rank, read_entry(header, payload))
        elif kind == "finish":
            system.finish(rank)
        elif kind == "disconnect":
            del self._joined[place]
            system.disconnect(rank)
            self._forget_ended()
        elif kind == "leave":
            if rank == 0:  # through it the other nodes reach each other
                self._tell(system, {"event": "left", "rank": 0}, b"", system.ranks)
            system.leave(rank)
        elif kind == "fail":
            system.end(rank_failed(rank, str(header["reason"])), rank)
        elif kind == "give_up":
            system.give_up(float(header["seconds"]))
        elif kind == "time_out":
            system.time_out(rank, str(header["key"]), float(header["seconds"]))
        elif kind == "hello":
            if system.is_complete:
                for node in {info.place[0] for info in system.ranks.values()} - {FIRST}:
                    self._send(node, {"kind": "nodes", "addresses": self._addresses}, b"")
            system.announce()
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
        info = RankInfo(hello["pid"], hello["node"], hello["local_size"], host, place)
        system = self._systems.get(number) or self._new_system(number)

        def answer(event: Header) -> None:
            self._send(node, {"kind": "to", "event": event, "clients": [client]}, b"")

        try:
            if number not in self._systems and number != self._latest + 1:
                raise RefusedError(parted(rank))
            system.admit(rank, hello["size"], info)
        except RefusedError as refusal:
            reason = str(refusal)
            if refusal.ends_job or system.ended is not None:
                self._remember(number, system)  # whoever comes later has to hear why, even rank 0
            self._expect_to_settle([node])
            answer({"event": "refused", "reason": reason})
            if refusal.ends_job:  # with the others, this process may end at once
                system.end(CANNOT_GO_ON + reason[0].lower() + reason[1:])
        else:
            self._remember(number, system)
            self._joined[place] = (system, rank)
            answer({"event": "welcome", "system": number, "rank": rank})

    def _new_system(self, number: int) -> Coordinator:
        def tell_all(event: Header) -> None:
            self._tell(system, event, b"", system.ranks)

        def start(run: Run) -> None:
            self._start(system, number, run)

        system = Coordinator(self._size, tell_all, start)
        return system

    def _remember(self, number: int, system: Coordinator) -> None:
        self._systems[number] = system
        self._latest = max(self._latest, number)

    def _forget_ended(self) -> None:
        """Forget systems that have ended in order; late ranks are told how others have failed."""
        staying = [system for system, _ in self._joined.values()]
        for number, system in list(self._systems.items()):
            if system.is_over and system.ended is None and system not in staying:
                del self._systems[number]

    def _tell(
        self, system: Coordinator, event: Header, payload: bytes, ranks: Collection[int]
    ) -> None:
        """Send an event to ranks, wherever they are."""
        clients: Dict[str, List[int]] = {}
        for rank in ranks:
            node, client = system.ranks[rank].place
            clients.setdefault(node, []).append(client)
        if event["event"] == "end":
            self._expect_to_settle(list(clients))
        for node, numbers in clients.items():
            self._send(node, {"kind": "to", "event": event, "clients": numbers}, payload)

    def _expect_to_settle(self, nodes: Collection[str]) -> None:
        """Note that nodes are about to be told a reason; they answer "settled"."""
        if nodes:
            self._settled.clear()
            self._unsettled.update(nodes)

    def _settle(self, node: str) -> None:
        self._unsettled[node] -= 1
        self._check_settled()

    def _check_settled(self) -> None:
        if not any(count > 0 for count in self._unsettled.values()):
            self._settled.set()

    def _start(self, system: Coordinator, number: int, run: Run) -> None:
        """Have the ranks of a run begin, each on its node, or tell them what comes of it."""
        operation, ranks = run.operation, run.operation.ranks
        if run.result is not None:
            event = {"event": "run", "key": operation.key, "sizes": run.sizes}
            self._tell(system, event, run.result, ranks)
            return
        members: Dict[str, List[Tuple[int, int]]] = {}
        for rank in ranks:
            node, client = system.ranks[rank].place
            members.setdefault(node, []).append((rank, client))
        header = {"kind": "run", "system": number, "members": members}
        header.update(number=run.number, operation=operation, plan=run.plan, sizes=run.sizes)
        for node in members:
            self._send(node, header, b"")

    def _lose_ranks(self, node: str, by: str = FIRST, reason: str = "") -> None:
        """Note that a node is lost; with a reason, that another one could never reach it."""
        for system in list(self._systems.values()):
            nodes = {rank: info.place[0] for rank, info in system.ranks.items()}
            lost = sorted(rank for rank in system.staying if nodes[rank] == node)
            if lost and reason:
                others = min(rank for rank, there in nodes.items() if there == by)
                system.end(
                    f"{CANNOT_GO_ON}rank {others} cannot reach the node of rank {lost[0]}: "
                    f"{reason} The nodes of a job have to reach each other, at ports that the "
                    "system gives them."
                )
            elif lost:
                system.disconnect(lost[0])

    def _judge(self, node: str, used_s: Sequence[Tuple[int, float]]) -> None:
        """Note what processes of a node have used; judge whether ranks that wait can go on."""
        for client, seconds in used_s:
            if (node, int(client)) in self._joined:
                system, rank = self._joined[node, int(client)]
                system.standstill.report(rank, float(seconds), system.version)
        if node == FIRST:
            for system in list(self._systems.values()):
                if system.is_busy:
                    system.judge(*system.standstill.measure(system.version))
