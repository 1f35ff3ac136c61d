"""Writes what several ranks say to one file descriptor, fairly, and without making anyone wait.

A thread does the writing, because a terminal may take its time: forever, after Ctrl-S. Each rank
has a queue. The queues are served in turn, a block at a time, so a quiet rank's line waits for one
block of each flooding rank at most. A rank whose queue is full is told so, and should not be read
until there is room; so a slow terminal holds up only ranks that say more than it takes, as it does
without a launcher, and memory stays bounded.

On a terminal there can be a footer: a line below all others, without an end. As this thread alone
writes, a footer never tears a line and is never torn.
"""

import os
import select
import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Tuple

from ascend_session.launcher.notices import Notices
from ascend_session.launcher.threads import start

__all__ = ["QUEUE_BYTES", "Outlet"]

QUEUE_BYTES = 256 * 1024
_WRITE_BYTES = 64 * 1024
_TICK = 1.0  # seconds between two footers when nothing else is written
_SHORTEST_TICK = 0.1  # and when much is
_ERASE = b"\r\x1b[2K"


class _Queue:
    def __init__(self) -> None:
        self.blocks: Deque[bytes] = deque()
        self.size = 0
        self.when_room: Optional[Callable[[], None]] = None


class Outlet:
    """Where the lines of all ranks go.

    A descriptor that takes no more (a closed terminal, a reader that has gone, a full disk) is said
    once; from then on everything is thrown away, and nobody is told to wait.

    Args:
        fd: The file descriptor; it stays open. If it does not block, it is waited for.
        notices: Who is told.
        what: What is written here, as the beginning of a sentence.
    """

    def __init__(self, fd: int, notices: Notices, what: str = "What the ranks say") -> None:
        self.written = 0  # bytes, so that whoever waits sees whether somebody reads
        self._fd = fd
        self._notices = notices
        self._what = what
        self._footer: Optional[Callable[[], bytes]] = None
        self._is_footer_new = False  # the thread may be busy when it is set
        self._drawn, self._drawn_at = b"", 0.0
        self._changed = threading.Condition()
        self._queues: Dict[int, _Queue] = {}
        self._turns: Deque[_Queue] = deque()  # those with blocks, the next one first
        self._is_closing = False
        self._is_broken = False
        self._thread = threading.Thread(target=self._run, name="launch-outlet", daemon=True)
        start(self._thread)

    def put(self, key: int, block: bytes) -> bool:
        """Queues whole lines of a rank; False if its queue is full now, though they are in it."""
        with self._changed:
            if self._is_broken or self._is_closing or not block:
                return True
            queue = self._queues.setdefault(key, _Queue())
            if not queue.blocks:
                self._turns.append(queue)
            queue.blocks.append(block)
            queue.size += len(block)
            if len(self._turns) == 1 and len(queue.blocks) == 1:
                self._changed.notify()
            return queue.size < QUEUE_BYTES

    def when_room(self, key: int, call: Callable[[], None]) -> None:
        """Calls once, from any thread, when the queue of this rank is at most half full."""
        with self._changed:
            queue = self._queues.setdefault(key, _Queue())
            if queue.size > QUEUE_BYTES // 2:
                queue.when_room = call
                return
        call()

    def set_footer(self, footer: Optional[Callable[[], bytes]]) -> None:
        """Keeps a line below all others from now on, or takes it away.

        Args:
            footer: Makes it, in the thread that writes: without an end and not wider than the
                terminal; empty for none now. It must not wait. None means none any more.
        """
        with self._changed:
            self._footer, self._is_footer_new = footer, True
            self._changed.notify()

    def close(self, patience: Optional[float] = None) -> bool:
        """Writes what is queued and ends; what is put from now on is thrown away.

        Args:
            patience: Seconds to wait for that; None means as long as it takes.

        Returns:
            Whether all is written, or was thrown away because nothing can be. If not, the thread
            stays at it until the process ends.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_open = True
        while is_open:
            with self._changed:
                if not (self._turns or self._is_closing or self._is_footer_new):
                    self._changed.wait(None if self._footer is None else _TICK)
                self._is_footer_new = False
                is_open = bool(self._turns) or not self._is_closing
                data, calls = self._next()
            # Outside the lock, and before the write, so that reading goes on meanwhile.
            for call in calls:
                call()
            try:
                self._write(self._with_footer(data, is_open))
            except OSError as failure:
                self._give_up(failure)
                return

    def _with_footer(self, data: bytes, is_open: bool) -> bytes:
        """What to write so that the data stands above the footer; nothing if nothing changes."""
        if self._footer is None and not self._drawn:
            return data
        before, now = self._drawn, time.monotonic()
        if self._footer is None or not is_open:
            self._drawn = b""
        elif not data or not before or now - self._drawn_at >= _SHORTEST_TICK:
            self._drawn, self._drawn_at = self._footer_now(), now
        if not data and self._drawn == before:
            return b""
        return (_ERASE if before else b"") + data + self._drawn

    def _footer_now(self) -> bytes:
        try:
            return b"" if self._footer is None else self._footer()
        except Exception as failure:  # a mistake in it must not leave the job without a reader
            self._footer = None
            self._notices.once("footer", f"There is no status line any more: {failure!r}.")
            return b""

    def _next(self) -> Tuple[bytes, List[Callable[[], None]]]:
        """A block of each rank in turn, until there is enough for one write."""
        blocks: List[bytes] = []
        calls: List[Callable[[], None]] = []
        size = 0
        while self._turns and size < _WRITE_BYTES:
            queue = self._turns.popleft()
            block = queue.blocks.popleft()
            blocks.append(block)
            size += len(block)
            queue.size -= len(block)
            if queue.blocks:
                self._turns.append(queue)
            if queue.when_room is not None and queue.size <= QUEUE_BYTES // 2:
                calls.append(queue.when_room)
                queue.when_room = None
        return b"".join(blocks), calls

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._fd, view)
                view = view[written:]
                self.written += written
            except BlockingIOError:
                select.select([], [self._fd], [])

    def _give_up(self, failure: OSError) -> None:
        with self._changed:
            self._is_broken = True
            calls = [q.when_room for q in self._queues.values() if q.when_room is not None]
            self._queues.clear()
            self._turns.clear()
        for call in calls:
            call()
        self._notices.once(
            "outlet",
            f"{self._what} is no longer shown: {failure.strerror} (file descriptor {self._fd}). "
            "The job goes on, and so do its log files.",
        )
