r"""Makes whole lines fit to be shown next to those of other programs.

What is plain passes untouched. What would hurt the other lines is changed: bytes that are no UTF-8
and control characters become visible, as in ``\x07``; of a line that was written over by ``\r``
the last state stays; a sequence that moves the cursor, clears the screen or sets a title goes. A
colour stays where colours are wanted, and ends with its line.
"""

import re

__all__ = ["clean", "is_blank", "last_state"]

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
    r"""Whole lines, each with its ``\n``, made fit to be shown.

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
    r"""What is left to see of a line: the last text between ``\r`` that is not blank."""
    if b"\r" not in line:
        return line
    for state in reversed(line.split(b"\r")):
        if not is_blank(state):
            return state
    return b""


def is_blank(text: bytes) -> bool:
    """Whether nothing is to be seen: spaces, or sequences that only clear or move."""
    return not text or not (_ANY.sub(b"", text) if _ESC in text else text).strip(b" \t\b\r")


def _as_utf8(text: bytes) -> bytes:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        text = text.decode("utf-8", "backslashreplace").encode("utf-8")
    return _C1.sub(lambda match: b"\\u00%02x" % ord(match[1]), text) if b"\xc2" in text else text


def _with_colours(lines: bytes) -> bytes:
    """Only colour sequences stay; a line that leaves one switched on gets the one for off."""
    lines = _INCOMPLETE.sub(rb"\\x1b", _OTHER.sub(b"", lines))
    return b"\n".join(
        [line + _COLOUR_OFF[0] if _is_coloured(line) else line for line in lines.split(b"\n")]
    )


def _is_coloured(line: bytes) -> bool:
    last = line.rfind(_ESC)
    return last >= 0 and not line.startswith(_COLOUR_OFF, last)
