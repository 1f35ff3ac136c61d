"""The folder in which the ranks of this machine meet, which only this user may enter.

Rank 0 listens at a socket there and holds a lock file beside it. If nobody holds the lock, its
process was killed, and the next one removes both files. The folder is the same for all processes of
a user, whatever TMPDIR says, and the names are short: a socket's path has at most 107 bytes
(unix(7)). The launcher loads this file, to clean up after ranks that it has killed, and no other of
this package.
"""

import contextlib
import fcntl
import os
import stat

from ascend_session.errors import InitializationError

_PARENTS = ("/tmp", "/dev/shm", "/var/tmp")

LOCK = ".lock"
"""What the name of a lock file has behind that of its socket."""


def find_folder() -> str:
    """Return the folder in which this user's ranks meet, made if it is not there.

    Raises:
        InitializationError: If it cannot be made, or somebody else may enter it.
    """
    reasons = []
    for parent in _PARENTS:
        path = os.path.join(parent, f"ascend_session-{os.geteuid()}")
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            status = os.lstat(path)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror}")
            continue
        if status.st_uid != os.geteuid():  # whose maker may mean harm; all ranks pass it over alike
            reasons.append(f"{path} belongs to uid {status.st_uid}")
        elif not os.access(parent, os.W_OK | os.X_OK):
            reasons.append(f"{parent} is not writable")
        elif not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
            raise InitializationError(
                f"{path}, the rendezvous of the ranks on this machine, must be a folder that "
                f"only this user may enter: it has mode {stat.S_IMODE(status.st_mode):o}.",
                hint=f"Remove it, or chmod 700 {path}.",
            )
        else:
            return path
    raise InitializationError(
        f"The ranks of this machine have no folder for their rendezvous ({'; '.join(reasons)}).",
        hint=f"Make one of {', '.join(_PARENTS)} writable.",
    )


def remove_abandoned() -> None:
    """Remove what dead processes have left in the folder; never raises."""
    with contextlib.suppress(OSError, InitializationError):
        where = find_folder()
        for name in os.listdir(where):
            if name.endswith(LOCK):
                with contextlib.suppress(OSError):
                    path = os.path.join(where, name)
                    lock = lock_file(path)
                    try:
                        remove_socket(path[: -len(LOCK)])
                    finally:
                        os.close(lock)


def remove_socket(path: str) -> None:
    """Remove a socket and its lock, which the caller holds."""
    for name in (path, path + LOCK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def lock_file(path: str) -> int:
    """Create and hold a lock file.

    Raises:
        BlockingIOError: If another process holds it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    os.ftruncate(descriptor, 0)
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # somebody removed it meanwhile
