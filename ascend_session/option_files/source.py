"""From a file to its text: bytes in bounded memory, UTF-8, and every fault with its place.

Serves every file that the vendor's stack reads and a person writes. Who reads it, and which error
of this package tells about it, says a `Kind`.
"""

import bisect
import os
import stat
from typing import List, NamedTuple, Optional, Tuple, Type

from ascend_session.errors import AscendError, ConfigError

__all__ = ["Kind", "Places", "Source", "decoded", "read_content"]

_WRONG_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x1f\x8b", "compressed"))
_MIB = 1 << 20


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        what: What such a file is, with its article.
        reader: The program of the vendor that reads it.
        error: The error that tells that one cannot be used.
        most_bytes: What is read of it at most; a larger file is refused.
    """

    what: str
    reader: str = "GE"
    error: Type[AscendError] = ConfigError
    most_bytes: int = 4 * _MIB


class Places:
    """Line and column, both from 1, of each character of a text."""

    def __init__(self, text: str) -> None:
        self._starts: List[int] = [0]
        end = text.find("\n")
        while end >= 0:
            self._starts.append(end + 1)
            end = text.find("\n", end + 1)

    def of(self, at: int) -> Tuple[int, int]:
        """Line and column of the character ``at``, counted from 0."""
        line = bisect.bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1


class Source(NamedTuple):
    """The text of a file.

    Attributes:
        name: What messages call it: its path, as it was given.
        text: The text; a byte that is no UTF-8 is a surrogate, as with ``surrogateescape``.
        places: Line and column of each character.
    """

    name: str
    text: str
    places: Places


def read_content(path: str, kind: Kind) -> bytes:
    """The bytes of a file.

    Raises:
        AscendError: Of the kind's type, if there is no such file or it cannot be read, is no file
            or is larger than ``kind.most_bytes``. A pipe is refused and never waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, kind, error) from error
    except ValueError:
        raise kind.error(f"{path!r} is no file name.") from None
    try:
        return _content(path, kind, descriptor)
    except OSError as error:
        raise _unreadable(path, kind, error) from error
    finally:
        os.close(descriptor)


def decoded(name: str, content: bytes, kind: Kind, strict: bool = True) -> Source:
    """The text of ``content``.

    Args:
        name: What messages call the file.
        content: Its bytes.
        kind: What it should be.
        strict: Whether every byte must belong to UTF-8 text.

    Raises:
        AscendError: Of the kind's type, if it is no such text.
    """
    for mark, found in _WRONG_MARKS:
        if content.startswith(mark):
            raise kind.error(
                f"{name}:1:1: is {found}, not UTF-8 text; {kind.reader} reads {kind.what} as "
                "bytes, and finds nothing that it knows.",
                hint="Save it as UTF-8 without a byte order mark.",
            )
    try:
        text = content.decode("utf-8", "strict" if strict else "surrogateescape")
    except UnicodeDecodeError as error:
        line, column = _place(content, error.start)
        raise kind.error(
            f"{name}:{line}:{column}: is not UTF-8 text (byte {error.start}).",
            hint="Save it as UTF-8 without a byte order mark.",
        ) from None
    return Source(name, text, Places(text))


def _content(path: str, kind: Kind, descriptor: int) -> bytes:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        found = "a directory" if stat.S_ISDIR(facts.st_mode) else "a pipe or a device"
        raise kind.error(
            f"{path}: is {found}, not a file; {kind.reader} reads {kind.what} from a file.",
            hint="Name the file itself.",
        )
    content: Optional[bytes] = None
    if facts.st_size <= kind.most_bytes:
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(kind.most_bytes + 1) or b""
    if content is None or len(content) > kind.most_bytes:
        raise kind.error(
            f"{path}: has {facts.st_size / _MIB:,.0f} MiB, and at most {kind.most_bytes // _MIB} "
            f"MiB of {kind.what} are read here.",
            hint="Look whether this is the file that is meant.",
        )
    return content


def _unreadable(path: str, kind: Kind, error: OSError) -> AscendError:
    if isinstance(error, FileNotFoundError):
        return kind.error(
            f"{path}: is not there; {kind.reader} fails to initialise without it.",
            hint="Relative paths start in the directory where the program runs; nobody expands ~.",
        )
    return kind.error(
        f"{path}: cannot be read: {error.strerror}.",
        hint="Whoever runs the program must be able to read it.",
    )


def _place(content: bytes, at: int) -> Tuple[int, int]:
    before = content[:at]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode("utf-8", "replace")) + 1
    return before.count(b"\n") + 1, column
