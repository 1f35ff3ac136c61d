"""The exchanges through shared memory of the ranks of one node, kept in step by its hub.

A run of a collective passes through its ranks' places in shared memory block by block. All ranks
write; when all have come to a step, all may read what the others wrote. There are two plans:

- ``gather``: each step lets all read all. It is over when the hubs have also exchanged what the
  ranks of their nodes wrote.
- a reduction: before even steps all write; before odd ones each rank of the node reduces its part
  of all blocks, in place, which all read afterwards. In the odd step the hubs exchange their nodes'
  results and reduce them in the order of the nodes, so that all ranks of all nodes read the same
  bits.

Runs take turns, for there is one shared memory: all ranks of a run that has begun are ready for it,
so it ends without any other.
"""

import collections
import os
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ascend_session.backends.exchange.coordinator import Run
from ascend_session.backends.exchange.memory import (
    SMALLEST,
    Blocks,
    create_shared_memory,
    map_shared_memory,
    part_of,
)
from ascend_session.backends.exchange.messages import Header
from ascend_session.backends.exchange.reductions import reduce_arrays
from ascend_session.errors import CollectiveError

MEMORY_BYTES = 32 << 20
"""Shared memory that a system's ranks on one node use at most."""

BLOCK_BYTES = 2 << 20
"""Bytes of a rank that are exchanged in one step at most; a message between nodes takes them."""


class Transfer:
    """One run, as far as this node is concerned.

    Args:
        run: The run.
        here: Its ranks on this node, each with the number of its connection.
        elsewhere: Its ranks on each other node.
    """

    def __init__(
        self, run: Run, here: Mapping[int, int], elsewhere: Mapping[str, List[int]]
    ) -> None:
        self.run = run
        self.here = list(here)
        self.clients = list(here.values())
        self.elsewhere = dict(elsewhere)
        self.blocks = Blocks(run.operation.ranks, run.sizes, 0)
        self.step = 0
        self.arrived: Set[int] = set()
        self.finished: Set[int] = set()
        self.pieces: Dict[Tuple[int, int], bytes] = {}  # of other nodes, by step and rank

    @property
    def reduces(self) -> bool:
        """Whether the plan is a reduction."""
        return self.run.plan != "gather"

    @property
    def crosses_nodes(self) -> bool:
        """Whether nodes exchange something in this step."""
        return bool(self.elsewhere) and (not self.reduces or self.step % 2 == 1)

    @property
    def block(self) -> int:
        """The number of the block that this step is about."""
        return self.step // 2 if self.reduces else self.step

    def senders(self, ranks: Sequence[int]) -> List[int]:
        """List the ranks of a node for which its hub sends a piece in this step."""
        if self.reduces:
            return list(ranks[:1])
        passed = self.block * self.blocks.block_bytes
        sizes = dict(zip(self.blocks.ranks, self.blocks.sizes))
        return [rank for rank in ranks if sizes[rank] > passed]


