"""Read files without blocking on pipes, and replace them atomically."""

import contextlib
import errno
import fcntl
import os
import stat
from typing import Iterator, Optional, Type

from ascend_session.errors import AscendError, ConfigError
from ascend_session.spelling import option

_OTHER_FILE = "Name the file itself."
_MISSING = "Relative paths start in the working directory; ~ is not expanded."
_DENIED = "Check that this user may read it."
_MOST_BYTES = 64 << 20
_DIGEST_DIGITS = 16  # of a SHA-256 in hexadecimal: enough that no two files ever share a name


class UnreadableError(Exception):
    """A file cannot be read; its text continues a sentence that begins with the path.

    Attributes:
        hint: What to do about it; None if the path is not a file name at all.
        is_missing: True if there is no such file (yet).
    """

    def __init__(
        self, reason: str, hint: Optional[str] = None, *, is_missing: bool = False
    ) -> None:
        super().__init__(reason)
        self.hint = hint
        self.is_missing = is_missing


def read_regular_file(path: str, most_bytes: int, what: str = "such a file") -> bytes:
    """Read a whole file, and nothing but a regular file.

    Args:
        path: Its name.
        most_bytes: Size limit, in bytes.
        what: Description of the file for messages, with its article: ``a rank table``.

    Raises:
        UnreadableError: If it is missing, unreadable, a folder, larger than ``most_bytes``, or a
            pipe or a device (this function never waits for those).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            facts = os.fstat(descriptor)
            if stat.S_ISDIR(facts.st_mode):
                raise UnreadableError("is a folder, not a file", _OTHER_FILE)
            if not stat.S_ISREG(facts.st_mode):
                raise UnreadableError("is a pipe or a device, not a file", _OTHER_FILE)
            # A file of /proc has no size; one that grows meanwhile has more than it had.
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(most_bytes + 1) if facts.st_size <= most_bytes else None
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise UnreadableError("does not exist", _MISSING, is_missing=True) from None
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", _DENIED) from error
    except ValueError:
        raise UnreadableError("is not a file name") from None
    if content is None or len(content) > most_bytes:
        raise UnreadableError(
            f"has {facts.st_size / (1 << 20):,.0f} MiB, and at most {most_bytes >> 20} MiB of "
            f"{what} are read here",
            "Check that this is the right file.",
        )
    return content


def load_file(path: str, what: str) -> bytes:
    """Read a file of at most 64 MiB with `read_regular_file`.

    Raises:
        ConfigError: If `read_regular_file` raises UnreadableError.
    """
    try:
        return read_regular_file(path, _MOST_BYTES, what)
    except UnreadableError as reason:
        raise ConfigError(f"{path}: {reason}.", hint=reason.hint) from reason


def read_end(path: str, most_bytes: int) -> bytes:
    """Read at most ``most_bytes`` from the end of a file; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        # A pipe or a device of this name would block or never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, "rb") as file:
            file.seek(max(0, os.fstat(descriptor).st_size - most_bytes))
            return file.read(most_bytes)
    return b""


def replace_file(path: str, content: bytes) -> None:
    """Replace a file atomically: write a temporary file beside it, then rename that.

    Raises:
        OSError: If either fails; the temporary file is removed.
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


def write_file(
    path: str, content: bytes, *, force: bool = False, error: Type[AscendError] = ConfigError
) -> None:
    """Write a user's file, completely and synced to disk, or not at all.

    Args:
        path: Its name; a link is followed.
        content: Its new content.
        force: Whether to replace an existing file, keeping its permissions.
        error: The type of error to raise.

    Raises:
        AscendError: The type ``error``, if the file exists and ``force`` is not given, or if it
            cannot be written. Nothing is left behind then.
    """
    try:
        if os.path.lexists(path) and not force:
            raise FileExistsError
        target = os.path.realpath(path)
        name = f".ascend-{os.getpid()}-{os.urandom(4).hex()}.part"
        temporary = os.path.join(os.path.dirname(target), name)
        try:
            _write_to_disk(temporary, content, _read_mode(target))
            if force:
                os.replace(temporary, target)
            else:
                _rename_to_new(temporary, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync_folder(os.path.dirname(target))
    except FileExistsError:
        raise error(
            f"{path} already exists.", hint=f"Give {option('force')} to replace it."
        ) from None
    except OSError as reason:
        raise error(f"{path} cannot be written: {reason.strerror}.") from reason
    except ValueError:
        raise error(f"{path!r} is not a file name.") from None


def store_file(folder: str, name: str, content: bytes) -> str:
    """Write a file into ``folder`` under a name that holds a digest of its content.

    Equal content gets the same name, so several processes may store it at the same time, and a file
    in use never changes.

    Args:
        folder: The folder; created if it is missing.
        name: The name to which the digest is added, as in ``op_precision.ini``.
        content: The content of the file.

    Returns:
        The absolute path: ``folder/op_precision-<16 hexadecimal digits>.ini``.

    Raises:
        ConfigError: If it cannot be written, or exists and cannot be read.
    """
    path = stored_path(folder, name, content)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not _has_content(path, content):
            write_file(path, content, force=True)
    except OSError as reason:
        raise ConfigError(f"{path} cannot be written: {reason.strerror}.") from reason
    return path


def stored_path(folder: str, name: str, content: bytes) -> str:
    """Return the path at which `store_file` puts a file."""
    import hashlib  # loads OpenSSL, which few need

    stem, suffix = os.path.splitext(name)
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS]
    return os.path.join(os.path.abspath(folder), f"{stem}-{digest}{suffix}")


@contextlib.contextmanager
def lock_folder_of(path: str) -> Iterator[None]:
    """Hold an exclusive lock on a file's folder during the block; none where locks do not work."""
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError, ValueError):
            folder = os.path.dirname(os.path.realpath(path))
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _has_content(path: str, content: bytes) -> bool:
    """Return whether a file has this content.

    Raises:
        OSError: If it cannot be read. It may be another user's, who could not read a new one.
    """
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(content) + 1) == content


def _read_mode(target: str) -> Optional[int]:
    """Return the permissions of the file to be replaced; None if there is none."""
    try:
        facts = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "It is a pipe or a device, not a file")
    return stat.S_IMODE(facts.st_mode)


def _write_to_disk(path: str, content: bytes, mode: Optional[int]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(path, flags, 0o666), "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _rename_to_new(temporary: str, target: str) -> None:
    """Rename a file unless the new name exists.

    Raises:
        FileExistsError: If it exists.
    """
    try:
        os.link(temporary, target)  # unlike a renaming, it never takes the place of another file
    except OSError:  # there is a file, or the file system has no links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "File exists") from None
        os.replace(temporary, target)


def _sync_folder(folder: str) -> None:
    """Sync a folder, so that a new name in it survives a crash, if the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
