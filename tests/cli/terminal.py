"""A pseudo terminal, for what the program shows on one."""

import codecs
import fcntl
import os
import struct
import termios


class Terminal:
    """A terminal of a size; the program gets ``theirs``, and is read here."""

    def __init__(self, columns=80, lines=50):
        self._ours, self.theirs = os.openpty()
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, size)
        self.shown = ""
        # What is read may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self):
        """What comes next; empty when the program has ended."""
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # Linux says so when the last one has closed the other end
            part = b""
        self.shown += self._decoder.decode(part)
        return part

    def until(self, text):
        """Reads until it has been shown."""
        while text not in self.shown:
            assert self.read(), f"ended without {text!r}: {self.shown!r}"

    def close(self):
        os.close(self._ours)