class Transfers:
    """The runs of one system after the other on this node.

    The first run of a system, or the first piece of one, is the end of those before: all ranks are
    in it then.

    Args:
        deliver: Sends clients of this node an event, with bytes behind it and an open file.
        send: Sends another node's hub a piece.

    Attributes:
        system: Number of the system.
    """

    def __init__(
        self,
        deliver: Callable[[Header, Sequence[int], bytes, Optional[int]], None],
        send: Callable[[str, Header, bytes], None],
    ) -> None:
        self._deliver = deliver
        self._send = send
        self._memory: Any = None
        self._descriptor = -1
        self._number = 0
        self._begin_system(0)

    def _begin_system(self, system: int) -> None:
        self.close()
        self.system = system
        self._transfers: Dict[int, Transfer] = {}
        self._current: Optional[Transfer] = None
        self._waiting: Deque[Transfer] = collections.deque()
        self._early: Dict[int, Dict[Tuple[int, int], bytes]] = collections.defaultdict(dict)
        self._has_shrunk = False  # there was no room for more
        self._mapped: Set[int] = set()  # clients that have the memory

    def begin(
        self,
        system: int,
        run: Run,
        here: Mapping[int, int],
        elsewhere: Mapping[str, List[int]],
    ) -> None:
        """Have the node's ranks begin a run, once those before it are over.

        Raises:
            CollectiveError: If there is no shared memory.
        """
        if system > self.system:
            self._begin_system(system)
        transfer = Transfer(run, here, elsewhere)
        transfer.pieces = self._early.pop(run.number, {})
        self._transfers[run.number] = transfer
        if self._current is None:
            self._start(transfer)
        else:
            self._waiting.append(transfer)

    def arrive(self, client: int) -> None:
        """Note that a client has come to the end of its step."""
        transfer = self._current
        if transfer is None or client not in transfer.clients:
            return
        transfer.arrived.add(client)
        if len(transfer.arrived) == len(transfer.here):
            if transfer.crosses_nodes:
                self._send_pieces(transfer)
            self._complete(transfer)

    def finish(self, client: int) -> None:
        """Note that a client has read all that it wants; the next run may have the memory.

        Raises:
            CollectiveError: If there is none for it.
        """
        transfer = self._current
        if transfer is None or client not in transfer.clients:
            return
        transfer.finished.add(client)
        if len(transfer.finished) == len(transfer.here):
            del self._transfers[transfer.run.number]
            self._current = None
            if self._waiting:
                self._start(self._waiting.popleft())

    def receive(self, header: Header, piece: bytes) -> None:
        """Take what another node's hub has sent, perhaps before this node is so far."""
        system = int(header["system"])
        if system > self.system:
            self._begin_system(system)
        if system < self.system:
            return
        number, place = int(header["run"]), (int(header["step"]), int(header["rank"]))
        transfer = self._transfers.get(number)
        if transfer is None:
            self._early[number][place] = piece
        else:
            transfer.pieces[place] = piece
            if len(transfer.arrived) == len(transfer.here):
                self._complete(transfer)

    def end(self, system: int) -> None:
        """Forget a system whose ranks here have all gone, and what may still come for it."""
        if system == self.system:
            self._begin_system(system + 1)

    def close(self) -> None:
        """Let go of the shared memory; ranks that have it mapped keep it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._memory, self._descriptor = None, -1

    def _start(self, transfer: Transfer) -> None:
        self._current, run = transfer, transfer.run
        places = 2 * len(run.sizes)
        block_bytes = min(max(run.sizes) + 63, BLOCK_BYTES, MEMORY_BYTES // places) // 64 * 64
        # Nodes have to mean the same blocks: there a node may not do with less.
        smallest = places * (block_bytes if transfer.elsewhere else 64)
        self._provide(places * block_bytes, max(smallest, SMALLEST))
        room = len(self._memory) // places // 64 * 64
        transfer.blocks = transfer.blocks._replace(block_bytes=min(block_bytes, room))
        event = {
            "event": "run",
            "key": run.operation.key,
            "sizes": run.sizes,
            "block_bytes": transfer.blocks.block_bytes,
            "here": transfer.here,
            "memory": len(self._memory),
            "number": self._number,
        }
        new = [client for client in transfer.clients if client not in self._mapped]
        old = [client for client in transfer.clients if client in self._mapped]
        self._mapped.update(new)
        self._deliver(event, new, b"", self._descriptor)
        self._deliver(event, old, b"", None)

    def _provide(self, size_bytes: int, smallest_bytes: int) -> None:
        """Have so much shared memory, in powers of two so that it seldom has to grow."""
        needed = smallest_bytes if self._has_shrunk else size_bytes
        if self._memory is not None and len(self._memory) >= needed:
            return
        rounded = 1 << max(size_bytes - 1, (1 << 20) - 1).bit_length()
        try:
            descriptor, size_bytes = create_shared_memory(rounded, smallest_bytes)
        except CollectiveError:
            if self._memory is None or len(self._memory) < smallest_bytes:
                raise
            self._has_shrunk = True
            return
        self.close()
        self._memory = map_shared_memory(descriptor, size_bytes)
        self._descriptor = descriptor
        self._has_shrunk = size_bytes < rounded
        self._number += 1
        self._mapped.clear()

    def _complete(self, transfer: Transfer) -> None:
        """End the step, if all of the node are there and all that other nodes send for it."""
        import numpy as np

        awaited = [
            rank
            for ranks in transfer.elsewhere.values()
            if transfer.crosses_nodes
            for rank in transfer.senders(ranks)
        ]
        if not all((transfer.step, rank) in transfer.pieces for rank in awaited):
            return
        pieces = {rank: transfer.pieces.pop((transfer.step, rank)) for rank in awaited}
        if transfer.reduces and pieces:
            self._add_up(transfer, pieces)
        else:
            for rank, piece in pieces.items():
                self._place(transfer, rank)[:] = np.frombuffer(piece, np.uint8)
        transfer.arrived.clear()
        transfer.step += 1
        event = {"event": "step", "key": transfer.run.operation.key}
        self._deliver(event, transfer.clients, b"", None)

    def _send_pieces(self, transfer: Transfer) -> None:
        for rank in transfer.senders(transfer.here):
            own = self._partial(transfer) if transfer.reduces else self._place(transfer, rank)
            piece = own.tobytes()
            header = {"kind": "piece", "system": self.system, "run": transfer.run.number}
            header.update(step=transfer.step, rank=rank)
            for node in transfer.elsewhere:
                self._send(node, header, piece)

    def _place(self, transfer: Transfer, rank: int) -> Any:
        """Give the part of the shared memory, uint8, that holds what a rank has in this block."""
        return transfer.blocks.place(self._memory, rank, transfer.block)

    def _parts(self, transfer: Transfer) -> List[Any]:
        """Give the parts of the block that the node's ranks have reduced, as arrays of numbers."""
        parts = []
        for index, rank in enumerate(transfer.here):
            numbers = self._place(transfer, rank).view(transfer.run.plan.split()[1])
            parts.append(numbers[part_of(len(numbers), index, len(transfer.here))])
        return parts

    def _partial(self, transfer: Transfer) -> Any:
        import numpy as np

        return np.concatenate(self._parts(transfer))

    def _add_up(self, transfer: Transfer, pieces: Mapping[int, bytes]) -> None:
        """Reduce the results of all nodes, in their order, and give each rank its part."""
        import numpy as np

        reduction, dtype = transfer.run.plan.split()
        results = {first: np.frombuffer(piece, dtype) for first, piece in pieces.items()}
        results[transfer.here[0]] = self._partial(transfer)
        total = reduce_arrays(reduction, [results[first] for first in sorted(results)])
        start = 0
        for part in self._parts(transfer):
            part[:] = total[start : start + len(part)]
            start += len(part)
