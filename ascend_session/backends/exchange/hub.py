"""What the ranks of one system have told their hub, and what follows: who goes on, and why not.

Messages come in, messages go out; there are no sockets, threads or clocks here (`server` has them).
A rank says, in this order:

- ``hello``: who it is. The answer is ``refused``, or ``together`` once all ranks are there.
- ``enter``: it is ready for a collective. Once all of its ranks are, each hears ``go``. If their
  tensors came with the entries, the result comes with that. Otherwise it is a *run* in the shared
  memory, of which there is one: runs take turns.
- ``step``: it has come to the end of a step of the run. Once all have, each hears ``step``.
- ``finish``: it needs the shared memory no longer. Once no rank does, the next run begins.
- ``leave``: it ends its part in order. Once all have, each hears ``over``.

``give_up``, ``time_out`` and ``fail`` say that it cannot go on. The first thing that goes wrong is
told to all in one sentence, ``end``, and nothing else happens after it.
"""

import collections
from typing import (
    Any,
    Callable,
    Counter,
    Deque,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
)

from ascend_session.backends.exchange.reductions import check_plan, combine
from ascend_session.backends.exchange.rendezvous import Meeting, same_starter
from ascend_session.backends.exchange.sentences import (
    CANNOT_GO_ON,
    list_groups,
    name_ranks,
    ordinal,
    rank_ended,
    rank_failed,
    rank_has_left,
    ranks_parted,
)
from ascend_session.backends.exchange.wire import Header, Operation, is_small
from ascend_session.errors import AscendError
from ascend_session.text import format_count

STANDSTILL_S = 3.0
"""Seconds without any change after which it is judged whether ranks that wait can go on."""

IDLE_SHARE = 0.03
"""Share of one processor's time that a process uses at most that does nothing but wait."""

_LONGEST_LOOK_S = 2.0  # that one look counts for at most: a job may have been stopped for a while


class Message(NamedTuple):
    """What is to be sent to a client.

    Attributes:
        client: The number of its connection.
        header: What it is told.
        payload: The bytes behind it.
        is_last: Whether its connection ends then.
        has_memory: Whether the client needs the shared memory for it.
    """

    client: int
    header: Header
    payload: bytes = b""
    is_last: bool = False
    has_memory: bool = False


class Member(NamedTuple):
    """A rank that has joined, as it describes itself.

    Attributes:
        client: The number of its connection.
        pid: Its process.
        node: The same for all ranks of a node, and for no others, as the job's variables have it.
        local_size: How many ranks its node has, by its own account.
        device: The device that it was given; empty if it was given none.
    """

    client: int
    pid: int
    node: str
    local_size: int
    device: str


class Entry(NamedTuple):
    """A rank that is ready for a collective.

    Attributes:
        operation: Which one.
        plan: How the ranks do it: ``gather``, or the reduction and dtype, ``sum float32``.
        size_bytes: How much it has for the others.
        payload: All of it, if it is small; else None.
    """

    operation: Operation
    plan: str
    size_bytes: int
    payload: Optional[bytes]

    def agrees_with(self, other: "Entry") -> bool:
        """Whether both mean the same collective."""
        mine, its = self.operation, other.operation
        return (self.plan, mine.ranks, mine.signature) == (other.plan, its.ranks, its.signature)


class Wait(NamedTuple):
    """A rank that waits in an operation, which it runs for the ``times``-th time."""

    rank: int
    operation: Operation
    times: int


class Run:
    """A collective that passes through the shared memory."""

    def __init__(self, operation: Operation, sizes: List[int]) -> None:
        self.operation = operation
        self.sizes = sizes
        self.arrived: Set[int] = set()
        self.unfinished = set(operation.ranks)


