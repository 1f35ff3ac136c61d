r"""Makes whole lines of what programs write, fit to be shown next to each other.

`clean` makes lines fit. Plain text passes untouched. What would hurt other lines is changed: bytes
that are no UTF-8 and control characters become visible, as in ``\x07``; of a line that was written
over by ``\r`` the last state stays; a sequence that moves the cursor, clears the screen or sets a
title goes. A colour stays where colours are wanted, and ends with its line.

`LineSplitter` cuts what one program writes to one pipe into whole lines, chunk by chunk.

* A line comes out when its ``\n`` has come, or at the end; never a part of one. As no character of
  UTF-8 contains the byte ``\n``, no character is ever split either.
* Of a progress bar, which writes over itself with ``\r``, the last state comes out when the line
  ends, and before that its latest state every `BAR_SECONDS`, as output comes in.
* A line of more than `LIMIT` bytes is cut there, between characters, and says at its end how many
  bytes more it had. The log file has it whole, and nobody reads 200 MB in a terminal; shown in
  pieces it would drive everything else out of sight.

Held are at most `LIMIT` bytes of an unfinished line and as many of a bar's state.
"""

import re
import time
from typing import Callable, Optional

_ESC = b"\x1b"
_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_SEEN = {code: b"\\x%02x" % code for code in _CONTROLS if code != _ESC[0]}
_NO_COLOUR = rb"\x1b(?!\[[0-9;:]*m)"
# ECMA-48: control sequences, operating system commands, other control strings, short escapes.
_SEQUENCE = (
    rb"(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[PX^_][^\x1b\n]*\x1b\\"
    rb"|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])"
)
_ANY = re.compile(_ESC + _SEQUENCE)
_OTHER = re.compile(_NO_COLOUR + _SEQUENCE)
_INCOMPLETE = re.compile(_NO_COLOUR)
_COLOUR_OFF = (b"\x1b[0m", b"\x1b[m")
# Written as two bytes in UTF-8; terminals obey them like ESC and a letter.
_C1 = re.compile(rb"\xc2([\x80-\x9f])")


def clean(lines: bytes, colour: bool) -> bytes:
    r"""Make whole lines, each with its ``\n``, fit to be shown.

    Args:
        lines: What a program wrote.
        colour: Whether colour sequences stay.
    """
    if not lines.isascii():
        lines = _as_utf8(lines)
    # Searching for one after the other is many times as fast as a regular expression for them all.
    if not any(code in lines for code in _CONTROLS):
        return lines
    lines = lines.replace(b"\r\n", b"\n")
    if b"\r" in lines:
        lines = b"\n".join([last_state(line) for line in lines.split(b"\n")])
    if _ESC in lines:
        lines = _with_colours(lines) if colour else _ANY.sub(b"", lines).replace(_ESC, rb"\x1b")
    for code, seen in _SEEN.items():
        if code in lines:
            lines = lines.replace(bytes([code]), seen)
    return lines


def last_state(line: bytes) -> bytes:
    r"""Find what is left to see of a line: the last text between ``\r`` that is not blank."""
    if b"\r" not in line:
        return line
    for state in reversed(line.split(b"\r")):
        if not is_blank(state):
            return state
    return b""


def is_blank(text: bytes) -> bool:
    """Tell whether nothing is to be seen: spaces, or sequences that only clear or move."""
    return not text or not (_ANY.sub(b"", text) if _ESC in text else text).strip(b" \t\b\r")


def _as_utf8(text: bytes) -> bytes:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        text = text.decode("utf-8", "backslashreplace").encode("utf-8")
    return _C1.sub(lambda match: b"\\u00%02x" % ord(match[1]), text) if b"\xc2" in text else text


def _with_colours(lines: bytes) -> bytes:
    """Keep only colour sequences; a line that leaves one switched on gets the one for off."""
    lines = _INCOMPLETE.sub(rb"\\x1b", _OTHER.sub(b"", lines))
    return b"\n".join(
        [line + _COLOUR_OFF[0] if _is_coloured(line) else line for line in lines.split(b"\n")]
    )


def _is_coloured(line: bytes) -> bool:
    last = line.rfind(_ESC)
    return last >= 0 and not line.startswith(_COLOUR_OFF, last)


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
        r"""Take what was read; return the lines that are whole now, each with its ``\n``."""
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
        """Return the last line, if it had no end; empty otherwise."""
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
        r"""Take a piece of a line, without ``\n``."""
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
        """Return what is held, with a note if it was cut."""
        if not self._cut:
            return bytes(self._held)
        whole = _without_split_character(bytes(self._held))
        more = self._cut + len(self._held) - len(whole)
        return whole + f" [cut: {more} bytes more in this line{self._where}]".encode()

    def _finish(self) -> bytes:
        text = self._text()
        if self._state and is_blank(text):
            text = self._state
        is_shown = text == self._shown
        self._forget()
        return b"" if is_shown else clean(text + b"\n", self._colour)

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
    """Drop the beginning of a UTF-8 character that the end of the text has cut."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return text[:-back] if back < length else text
        if byte < 0x80:
            break
    return text
