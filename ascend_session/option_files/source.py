"""Files as the vendor's C++ sees them: bytes, lines and words with their places; and writing them.

Serves every file that the vendor's stack reads and a person writes. Who reads it, and which error
of this package tells about it, says a `Kind`. GE compares bytes: what is no UTF-8 is kept as it is,
in Python's form for such bytes (``surrogateescape``). What is written goes into a file beside it
first, and takes the name only when it is whole and on the disk.

Source: hicann/ge, common/string_utils.h (Trim, which strips what isspace takes), and the standard's
getline, for which only a line feed ends a line.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
from typing import Iterator, List, NamedTuple, Optional, Tuple, Type

from ascend_session.errors import AscendError, ConfigError
from ascend_session.files import UnreadableError, read_regular_file

BOM = "\ufeff"
_BLANKS = " \t\n\v\f\r"
_ESCAPED = re.compile("[\udc80-\udcff]")
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
        return read_regular_file(path, kind.most_bytes, kind.what)
    except UnreadableError as error:
        raise kind.error(f"{path}: {error}.", hint=error.hint) from error


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


def lines_of(text: str) -> Iterator[str]:
    """The lines of ``text``, carriage returns included; what follows the last line feed is one."""
    start = 0
    end = text.find("\n")
    while end >= 0:
        yield text[start:end]
        start = end + 1
        end = text.find("\n", start)
    if start < len(text):
        yield text[start:]


def trimmed(text: str) -> str:
    """``text`` without the six ASCII blanks at its ends."""
    return text.strip(_BLANKS)


def strange_bytes(text: str) -> Optional[int]:
    """Where the first byte that is no UTF-8 stands in ``text``; None if there is none."""
    found = _ESCAPED.search(text)
    return None if found is None else found.start()


def shortened(text: str, most: int = 60) -> str:
    """``text`` for a message: what is too long or no UTF-8 at its end becomes three dots."""
    at = strange_bytes(text)
    shown = text if at is None else text[:at] + "..."
    return shown if len(shown) <= most else shown[: most - 3] + "..."


_DIGITS = 16  # of a SHA-256 in hexadecimal: enough that no two files ever share a name


def write_content(path: str, content: bytes, kind: Kind, force: bool = False) -> None:
    """Writes a whole file.

    Args:
        path: Its name; a link is followed.
        content: What goes into it.
        kind: What it is.
        force: Whether a file that is there may be replaced; its permissions are kept.

    Raises:
        AscendError: Of the kind's type, if there is a file already, or it cannot be written.
            Nothing is left behind then.
    """
    try:
        if os.path.lexists(path) and not force:
            raise _exists(path, kind)
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        temporary = os.path.join(folder, f".ascend-{os.getpid()}-{os.urandom(4).hex()}.part")
        mode = _mode_of(target)
        with _removed_if_left(temporary):
            _write_whole(temporary, content, mode)
            _name(temporary, target, force)
        _settle(folder)
    except FileExistsError:
        raise _exists(path, kind) from None
    except OSError as error:
        raise kind.error(f"{path}: cannot be written: {error.strerror}.") from error
    except ValueError as error:
        if isinstance(error, AscendError):
            raise
        raise kind.error(f"{path!r} is no file name.") from None


@contextlib.contextmanager
def one_at_a_time(path: str) -> Iterator[None]:
    """Lets one process after the other change a file that it has to read before.

    Its folder is locked for that, as far as its file system has locks.
    """
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError, ValueError):
            folder = os.path.dirname(os.path.realpath(path))
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def store_content(folder: str, name: str, content: bytes, kind: Kind) -> str:
    """Puts a file into ``folder`` under a name that holds a digest of its content.

    The same content always has the same name, so that several processes may store it at the same
    time, and a file that is in use never changes.

    Args:
        folder: Where to; it is made if it is not there.
        name: What the file is called without the digest, ``op_precision.ini``.
        content: What goes into it.
        kind: What it is.

    Returns:
        The absolute path.

    Raises:
        AscendError: Of the kind's type, if it cannot be written.
    """
    path = stored_path(folder, name, content)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not _holds(path, content):
            write_content(path, content, kind, force=True)
    except OSError as error:
        raise kind.error(f"{path}: cannot be written: {error.strerror}.") from error
    return path


def stored_path(folder: str, name: str, content: bytes) -> str:
    """The path that `store_content` gives to a file."""
    stem, suffix = os.path.splitext(name)
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    return os.path.join(os.path.abspath(folder), f"{stem}-{digest}{suffix}")


def _holds(path: str, content: bytes) -> bool:
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != len(content):
            return False
        with open(path, "rb") as file:
            return file.read() == content
    except FileNotFoundError:
        return False


def _mode_of(target: str) -> Optional[int]:
    """The permissions of the file that is replaced; None if there is none."""
    try:
        facts = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "It is no file, but a pipe or a device")
    return stat.S_IMODE(facts.st_mode)


def _write_whole(temporary: str, content: bytes, mode: Optional[int]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o666), "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _name(temporary: str, target: str, force: bool) -> None:
    if force:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike a renaming, it never takes the place of another file
    except FileExistsError:
        raise
    except OSError:  # not every file system has links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "File exists") from None
        os.replace(temporary, target)


def _settle(folder: str) -> None:
    """Puts the name on the disk as well, where the file system knows how."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _removed_if_left(temporary: str) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _exists(path: str, kind: Kind) -> AscendError:
    return kind.error(f"{path}: is there already.", hint="Give force to replace it.")