class Hub:
    """The ranks of one system, from the first that joins to the last that leaves.

    Args:
        size: How many ranks there are.
        meeting: What a rank has to know to be let in.
        pid: The process of the hub, for messages.
        provide_memory: Makes the shared memory, once it is needed; raises an AscendError or OSError
            if there is none.

    Attributes:
        outbox: What is to be sent; whoever sends it empties the list.
        ended: Why the job cannot go on; empty while it can.
        members: The ranks that have joined.
    """

    def __init__(
        self, size: int, meeting: Meeting, pid: int, provide_memory: Callable[[], None]
    ) -> None:
        self.outbox: List[Message] = []
        self.ended = ""
        self.members: Dict[int, Member] = {}
        self._size = size
        self._meeting = meeting
        self._pid = pid
        self._provide_memory = provide_memory
        self._ranks: Dict[int, int] = {}  # by client
        self._left: List[int] = []
        self._entered: Dict[str, Dict[int, Entry]] = {}
        self._completed: Counter[Any] = collections.Counter()  # by rank and key
        self._runs: Deque[Run] = collections.deque()  # the first one has the memory
        self._version = 0  # another number whenever who waits where has changed
        self._seen_version = -1
        self._seen_at = self._quiet_s = 0.0
        self._used_then: Dict[int, float] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all ranks have joined."""
        return len(self.members) == self._size

    @property
    def is_over(self) -> bool:
        """Whether it cannot or need not go on."""
        return bool(self.ended) or len(self._left) == self._size

    @property
    def is_needed(self) -> bool:
        """Whether anybody is there, or may still come and has to hear why nobody else will."""
        return bool(self._ranks) or not (self.is_over and self.is_complete)

    @property
    def is_busy(self) -> bool:
        """Whether anybody waits for others, or exchanges something with them."""
        return bool(self._entered or self._runs)

    @property
    def waits(self) -> List[Wait]:
        """Who waits for others to enter, and where."""
        return sorted(
            Wait(rank, entry.operation, self._completed[rank, key] + 1)
            for key, entries in self._entered.items()
            for rank, entry in entries.items()
        )

    @property
    def client_count(self) -> int:
        """How many clients have joined and are still connected."""
        return len(self._ranks)

    def has_joined(self, client: int) -> bool:
        """Whether this client has said which rank it is, and was let in."""
        return client in self._ranks

    # What comes in

    def receive(self, client: int, header: Header, payload: bytes) -> None:
        """Handle a message.

        Raises:
            One of wire.MALFORMED: If it is not one, or one that this client may not send.
        """
        kind = header["kind"]
        if client not in self._ranks:
            self._greet(client, header)
            return
        rank = self._ranks[client]
        if kind == "enter":
            self._enter(rank, _read_entry(rank, header, payload))
        elif kind == "step":
            self._step(rank)
        elif kind == "finish":
            self._finish(rank)
        elif kind == "leave":
            self._leave(rank)
        elif kind == "fail":
            self.end(rank_failed(rank, str(header["reason"])), rank)
        elif kind == "give_up":
            self._give_up(float(header["seconds"]))
        elif kind == "time_out":
            self._time_out(rank, str(header["key"]), float(header["seconds"]))
        else:
            raise ValueError(f"a rank does not send {kind!r}")

    def disconnect(self, client: int) -> None:
        """Note that a connection has ended: a failure, if its rank had not left."""
        rank = self._ranks.pop(client, None)
        if rank is not None and rank not in self._left:
            self.end(rank_ended(rank, self.is_complete), rank)

    def end(self, reason: str, rank: Optional[int] = None) -> None:
        """Tell all ranks that are there why the job cannot go on, once, and whose failure it is."""
        if not self.is_over:
            self.ended = reason
            self._entered.clear()
            self._runs.clear()
            # Rank 0 hears it last: the process of the hub may end then.
            ranks = sorted(self.members, reverse=True)
            self._tell(ranks, {"event": "end", "reason": reason, "rank": rank})

    def judge(self, now: float, measure_used_s: Callable[[], Mapping[int, float]]) -> None:
        """End the job if every rank waits, and none can ever go on; to be called now and then.

        A rank that waits may have other threads that compute their way to the next collective, so
        that waiting alone proves nothing. What counts is that every rank waits, that none of the
        collectives has all its ranks, and that for some seconds neither that changed nor a
        processor was used. A rank whose other thread sleeps all that time on something slow looks
        the same; then the ranks run independent collectives in different orders, which the device
        does not forgive either.

        Args:
            now: The time, as `time.monotonic` counts.
            measure_used_s: Returns the processor seconds that each client's process has used, as
                far as that is known. It is called only if nothing has changed for a while.
        """
        is_stale = self._quiet_s >= 2 * STANDSTILL_S  # what a rank computed before does not count
        quiet_s = self._quiet_s + min(now - self._seen_at, _LONGEST_LOOK_S)
        self._seen_at = now
        if self._seen_version != self._version or is_stale:
            self._seen_version, self._quiet_s, self._used_then = self._version, 0.0, {}
            return
        self._quiet_s = quiet_s
        used = {self._ranks[client]: seconds for client, seconds in measure_used_s().items()}
        self._used_then = self._used_then or used
        waits = self.waits
        if quiet_s < STANDSTILL_S or not waits or self._runs or self.is_over:
            return
        idle = {
            rank
            for rank in used.keys() & self._used_then.keys()
            if used[rank] - self._used_then[rank] <= IDLE_SHARE * quiet_s
        }
        staying = {rank for rank in self.members if rank not in self._left}
        if not staying <= {wait.rank for wait in waits} & idle:
            return
        groups: Dict[str, List[int]] = {}
        for rank, operation, count in waits:
            times = f"for the {ordinal(count)} time" if count > 1 else "to begin it"
            ranks = groups.setdefault(f"in {operation} {times}", [])
            ranks += [rank] if rank not in ranks else []
        self.end(
            f"{CANNOT_GO_ON}the ranks wait for different collectives, and none of these has all "
            f"its ranks: {list_groups('wait', groups)}. All ranks have to run the same "
            "collectives in the same order; look for what only some ranks do."
        )

    # Joining

    def _greet(self, client: int, hello: Header) -> None:
        """Let a process in that says which rank it is, or tell it why not."""
        if hello["kind"] != "hello":
            raise ValueError("a process says first who it is")
        rank, size = int(hello["rank"]), int(hello["size"])
        local_size, device = int(hello["local_size"]), str(hello["device"])
        member = Member(client, int(hello["pid"]), str(hello["node"]), local_size, device)
        refusal = self._find_refusal(rank, size, hello)
        if refusal:
            refused = {"event": "refused", "reason": refusal}
            self.outbox.append(Message(client, refused, is_last=True))
            return
        if size != self._size:
            reason = (
                f"ank {rank} says that the job has {size} ranks, rank 0 says {self._size}. All "
                "ranks need the same RANK_SIZE; `ascend-session launch` makes it from --nnodes and "
                "-n, which all nodes need to be given alike."
            )
            refused = {"event": "refused", "reason": f"R{reason}"}
            self.outbox.append(Message(client, refused, is_last=True))
            if not self.is_complete:  # the others would wait for it in vain
                self.end(f"{CANNOT_GO_ON}r{reason}")
            return
        self._ranks[client] = rank
        self.members[rank] = member
        if self.is_complete:
            nodes = [self.members[number].node for number in range(size)]
            notes = self._compare_devices()
            self._tell(self.members, {"event": "together", "nodes": nodes, "notes": notes})

    def _find_refusal(self, rank: int, size: int, hello: Header) -> str:
        """Say why a process is none of this job's ranks; empty if it is one."""
        meeting = self._meeting
        if str(hello["job"]) != meeting.job:
            return (
                f"This process wanted to join as rank {rank}, but the ranks of another job meet "
                "there. Start the ranks with `ascend-session launch`, which gives each job "
                "a meeting place of its own; to rehearse several nodes, give each launcher the "
                "job's --job-id and a --node-rank of its own."
            )
        if not same_starter(meeting.starter, hello["starter"]):
            named = f"with JOB_ID={meeting.job}" if meeting.job else ""
            return (
                f"This process wanted to join as rank {rank}, but the ranks that meet there belong "
                f"to another job {named or 'that the same shell has started'}: process "
                f"{self._pid} is the first of them, and has another parent and process group, "
                "working directory or script. Give each job a JOB_ID of its own: export "
                "JOB_ID=$$."
            )
        if size != self._size:
            return ""
        if rank not in range(size):
            return (
                f"This process says that it is rank {rank}; the {size} ranks of the job are 0 to "
                f"{size - 1}. Look at RANK_ID."
            )
        if self.ended:
            reason = self.ended[len(CANNOT_GO_ON) * self.ended.startswith(CANNOT_GO_ON) :]
            return f"{CANNOT_GO_ON}rank {rank} came when the others had given up: {reason}"
        if rank in self._left:
            return ranks_parted(rank)
        if rank in self.members:
            return (
                f"This process says that it is rank {rank} of the job, but process "
                f"{self.members[rank].pid} has that rank already. Give each process a RANK_ID of "
                "its own."
            )
        return ""

    def _compare_devices(self) -> List[str]:
        """Note which ranks would open the same device, if this machine had any."""
        owners: Dict[Any, List[int]] = {}
        for rank, member in sorted(self.members.items()):
            owners.setdefault((member.node, member.device), []).append(rank)
        notes = []
        for (_, device), ranks in owners.items():
            if len(ranks) > 1 and device:
                notes.append(
                    f"{name_ranks(ranks)} have the same device, {device}; on a server they would "
                    "get in each other's way. Give each rank an ASCEND_DEVICE_ID of its own."
                )
            elif len(ranks) > 1:
                notes.append(
                    f"{name_ranks(ranks)} have no ASCEND_DEVICE_ID; on a server all of them would "
                    "open device 0. Give each rank one of its own."
                )
        return notes

    def _give_up(self, seconds: float) -> None:
        """End the job because a rank has waited so long for the others to join."""
        absent = [rank for rank in range(self._size) if rank not in self.members]
        if absent:
            nodes = self._find_whole_nodes(absent)
            all_of = f" (all of {name_ranks(nodes, 'node')})" if nodes else ""
            where = " All nodes of a job on the stub are one machine." if nodes else ""
            self.end(
                f"{CANNOT_GO_ON}{name_ranks(absent)} of {self._size}{all_of} did not come within "
                f"{seconds:g} s.{where} Every rank has to open its system; look at the output of "
                "those that did not."
            )

    def _find_whole_nodes(self, absent: Sequence[int]) -> List[int]:
        """List the nodes of which no rank has joined, if it is clear who is on them.

        That is so if there are as many ranks on each node, and they go node by node.
        """
        counts = {member.local_size for member in self.members.values()}
        count = counts.pop() if len(counts) == 1 else 0
        if not 0 < count < self._size or any(
            member.node != str(rank - rank % count) for rank, member in self.members.items()
        ):
            return []
        return [
            first // count
            for first in range(0, self._size, count)
            if set(range(first, min(first + count, self._size))) <= set(absent)
        ]

    # Collectives

    def _enter(self, rank: int, entry: Entry) -> None:
        """Note that a rank is ready for a collective; when it is the last one, that begins."""
        if self.is_over or rank in self._left:
            return
        operation = entry.operation
        self._version += 1
        entered = self._entered.setdefault(operation.key, {})
        first = next(iter(entered.values()), entry)
        entered[rank] = entry
        if not entry.agrees_with(first):
            self._end_for_difference(entered)
        elif entry.plan != "gather" and entry.size_bytes != first.size_bytes:
            groups: Dict[str, List[int]] = {}
            for other in sorted(entered):
                size = format_count(entered[other].size_bytes, "byte")
                groups.setdefault(size, []).append(other)
            self.end(
                f"{CANNOT_GO_ON}the ranks do not send the same number of bytes in {operation}: "
                f"{list_groups('send', groups)}. Use the same ascend_session for all ranks."
            )
        elif len(entered) == len(operation.ranks):
            self._begin(operation, self._entered.pop(operation.key))
        else:
            self._check_left()

    def _begin(self, operation: Operation, entered: Mapping[int, Entry]) -> None:
        """Begin a collective that all of its ranks have entered."""
        entries = [entered[rank] for rank in operation.ranks]
        self._completed.update((rank, operation.key) for rank in operation.ranks)
        sizes = [entry.size_bytes for entry in entries]
        payloads = [entry.payload for entry in entries if entry.payload is not None]
        if len(payloads) < len(entries):
            self._runs.append(Run(operation, sizes))
            if len(self._runs) == 1:
                self._start_run()
            return
        result = combine(entries[0].plan, payloads)
        header = {"event": "go", "key": operation.key, "sizes": sizes}
        self._tell(operation.ranks, header, result)

    def _start_run(self) -> None:
        """Have the first of the runs begin; the job ends if there is no shared memory for it."""
        try:
            self._provide_memory()
        except (AscendError, MemoryError, OSError) as error:
            self.end(rank_failed(0, str(error)), 0)
            return
        run = self._runs[0]
        header = {"event": "go", "key": run.operation.key, "sizes": run.sizes}
        self._tell(run.operation.ranks, header, has_memory=True)

    def _step(self, rank: int) -> None:
        run = self._find_run(rank)
        if run is None:
            return
        run.arrived.add(rank)
        if len(run.arrived) == len(run.sizes):
            self._version += 1
            run.arrived.clear()
            self._tell(run.operation.ranks, {"event": "step", "key": run.operation.key})

    def _finish(self, rank: int) -> None:
        run = self._find_run(rank)
        if run is None:
            return
        self._version += 1
        run.unfinished.discard(rank)
        if not run.unfinished:
            self._runs.popleft()
            if self._runs:
                self._start_run()

    def _find_run(self, rank: int) -> Optional[Run]:
        """Return the run that has the memory if this rank is still in it."""
        run = self._runs[0] if self._runs else None
        return run if run is not None and rank in run.unfinished else None

    def _time_out(self, rank: int, key: str, seconds: float) -> None:
        """End the job because a rank has waited so long for the others to enter."""
        entered = self._entered.get(key, {})
        if rank in entered:
            operation = entered[rank].operation
            absent = [other for other in operation.ranks if other not in entered]
            self.end(
                f"{CANNOT_GO_ON}{name_ranks(absent)} did not come to {operation} within "
                f"{seconds:g} s, for which rank {rank} waits. All ranks have to run the same "
                "collectives in the same order."
            )

    def _end_for_difference(self, entered: Mapping[int, Entry]) -> None:
        """End the job because ranks do not mean the same collective."""
        operations = {rank: entered[rank].operation for rank in sorted(entered)}
        differ_in_ranks = len({operation.ranks for operation in operations.values()}) > 1
        groups: Dict[str, List[int]] = {}
        for rank, operation in operations.items():
            among = f" among {name_ranks(operation.ranks)}" if differ_in_ranks else ""
            text = f'"{operation.name}" as {operation.signature}{among}'
            groups.setdefault(text, []).append(rank)
        self.end(
            f"{CANNOT_GO_ON}the ranks disagree about "
            f"{next(iter(operations.values())).key}: {list_groups('run', groups)}. All ranks have "
            "to build the same collectives in the same order, with the same shapes and types."
        )

    # Leaving

    def _leave(self, rank: int) -> None:
        """Note that a rank ends its part in order; after the last one all hear that it is over."""
        if self.is_over or rank in self._left or not self.is_complete:
            return
        self._version += 1
        self._left.append(rank)
        for key, entered in list(self._entered.items()):
            entered.pop(rank, None)
            if not entered:
                del self._entered[key]
        if rank == 0:  # the hub may end with its process
            self._tell(self.members, {"event": "left", "rank": 0})
        if self.is_over:
            self._tell(self.members, {"event": "over"})
            return
        for run in self._runs:
            if rank in run.unfinished:
                others = sorted(run.unfinished - {rank}) or [rank]
                self.end(rank_has_left(rank, others, run.operation, 0))
                return
        self._check_left()

    def _check_left(self) -> None:
        """End the job if somebody waits for a rank that has left, and so will never enter."""
        if not self._left:
            return
        waits = self.waits
        for wait in waits:
            for rank in wait.operation.ranks:
                if rank in self._left:
                    same = sorted({other.rank for other in waits if other[1:] == wait[1:]})
                    self.end(rank_has_left(rank, same, wait.operation, wait.times))
                    return

    def _tell(
        self,
        ranks: Any,
        header: Header,
        payload: bytes = b"",
        has_memory: bool = False,
    ) -> None:
        for rank in ranks:
            client = self.members[rank].client
            self.outbox.append(Message(client, header, payload, has_memory=has_memory))


def _read_entry(rank: int, header: Header, payload: bytes) -> Entry:
    ranks = tuple(map(int, header["ranks"]))
    key, name, signature = str(header["key"]), str(header["name"]), str(header["signature"])
    plan, size_bytes = str(header["plan"]), int(header["size_bytes"])
    check_plan(plan, size_bytes)
    if rank not in ranks or list(ranks) != sorted(set(ranks)):
        raise ValueError("a rank enters collectives of its own")
    if len(payload) != size_bytes * bool(header["is_small"]):
        raise ValueError("a rank sends as many bytes as it says")
    if payload and not is_small(plan, size_bytes, len(ranks)):
        raise ValueError("what travels in messages is small")
    operation = Operation(key, name, ranks, signature)
    return Entry(operation, plan, size_bytes, payload if header["is_small"] else None)
