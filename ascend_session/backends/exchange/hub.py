"""The state of one system's ranks: who has joined, entered a collective, left or failed.

Messages come in, messages go out; sockets, threads and clocks are in `server`. A rank sends:

- ``hello``: who it is. The answer is ``refused``, or ``together`` once all ranks are there.
- ``enter``: it is ready for a collective. Once all of its ranks are, each is sent ``go``. If their
  tensors came with the entries, the result comes with that. Otherwise it is a *transfer* through
  the shared memory, of which there is one: transfers take turns.
- ``step``: it has completed a step of the transfer. Once all have, each is sent ``step``.
- ``finish``: it needs the shared memory no longer. Once no rank does, the next transfer begins.
- ``variables``: a part of what it reports about its variables, before it leaves.
- ``leave``: it ends its part in order. Once all have, each is sent ``over``.
- ``time_out``: others did not join, or did not enter a collective, in time.
- ``fail``: it cannot go on.

The first failure is sent to all ranks in one sentence, ``end``, and nothing happens after it.
"""

import collections
import functools
from typing import (
    Any,
    Callable,
    Counter,
    Deque,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ascend_session.backends.exchange.lateness import Lateness
from ascend_session.backends.exchange.models import RankReport, is_exchange
from ascend_session.backends.exchange.reductions import check_plan, combine
from ascend_session.backends.exchange.rendezvous import Endpoint, is_same_starter
from ascend_session.backends.exchange.sentences import (
    list_groups,
    name_ranks,
    rank_ended,
    rank_failed,
    rank_has_left,
)
from ascend_session.backends.exchange.wire import Header, Operation, is_small
from ascend_session.errors import AscendError
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.text import format_count, format_ordinal

LOOK_S = 0.5
"""Seconds between two calls of `Hub.look`."""

_DISPUTE_LOOKS = 4  # for which ranks that disagree wait for the others, to see which ones differ
_STANDSTILL_LOOKS = 8  # without any message, from the first to the second look at processor time
_IDLE_S = 0.1  # processor time, between these two, of a process that only waits


class OutgoingMessage(NamedTuple):
    """A message to clients, which are numbers of connections.

    The shared memory is sent with a client's first transfer; ``refused`` ends the connection.
    """

    clients: List[int]
    header: Header
    payload: bytes = b""


class Member(NamedTuple):
    """A rank that has joined, as it describes itself; see `Rank` in `group`."""

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
        size_bytes: The size of its tensor.
        is_small: Whether the tensor has come with the message.
        payload: The tensor then.
    """

    operation: Operation
    plan: str
    size_bytes: int
    is_small: bool
    payload: bytes = b""

    @property
    def meaning(self) -> Any:
        """What has to be the same on all ranks."""
        return self.plan, self.operation.ranks, self.operation.signature


class Wait(NamedTuple):
    """A rank that waits in an operation, which it runs for the ``times``-th time."""

    rank: int
    operation: Operation
    times: int


class Transfer:
    """A collective that passes through the shared memory."""

    def __init__(self, operation: Operation, sizes: List[int]) -> None:
        self.operation = operation
        self.sizes = sizes
        self.arrived: Set[int] = set()
        self.unfinished = set(operation.ranks)


class Hub:
    """The state of one system's ranks, from the first that joins to the last that leaves.

    Args:
        size: How many ranks there are.
        endpoint: What a rank has to know to be let in.
        pid: The process of the hub, for messages.
        provide_memory: Creates the shared memory if it does not exist yet; raises an AscendError or
            OSError if there is no room.

    Attributes:
        outbox: Messages that the server has to send, and remove.
        ended: Why the job cannot continue; empty while it can.
        members: The ranks that have joined.
        reports: What ranks report about their variables, by rank.
        has_exchanged: Whether a collective has run that is more than a broadcast.
        lateness: When the ranks enter reductions.
    """

    def __init__(
        self, size: int, endpoint: Endpoint, pid: int, provide_memory: Callable[[], None]
    ) -> None:
        self.outbox: List[OutgoingMessage] = []
        self.ended = ""
        self.members: Dict[int, Member] = {}
        self.reports: Dict[int, RankReport] = collections.defaultdict(RankReport)
        self.has_exchanged = False
        self.lateness = Lateness(size)
        self._size = size
        self._endpoint = endpoint
        self._pid = pid
        self._provide_memory = provide_memory
        self._ranks: Dict[int, int] = {}  # by client
        self._departed: Set[int] = set()
        self._entered: Dict[str, Dict[int, Entry]] = {}
        self._completed: Counter[str] = collections.Counter()  # by key
        self._transfers: Deque[Transfer] = collections.deque()  # the first one has the memory
        self._disputed = ""  # the key of a collective that ranks have entered with other meanings
        self._looks = 0  # of `look` since the last message, or since there is a dispute
        self._used_then: Mapping[int, float] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all ranks have joined."""
        return len(self.members) == self._size

    @property
    def have_all_left(self) -> bool:
        """Whether all ranks have ended their part in order."""
        return len(self._departed) == self._size and not self.ended

    @property
    def is_over(self) -> bool:
        """Whether it cannot or need not go on."""
        return bool(self.ended) or self.have_all_left

    @property
    def is_needed(self) -> bool:
        """Whether ranks are connected, or may still come: to join, or to hear why the job ended."""
        return bool(self._ranks) or not (self.is_over and self.is_complete)

    @property
    def waits(self) -> List[Wait]:
        """Who waits for others to enter, and where."""
        return sorted(
            Wait(rank, entry.operation, self._completed[key] + 1)
            for key, entries in self._entered.items()
            for rank, entry in entries.items()
        )

    def has_joined(self, client: int) -> bool:
        """Whether this client has joined as a rank."""
        return client in self._ranks

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
        if not self._disputed:
            self._looks = 0
        if kind == "enter":
            self._enter(rank, _read_entry(rank, header, payload))
        elif kind == "step":
            self._step(rank)
        elif kind == "finish":
            self._finish(rank)
        elif kind == "variables":
            self.reports[rank].add(header)
        elif kind == "leave":
            self.reports[rank].has_updated = header.get("has_updated") is True
            self._leave(rank)
        elif kind == "fail":
            self.end(rank_failed(rank, str(header["reason"])), rank)
        elif kind == "absent":
            self.end(f"{JOB_CANNOT_GO_ON}{header['reason']}")
        elif kind == "time_out":
            self._time_out(rank, str(header["key"]), float(header["seconds"]))
        else:
            raise ValueError(f"a rank does not send {kind!r}")

    def disconnect(self, client: int) -> None:
        """Note that a connection has ended: a failure, if its rank had not left."""
        rank = self._ranks.pop(client, None)
        if rank is not None and rank not in self._departed:
            self.end(rank_ended(rank, self.is_complete), rank)

    def end(self, reason: str, rank: Any = None) -> None:
        """End the job, if it has not ended yet, because of a failure, which may be a rank's.

        If ranks have disagreed before, that is the reason.
        """
        if not self.is_over:
            if self._disputed:
                reason, rank = self._describe_dispute()
            self.ended = reason
            self._entered.clear()
            self._transfers.clear()
            # Rank 0 hears it last: the process of the hub may end then.
            ranks = sorted(self.members, reverse=True)
            self._tell(ranks, {"event": "end", "reason": reason, "rank": rank})

    def look(self, measure_used_s: Callable[[], Mapping[int, float]]) -> None:
        """End the job if ranks disagree or stand still; called every `LOOK_S`.

        Args:
            measure_used_s: Returns the processor seconds that each client's process has used, as
                far as known. It is called only while every rank waits.
        """
        if not self._disputed:
            self._end_standstill(measure_used_s)
            return
        self._looks += 1
        if self._looks > _DISPUTE_LOOKS:
            self.end("")

    def _end_standstill(self, measure_used_s: Callable[[], Mapping[int, float]]) -> None:
        """End the job if every rank waits, and none can ever go on.

        That is so if every rank waits, none of the collectives has all its ranks, and for some
        seconds no rank has sent anything or used a processor: a rank that waits in one thread may
        compute its way to the next collective in another.
        """
        waits = self.waits
        waiting = {wait.rank for wait in waits}
        staying = set(self.members) - self._departed
        if self._transfers or self.is_over or not staying <= waiting:
            self._looks = 0
            return
        self._looks += 1
        if self._looks == 1:
            self._used_then = measure_used_s()
        if self._looks < _STANDSTILL_LOOKS:
            return
        self._looks = 0
        used, then = measure_used_s(), self._used_then
        idle = {client for client in used if used[client] - then.get(client, 0.0) <= _IDLE_S}
        if waits and staying <= {self._ranks.get(client) for client in idle}:
            times = {count: f"for the {format_ordinal(count)} time" for _, _, count in waits}
            times[1] = "to begin it"
            where = [(rank, f"in {operation} {times[count]}") for rank, operation, count in waits]
            groups = {operation.ranks for _, operation, _ in waits}
            places = {rank: (operation.key, count) for rank, operation, count in waits}
            odd = [] if len(groups) > 1 else _find_odd(places, self._size)
            who = "the ranks wait for different collectives"
            if odd:
                verb = "waits" if len(odd) == 1 else "wait"
                who = f"{name_ranks(odd)} {verb} for another collective than the others"
            self.end(
                f"{JOB_CANNOT_GO_ON}{who}, and none of these has all its ranks: "
                f"{list_groups('wait', where)}. All ranks have to run the same "
                "collectives in the same order; look for what only some ranks do.",
                odd[0] if len(odd) == 1 else None,
            )

    # Joining

    def _greet(self, client: int, hello: Header) -> None:
        """Let a process join as a rank, or refuse it."""
        if hello["kind"] != "hello":
            raise ValueError("the first message has to be a hello")
        rank, size = int(hello["rank"]), int(hello["size"])
        local_size, device = int(hello["local_size"]), str(hello["device"])
        member = Member(client, int(hello["pid"]), str(hello["node"]), local_size, device)
        is_of_job = str(hello["job"]) == self._endpoint.job
        is_started_alike = is_same_starter(self._endpoint.starter, hello["starter"])
        refusal = self._find_refusal(rank, size, is_of_job, is_started_alike)
        if refusal:
            self.outbox.append(OutgoingMessage([client], {"event": "refused", "reason": refusal}))
            if is_of_job and is_started_alike and size != self._size and not self.is_complete:
                # The others would wait for it in vain.
                self.end(f"{JOB_CANNOT_GO_ON}{refusal[0].lower()}{refusal[1:]}")
            return
        self._ranks[client] = rank
        self.members[rank] = member
        if self.is_complete:
            nodes = [self.members[number].node for number in range(size)]
            notes = self._compare_devices()
            self._tell(self.members, {"event": "together", "nodes": nodes, "notes": notes})

    def _find_refusal(self, rank: int, size: int, is_of_job: bool, is_started_alike: bool) -> str:
        """Return why a process cannot join as this rank; empty if it can."""
        named = f"with JOB_ID={self._endpoint.job}" if self._endpoint.job else ""
        member = self.members.get(rank)
        rules = [
            (
                not is_of_job,
                f"This process tried to join as rank {rank}, but the rendezvous belongs to "
                "another job. Start the ranks with `ascend-session launch`, which gives each "
                "job its own rendezvous; to rehearse several nodes, give each launcher the "
                "job's --job-id and a --node-rank of its own.",
            ),
            (
                not is_started_alike,
                f"This process tried to join as rank {rank}, but the rendezvous belongs to "
                f"another job {named or 'that the same shell has started'}: process {self._pid} "
                "is the first of them, and has another parent and process group, working "
                "directory or script. Give each job its own JOB_ID: export JOB_ID=$$.",
            ),
            (
                size != self._size,
                f"Rank {rank} reports a job of {size} ranks, rank 0 one of {self._size}. All "
                "ranks need the same RANK_SIZE; `ascend-session launch` sets it from --nnodes "
                "and -n, which must be the same on all nodes.",
            ),
            (
                rank not in range(size),
                f"This process reports that it is rank {rank}; the {size} ranks of the job are 0 "
                f"to {size - 1}. Check RANK_ID.",
            ),
            (
                bool(self.ended),
                f"{JOB_CANNOT_GO_ON}rank {rank} joined after the others had given up: "
                f"{self.ended.replace(JOB_CANNOT_GO_ON, '', 1)}",
            ),
            (
                rank in self._departed,
                f"Rank {rank} tried to join a group that has already finished. All processes of "
                "a job are started together, and open and close their systems equally often.",
            ),
            (
                member is not None,
                f"This process reports that it is rank {rank} of the job, but process "
                f"{member and member.pid} already has that rank. Give each process its own "
                "RANK_ID.",
            ),
        ]
        return next((sentence for is_broken, sentence in rules if is_broken), "")

    def _compare_devices(self) -> List[str]:
        """Return a note for each device that several ranks would open on a server."""
        owners: Dict[Any, List[int]] = {}
        for rank, member in sorted(self.members.items()):
            owners.setdefault((member.node, member.device), []).append(rank)
        same = (
            "{} have the same device, {}; on a server they would conflict. Give each rank an "
            "ASCEND_DEVICE_ID of its own."
        )
        none = (
            "{} have no ASCEND_DEVICE_ID; on a server all of them would open device 0. Give each "
            "rank one of its own."
        )
        return [
            (same if device else none).format(name_ranks(ranks), device)
            for (_, device), ranks in owners.items()
            if len(ranks) > 1
        ]

    def _time_out_joining(self, seconds: float) -> None:
        absent = [rank for rank in range(self._size) if rank not in self.members]
        if absent:
            has_nodes = any(member.local_size < self._size for member in self.members.values())
            where = " All nodes of a job on the stub are one machine." if has_nodes else ""
            self.end(
                f"{JOB_CANNOT_GO_ON}{name_ranks(absent)} of {self._size} did not join within "
                f"{seconds:g} s.{where} Every rank has to open its system; look at the output of "
                "those that did not."
            )

    # Collectives

    def _enter(self, rank: int, entry: Entry) -> None:
        """Note that a rank is ready for a collective; the last one begins it."""
        if self.is_over or rank in self._departed:
            return
        operation = entry.operation
        entered = self._entered.setdefault(operation.key, {})
        first = next(iter(entered.values()), entry)
        entered[rank] = entry
        if len(operation.ranks) < self._size or operation.signature.startswith("send"):
            self.lateness.have_parts = True
        elif entry.plan != "gather":
            self.lateness.note_entry(operation.key, rank, len(entered) == self._size)
        if entry.meaning != first.meaning and not self._disputed:
            self._disputed, self._looks = operation.key, 0
        if self._disputed == operation.key:
            if len(entered) >= len(first.operation.ranks):
                self.end("")
        elif entry.plan != "gather" and entry.size_bytes != first.size_bytes:
            sizes = (
                (other, format_count(its.size_bytes, "byte")) for other, its in entered.items()
            )
            self.end(
                f"{JOB_CANNOT_GO_ON}the ranks do not send the same number of bytes in {operation}: "
                f"{list_groups('send', sizes)}. Use the same ascend_session for all ranks."
            )
        elif len(entered) == len(operation.ranks):
            self._begin(operation)
        else:
            self._check_departed()

    def _describe_dispute(self) -> Tuple[str, Optional[int]]:
        """Say which ranks disagree about a collective, and return the one that differs, if any."""
        key, self._disputed = self._disputed, ""
        entered = self._entered.get(key, {})
        groups = {entry.operation.ranks for entry in entered.values()}
        what = {
            rank: _describe(entry.operation, len(groups) > 1) for rank, entry in entered.items()
        }
        meanings = {rank: entry.meaning for rank, entry in entered.items()}
        odd = [] if len(groups) > 1 else _find_odd(meanings, max(map(len, groups), default=0))
        who = "the ranks disagree"
        if odd:
            who = (
                f"{name_ranks(odd)} {'disagrees' if len(odd) == 1 else 'disagree'} with the others"
            )
        count = self._completed[key] + 1
        when = f" when they run it for the {format_ordinal(count)} time" if count > 1 else ""
        reason = (
            f"{JOB_CANNOT_GO_ON}{who} about {key}{when}: {list_groups('run', what.items())}. All "
            "ranks have to build the same collectives in the same order, with the same shapes and "
            "types."
        )
        return reason, odd[0] if len(odd) == 1 else None

    def _begin(self, operation: Operation) -> None:
        """Begin a collective that all of its ranks have entered."""
        entered = self._entered.pop(operation.key)
        self._completed[operation.key] += 1
        self.has_exchanged = self.has_exchanged or is_exchange(operation)
        entries = [entered[rank] for rank in operation.ranks]
        sizes = [entry.size_bytes for entry in entries]
        if all(entry.is_small for entry in entries):
            result = combine(entries[0].plan, [entry.payload for entry in entries])
            header = {"event": "go", "key": operation.key, "sizes": sizes, "is_transfer": False}
            self._tell(operation.ranks, header, result)
            return
        self._transfers.append(Transfer(operation, sizes))
        if len(self._transfers) == 1:
            self._start_transfer()

    def _start_transfer(self) -> None:
        """Begin the first of the transfers."""
        try:
            self._provide_memory()
        except (AscendError, MemoryError, OSError) as error:
            self.end(rank_failed(0, str(error)), 0)
            return
        first = self._transfers[0]
        operation, sizes = first.operation, first.sizes
        header = {"event": "go", "key": operation.key, "sizes": sizes, "is_transfer": True}
        self._tell(operation.ranks, header)

    def _step(self, rank: int) -> None:
        """Note that a rank has completed a step; the last one completes it for all."""
        first = self._transfers[0] if self._transfers else None
        if first is not None and rank in first.unfinished:
            first.arrived.add(rank)
            if len(first.arrived) == len(first.sizes):
                first.arrived.clear()
                self._tell(first.operation.ranks, {"event": "step", "key": first.operation.key})

    def _finish(self, rank: int) -> None:
        """Note that a rank needs the memory no longer; the last one begins the next transfer."""
        first = self._transfers[0] if self._transfers else None
        if first is not None and rank in first.unfinished:
            first.unfinished.discard(rank)
            if not first.unfinished:
                self._transfers.popleft()
                if self._transfers:
                    self._start_transfer()

    def _time_out(self, rank: int, key: str, seconds: float) -> None:
        """End the job because a rank has waited so long for others to join or to enter."""
        if not key:
            self._time_out_joining(seconds)
        entered = self._entered.get(key, {})
        if rank in entered:
            operation = entered[rank].operation
            absent = [other for other in operation.ranks if other not in entered]
            self.end(
                f"{JOB_CANNOT_GO_ON}{name_ranks(absent)} did not join {operation} within "
                f"{seconds:g} s, and rank {rank} is waiting for it. All ranks have to run the "
                "same collectives in the same order."
            )

    # Leaving

    def _leave(self, rank: int) -> None:
        """Note that a rank ends its part in order; the last one ends the system."""
        if self.is_over or rank in self._departed or not self.is_complete:
            return
        self._departed.add(rank)
        for key, entered in list(self._entered.items()):
            entered.pop(rank, None)
            if not entered:
                del self._entered[key]
        if rank == 0:  # the hub may end with its process
            self._tell(self.members, {"event": "left"})
        if self.is_over:
            self._tell(self.members, {"event": "over"})
        else:
            self._check_departed()

    def _check_departed(self) -> None:
        """End the job if somebody waits for a rank that has left."""
        for transfer in self._transfers:
            for rank in transfer.unfinished & self._departed:
                others = sorted(transfer.unfinished - {rank}) or [rank]
                self.end(rank_has_left(rank, others, transfer.operation))
                return
        waits = self.waits if self._departed else []
        for wait in waits:
            for rank in sorted(self._departed.intersection(wait.operation.ranks)):
                same = sorted({other.rank for other in waits if other[1:] == wait[1:]})
                self.end(rank_has_left(rank, same, wait.operation, wait.times))
                return

    def _tell(self, ranks: Iterable[int], header: Header, payload: bytes = b"") -> None:
        clients = [self.members[rank].client for rank in ranks]
        self.outbox.append(OutgoingMessage(clients, header, payload))


def _find_odd(what: Mapping[int, Any], size: int) -> List[int]:
    """List the ranks that differ from what more than half of so many ranks do."""
    for usual, count in collections.Counter(what.values()).most_common(1):
        if 2 * count > size:
            return sorted(rank for rank in what if what[rank] != usual)
    return []


def _describe(operation: Operation, among: bool) -> str:
    ranks = f" among {name_ranks(operation.ranks)}" if among else ""
    return f'"{operation.name}" as {operation.signature}{operation.place}{ranks}'


def _read_entry(rank: int, header: Header, payload: bytes) -> Entry:
    fields = (header[name] for name in ("key", "name", "signature", "line", "plan", "size_bytes"))
    entry = _make_entry(tuple(header["ranks"]), *fields)
    if rank not in entry.operation.ranks:
        raise ValueError(f"rank {rank} enters a collective of other ranks")
    if len(payload) != entry.size_bytes * entry.is_small:
        raise ValueError(f"the payload has {len(payload)} bytes")
    return entry._replace(payload=payload)


@functools.lru_cache(maxsize=256, typed=True)  # training steps repeat their entries
def _make_entry(
    ranks: Tuple[Any, ...],
    key: Any,
    name: Any,
    signature: Any,
    line: Any,
    plan: Any,
    size_bytes: Any,
) -> Entry:
    ranks = tuple(map(int, ranks))
    if list(ranks) != sorted(set(ranks)):
        raise ValueError(f"{ranks} are not ascending")
    operation = Operation(str(key), str(name), ranks, str(signature), str(line))
    check_plan(str(plan), int(size_bytes))
    is_message = is_small(str(plan), int(size_bytes), len(ranks))
    return Entry(operation, str(plan), int(size_bytes), is_message)
