r"""Makes whole lines of what programs write, fit to be shown next to each other.

`LineSplitter` cuts what one program writes to one stream into whole lines, chunk by chunk. Of a
progress bar, which writes over itself with ``\r``, the last state comes out when the line ends, and
before that its latest state every `BAR_SECONDS`, as output comes in.

`WarningFold` shows the warnings of this package once, and not once for each rank.
"""

import time
from typing import Callable, Dict

from ascend_session.text import clean, is_blank, last_state

_WARNING = b": AscendConfigWarning: "  # as `warnings` writes it, and no traceback
_CONTINUATIONS = bytes(range(0x80, 0xC0))  # of a character of UTF-8, which has up to 4 bytes
_LONGEST_CHARACTER = 4


def _without_part_of_character(line: bytes) -> bytes:
    """Drop a character of UTF-8 from the end of which bytes are missing."""
    begin = max(len(line) - _LONGEST_CHARACTER, 0)
    while begin < len(line) and line[begin] in _CONTINUATIONS:
        begin += 1
    try:
        line[begin:].decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return line[: begin + error.start]
    return line


LIMIT = 256 * 1024
BAR_SECONDS = 10.0


class LineSplitter:
    """Splitter of one stream's bytes into lines.

    A line comes out when it is complete, cut to the limit if it is longer. A progress bar also
    gives states of its line.

    Args:
        colour: Whether colour sequences stay.
        whole_in: Where a line that is cut can be read whole, such as a log file; may be empty.
        limit: How many bytes of an unfinished line are held, and shown of it: nobody reads 200 MB
            in a terminal.
        clock: Returns the time in seconds, for the states of progress bars.
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
        self._held = bytearray()  # since the last \n or \r
        self._cut = 0  # bytes that came after those and are not held
        self._state = b""  # of a bar: what the last \r ended
        self._shown = b""  # the state that came out before its line ended
        self._shown_at = 0.0

    def feed(self, chunk: bytes) -> bytes:
        r"""Take what was read; return the lines that are whole now, each with its ``\n``."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._hold(chunk)
            return self._bar_now_and_then()
        begin = 0
        first = b""
        if self._held or self._state:
            begin = chunk.index(b"\n") + 1
            self._hold(chunk[: begin - 1])
            first = self.end()
        lines = first + clean(chunk[begin:end], self._colour)
        self._hold(chunk[end:])
        return lines

    def end(self) -> bytes:
        """Return the last line, if it had no end; empty otherwise."""
        text, state = bytes(self._held), self._state
        if self._cut:
            text = _without_part_of_character(text)
            self._cut += len(self._held) - len(text)
            text += f" [cut: {self._cut} bytes more in this line{self._where}]".encode()
        elif state and is_blank(text):
            text = state
        is_shown = text == self._shown
        self._held.clear()
        self._cut, self._state, self._shown = 0, b"", b""
        return b"" if is_shown else clean(text + b"\n", self._colour)

    def _hold(self, piece: bytes) -> None:
        r"""Take a piece of a line, without ``\n``."""
        before, returned, latest = piece.rpartition(b"\r")
        if returned:
            if not self._state:
                self._shown_at = self._clock()
            self._state = last_state(bytes(self._held) + before + returned) or self._state
            self._held.clear()
            self._cut = 0
        room = self._limit - len(self._held)
        self._held += latest[:room]
        self._cut += max(0, len(latest) - room)

    def _bar_now_and_then(self) -> bytes:
        now = self._clock()
        if self._state == self._shown or now - self._shown_at < BAR_SECONDS:
            return b""
        self._shown, self._shown_at = self._state, now
        return clean(self._state + b"\n", self._colour)


class WarningFold:
    """Hides warnings of this package that another rank has written already.

    Ranks run the same script, so each writes them. The lines below a warning, such as the line of
    code, are hidden with it if they, too, are known.
    """

    def __init__(self) -> None:
        self._first: Dict[bytes, int] = {}  # the rank that was the first to write a line
        self._in_warning: Dict[int, bool] = {}  # by rank: whether its warning is shown

    def fold(self, rank: int, lines: bytes) -> bytes:
        """Return those of a rank's whole lines on stderr that are shown."""
        if _WARNING not in lines and rank not in self._in_warning:
            return lines
        return b"".join(
            line for line in lines.splitlines(keepends=True) if self._is_shown(rank, line)
        )

    def _is_shown(self, rank: int, line: bytes) -> bool:
        if _WARNING in line:
            self._in_warning[rank] = self._first.setdefault(line, rank) == rank
            return self._in_warning[rank]
        if rank not in self._in_warning or not line.startswith(b"  "):
            self._in_warning.pop(rank, None)
            return True
        if self._in_warning[rank]:
            self._first.setdefault(line, rank)
            return True
        return line not in self._first
