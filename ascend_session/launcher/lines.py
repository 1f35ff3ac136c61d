r"""Cuts what one program writes to one pipe into whole lines, chunk by chunk.

* A line comes out when its ``\n`` has come, or at the end; never a part of one. As no character of
  UTF-8 contains the byte ``\n``, no character is ever split either.
* Of a progress bar, which writes over itself with ``\r``, the last state comes out when the line
  ends, and before that its latest state every `BAR_SECONDS`, as output comes in.
* A line of more than `LIMIT` bytes is cut there, between characters, and says at its end how many
  bytes more it had. The log file has it whole, and nobody reads 200 MB in a terminal; shown in
  pieces it would drive everything else out of sight.

Held are at most `LIMIT` bytes of an unfinished line and as many of a bar's state.
"""

import time
from typing import Callable, Optional

from ascend_session.launcher.cleaning import clean, is_blank, last_state

__all__ = ["BAR_SECONDS", "LIMIT", "LineSplitter"]

LIMIT = 256 * 1024
BAR_SECONDS = 10.0


class LineSplitter:
    """The lines of one pipe.

    Args:
        colour: Whether colour sequences stay.
        whole_in: Where a line that is cut can be read whole, such as a log file; may be empty.
        limit: Bytes of a line above which it is cut.
        clock: Seconds, for the states of progress bars.
    """

    def __init__(
        self,
        colour: bool = False,
        whole_in: str = "",
        limit: int = LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._colour = colour
        self._where = f"; {whole_in} has all of it" if whole_in else ""
        self._limit = limit
        self._clock = clock
        self._forget()

    def feed(self, chunk: bytes) -> bytes:
        r"""Takes what was read; returns the lines that are whole now, each with its ``\n``."""
        if len(chunk) > self._limit:
            step = self._limit
            return b"".join([self.feed(chunk[at : at + step]) for at in range(0, len(chunk), step)])
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._hold(chunk)
            return self._bar_now_and_then()
        begin, first = 0, b""
        if self._is_in_a_line():
            begin = chunk.index(b"\n") + 1
            self._hold(chunk[: begin - 1])
            first = self._finish()
        # No line of these is too long, because the chunk is not.
        lines = first + clean(chunk[begin:end], self._colour)
        if end < len(chunk):
            self._hold(chunk[end:])
        return lines

    def end(self) -> bytes:
        """The last line, if it had no end; empty otherwise."""
        return self._finish() if self._is_in_a_line() else b""

    def _forget(self) -> None:
        self._held = bytearray()  # since the last \n or \r
        self._cut = 0  # bytes that came after those and are not held
        self._state = b""  # of a bar: what the last \r ended
        self._shown: Optional[bytes] = None  # the state that came out before its line ended
        self._shown_at: Optional[float] = None

    def _is_in_a_line(self) -> bool:
        return bool(self._held or self._state)

    def _hold(self, piece: bytes) -> None:
        r"""Takes a piece of a line, without ``\n``."""
        begin, returned, rest = piece.partition(b"\r")
        self._append(begin)
        if not returned:
            return
        overwritten, _, latest = rest.rpartition(b"\r")
        now = last_state(overwritten)
        if not is_blank(now):
            self._state = now
        elif not is_blank(bytes(self._held)):
            self._state = self._text()
        self._held.clear()
        self._cut = 0
        self._append(latest)

    def _append(self, piece: bytes) -> None:
        room = self._limit - len(self._held)
        self._held += piece[:room]
        self._cut += max(0, len(piece) - room)

    def _text(self) -> bytes:
        """What is held, with a note if it was cut."""
        if not self._cut:
            return bytes(self._held)
        whole = _without_split_character(bytes(self._held))
        more = self._cut + len(self._held) - len(whole)
        return whole + f" [cut: {more} bytes more in this line{self._where}]".encode()

    def _finish(self) -> bytes:
        text = self._text()
        if self._state and is_blank(text):
            text = self._state
        said_already = text == self._shown
        self._forget()
        return b"" if said_already else clean(text + b"\n", self._colour)

    def _bar_now_and_then(self) -> bytes:
        if not self._state:
            return b""
        now = self._clock()
        if self._shown_at is None:
            self._shown_at = now
        if now - self._shown_at < BAR_SECONDS or self._state == self._shown:
            return b""
        self._shown, self._shown_at = self._state, now
        return clean(self._state + b"\n", self._colour)


def _without_split_character(text: bytes) -> bytes:
    """Drops the beginning of a character of UTF-8 that the end of the text has cut."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return text[:-back] if back < length else text
        if byte < 0x80:
            break
    return text
