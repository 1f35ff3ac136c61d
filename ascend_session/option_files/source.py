"""From a file to its text: bytes in bounded memory, and the place of every character.

Serves every file that the vendor's stack reads and a person writes. Who reads it, and which error
of this package tells about it, says a `Kind`. GE compares bytes: what is no UTF-8 is kept as it is,
in Python's form for such bytes (``surrogateescape``).
"""

import contextlib
import os
import stat
from typing import List, NamedTuple, Optional, Tuple, Type

from ascend_session.errors import AscendError, ConfigError

__all__ = ["Kind", "Places", "Source", "decoded", "encoded", "is_writable", "read_content"]

_WRONG_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x1f\x8b", "compressed"))
_MIB = 1 << 20
_BLOCK = 4096  # characters


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        what: What such a file is, with its article.
        reader: The program of the vendor that reads it, as it is called inside a sentence.
        error: The error that tells that one cannot be used.
        most_bytes: What is read of it at most; a larger file is refused.
    """

    what: str
    reader: str = "GE"
    error: Type[AscendError] = ConfigError
    most_bytes: int = 64 * _MIB


class Places:
    """Line and column, both from 1, of each character of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._before: List[Tuple[int, int]] = []  # of each block: line feeds, and the last one

    def of(self, at: int) -> Tuple[int, int]:
        """Line and column of the character ``at``, counted from 0."""
        if not self._before:
            self._count()
        start = at // _BLOCK * _BLOCK
        found, last = self._before[at // _BLOCK]
        found += self._text.count("\n", start, at)
        last = max(last, self._text.rfind("\n", start, at))
        return found + 1, at - last

    def _count(self) -> None:
        found, last = 0, -1
        for start in range(0, len(self._text) + 1, _BLOCK):
            self._before.append((found, last))
            found += self._text.count("\n", start, start + _BLOCK)
            last = max(last, self._text.rfind("\n", start, start + _BLOCK))


class Source(NamedTuple):
    """The text of a file.

    Attributes:
        name: What messages call it: its path, as it was given.
        text: The text; a byte that is no UTF-8 is a surrogate, as with ``surrogateescape``.
        places: Line and column of each character.
        mark: What its first bytes say that it is instead of UTF-8 text, ``UTF-16`` or
            ``compressed``; None if they do not.
    """

    name: str
    text: str
    places: Places
    mark: Optional[str] = None


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


def decoded(name: str, content: bytes, fix: bool = False) -> Source:
    """The text of ``content``.

    Args:
        name: What messages call the file.
        content: Its bytes.
        fix: Whether UTF-16 is taken for what it means.
    """
    mark = next((found for start, found in _WRONG_MARKS if content.startswith(start)), None)
    text = content.decode("utf-8", "surrogateescape")
    if fix and mark == "UTF-16":
        with contextlib.suppress(UnicodeDecodeError):
            text, mark = content.decode("utf-16"), None
    return Source(name, text, Places(text), mark)


def encoded(text: str) -> bytes:
    """The bytes of ``text``; the opposite of `decoded`."""
    return text.encode("utf-8", "surrogateescape")


def is_writable(text: str, strict: bool = False) -> bool:
    """Whether ``text`` is read back as it is once it is written; half a surrogate pair is not.

    Args:
        text: The text.
        strict: Whether it may not have bytes that are no UTF-8 either, as in JSON.
    """
    errors = "strict" if strict else "surrogateescape"
    try:
        return text.encode("utf-8", errors).decode("utf-8", errors) == text
    except UnicodeEncodeError:
        return False


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
            f"{path}: is not there.",
            hint="Relative paths start in the directory where the program runs; nobody expands ~.",
        )
    return kind.error(
        f"{path}: cannot be read: {error.strerror}.",
        hint="Whoever runs the program must be able to read it.",
    )
