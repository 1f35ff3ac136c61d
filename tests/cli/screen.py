"""What a terminal of a width shows of what was written to it, as far as the launcher goes."""

import re
import unicodedata

_PIECE = re.compile(r"\x1b\[2K|\x1b\[[0-9;]*m|\r|\n|[^\x1b\r\n]")


class Screen:
    """Lines that are never scrolled away, and a cursor in the last one."""

    def __init__(self, columns):
        self._columns = columns
        self.lines = [""]
        self._column = 0

    def write(self, text):
        """Takes text and the few control sequences that are known here."""
        assert "".join(_PIECE.findall(text)) == text, f"unknown controls in {text!r}"
        for piece in _PIECE.findall(text):
            if piece == "\n":
                self.lines.append("")
            elif piece == "\r":
                self._column = 0
            elif piece == "\x1b[2K":
                self.lines[-1] = ""
            elif not piece.startswith("\x1b"):
                self._put(piece)

    def _put(self, letter):
        width = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if self._column + width > self._columns:
            self.lines.append("")
            self._column = 0
        line = self.lines[-1].ljust(self._column)
        self.lines[-1] = line[: self._column] + letter + line[self._column + 1 :]
        self._column += width
