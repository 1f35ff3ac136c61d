"""The socket between launcher and guardian, and the messages on it.

They are `marshal` values, each behind its length: both ends run the same interpreter.
"""

import marshal
import os
import select
from typing import Any, List, Optional

_LENGTH = 4  # bytes of a message's length


class MessageChannel:
    """One end of the socket, which does not block; it is open until the other end is closed."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.is_open = True
        self.sent: List[Any] = []
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

    def send(self, message: Any, is_kept: bool = True) -> None:
        """Send a message, or as much of it as there is room for now; see `flush`.

        Args:
            message: The message.
            is_kept: Whether it is kept in `sent`; those of which there may be many are not.
        """
        if is_kept:
            self.sent.append(message)
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

    def wait(self, event: int, limit_ms: Optional[int] = None) -> None:
        """Wait for an event of poll(2), or the end of the channel."""
        poll = select.poll()
        poll.register(self.fd, event)
        poll.poll(limit_ms)

    @property
    def is_behind(self) -> bool:
        """Whether the other end has yet to read what was sent."""
        return bool(self._unsent)

    @property
    def events(self) -> int:
        """The events of poll(2) to wait for."""
        return select.POLLIN | (select.POLLOUT if self._unsent else 0)
