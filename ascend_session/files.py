"""Files of others: read without waiting for a pipe, replaced so that nobody sees half of one."""

import contextlib
import os
import stat
from typing import Optional

_OTHER_FILE = "Name the file itself."
_MISSING = "Relative paths start in the directory where the program runs; nobody expands ~."
_DENIED = "Whoever runs the program must be able to read it."


class UnreadableError(Exception):
    """A file that cannot be read; the argument says why, as the end of a sentence about it.

    Attributes:
        hint: What to do about it; None if the name is the fault.
        is_missing: Whether there is no such file, which may be so for a moment only.
    """

    def __init__(
        self, reason: str, hint: Optional[str] = None, *, is_missing: bool = False
    ) -> None:
        super().__init__(reason)
        self.hint = hint
        self.is_missing = is_missing


def read_regular_file(path: str, most_bytes: int, what: str = "such a file") -> bytes:
    """Read a file whole.

    Args:
        path: Its name.
        most_bytes: How much of it is read at most.
        what: What such a file is, with its article.

    Raises:
        UnreadableError: If it is not there, cannot be read, is a directory, a pipe or a device
            (which are never waited for), or has more than ``most_bytes``.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            facts = os.fstat(descriptor)
            if stat.S_ISDIR(facts.st_mode):
                raise UnreadableError("is a directory, not a file", _OTHER_FILE)
            if not stat.S_ISREG(facts.st_mode):
                raise UnreadableError("is a pipe or a device, not a file", _OTHER_FILE)
            # A file of /proc has no size; one that grows meanwhile has more than it had.
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(most_bytes + 1) if facts.st_size <= most_bytes else None
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise UnreadableError("is not there", _MISSING, is_missing=True) from None
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", _DENIED) from error
    except ValueError:
        raise UnreadableError("is no file name") from None
    if content is None or len(content) > most_bytes:
        raise UnreadableError(
            f"has {facts.st_size / (1 << 20):,.0f} MiB, and at most {most_bytes >> 20} MiB of "
            f"{what} are read here",
            "Look whether this is the file that is meant.",
        )
    return content


def replace_file(path: str, content: bytes) -> None:
    """Write a file under another name and rename it, so that a reader finds the old or the new.

    Raises:
        OSError: If that is not possible; nothing is left of it then.
    """
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
