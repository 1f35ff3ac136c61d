"""The messages between launcher and guardian: `marshal` values, each behind its length.

Both ends run the same interpreter, so nothing slower is needed. The first message is the job, a
dictionary that the supervisor makes. Then the launcher may send

* ``("stop", signal, grace)``: ask everyone to end, and end them ``grace`` seconds later;
* ``("kill",)``: end everyone now;

and the guardian sends the events of `events.EVENTS` that are its own, under their names there and
with the values of their fields; ranks are counted from 0 in the order of the job. ``over`` is the
last one.
"""

from __future__ import annotations

import marshal
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

_LENGTH = 4


class MessageChannel:
    """One end of the socket, which does not block; it is open until the other end is closed."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.is_open = True
        self._received = bytearray()
        self._unsent = bytearray()

    def receive(self) -> List[Any]:
        """Read the messages that have come whole by now."""
        try:
            chunk = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            self.is_open = False
        self._received += chunk
        messages = []
        while len(self._received) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._received[:_LENGTH], "little")
            if len(self._received) < end:
                break
            messages.append(marshal.loads(bytes(self._received[_LENGTH:end])))
            del self._received[:end]
        return messages

    def send(self, message: Any) -> None:
        """Send a message, or as much of it as there is room for now; see `flush`."""
        data = marshal.dumps(message)
        self._unsent += len(data).to_bytes(_LENGTH, "little") + data
        self.flush()

    def flush(self, wait: bool = False) -> None:
        """Send more of what is not sent yet; with ``wait``, all of it."""
        while self.is_open and self._unsent:
            try:
                sent = os.write(self.fd, self._unsent)
            except BlockingIOError:
                if not wait:
                    return
                self.wait(select.POLLOUT)
                continue
            except OSError:
                self.is_open = False
                return
            del self._unsent[:sent]

    def wait(self, event: int) -> None:
        """Wait for an event of poll(2), or the end of the channel."""
        poll = select.poll()
        poll.register(self.fd, event)
        poll.poll()

    @property
    def events(self) -> int:
        """The events of poll(2) to wait for."""
        return select.POLLIN | (select.POLLOUT if self._unsent else 0)
