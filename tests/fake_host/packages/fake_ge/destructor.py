"""The destructor of the adapter's library, which the C library runs when a process ends.

It runs after Python has ended, and in forked children, too, for it is registered and has its state
in memory that they inherit. So it cannot be written in Python: the C library is given a command of
the shell, in memory of its own.

Source: guides/facts/process.md#the-end-of-a-process; ge_plugin.cc, ~GePlugin.
"""

import ctypes
from typing import Optional

__all__ = ["register", "unload", "will_call"]

_libc = ctypes.CDLL(None)
_libc.calloc.restype = ctypes.c_void_p

_SIZE_BYTES = 512
_FORMAT = r'{"call": "%s", "pid": %d}\n'  # a line of the record, see journal.py

_command: Optional[int] = None


def register() -> None:
    """Have the C library run it at the end, as the first use of the one ``GePlugin`` does."""
    global _command
    if _command is None:
        _command = _libc.calloc(1, _SIZE_BYTES)
        command = ctypes.c_void_p(_command)
        _libc.__cxa_atexit(_libc.system, command, command)


def will_call(*names: str) -> None:
    """Set what it calls if the process ends now; the record has ``destructor`` before it.

    Args:
        names: None if GE is down: it then does nothing.
    """
    assert _command is not None
    calls = " ".join(f"{name} $PPID" for name in ("destructor", *names))
    text = f"printf '{_FORMAT}' {calls} >> \"${{FAKE_GE_RECORD:-/dev/null}}\"" if names else ""
    encoded = text.encode() + b"\0"
    assert len(encoded) <= _SIZE_BYTES
    ctypes.memmove(_command, encoded, len(encoded))


def unload() -> None:
    """Take it back, without a call of GE."""
    global _command
    if _command is not None:
        will_call()
        _libc.__cxa_finalize(ctypes.c_void_p(_command))
        _command = None
