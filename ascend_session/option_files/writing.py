"""Files that are never there in part, and files whose name says what is in them.

What is written goes into a file beside it first, and takes the name only when it is whole and on
the disk: whoever opens the name sees all of it, or what was there before.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from typing import Iterator, Optional

from ascend_session.errors import AscendError
from ascend_session.option_files.source import Kind

__all__ = ["one_at_a_time", "store_content", "stored_path", "write_content"]

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
