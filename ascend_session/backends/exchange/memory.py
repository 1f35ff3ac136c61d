"""Shared memory, through which large tensors pass, and memory for their results.

Writing to a page of ``/dev/shm`` that the file system cannot provide is SIGBUS, not an error, and
containers often have 64 MB of it. All pages are therefore allocated before the file is mapped.
"""

import contextlib
import mmap
import os
import sys
import tempfile
import threading
from typing import Any, List, Sequence

from ascend_session.errors import CollectiveError

FOLDERS = ("/dev/shm", "/tmp", "/var/tmp")
"""Where the file is created: in the first folder that has room."""

MEMORY_BYTES = 32 << 20
"""Its size, for all ranks together."""

PLACE_BYTES = 64
"""A rank's place in it begins at a multiple of this, as any dtype may."""

_SMALLEST_BYTES = 64 * 1024

_REUSED_BYTES = 128 << 10  # least size of memory that is worth keeping
_KEPT_COUNT = 3


def create_shared_memory(rank_count: int, size_bytes: int = MEMORY_BYTES) -> int:
    """Create an unlinked file for shared memory, a smaller one where there is less room.

    Returns:
        Its descriptor.

    Raises:
        CollectiveError: If no folder has room for a small one.
    """
    failures: List[str] = []
    smallest_bytes = max(_SMALLEST_BYTES, 2 * PLACE_BYTES * rank_count)
    while size_bytes >= smallest_bytes:
        failures.clear()
        for folder in FOLDERS:
            try:
                return _allocate(folder, size_bytes)
            except OSError as error:
                failures.append(f"{folder}: {error.strerror}")
        size_bytes //= 2
    raise CollectiveError(
        f"There is no room for {smallest_bytes // 1024} KB of shared memory, in which the ranks of "
        f"this machine exchange tensors ({'; '.join(failures)}).",
        hint="Give the container more of /dev/shm (docker run --shm-size=1g), or free space there.",
    )


def map_shared_memory(descriptor: int) -> Any:
    """Map such a file; return its bytes as a writable uint8 array, which owns the mapping."""
    import numpy as np

    return np.frombuffer(mmap.mmap(descriptor, os.fstat(descriptor).st_size), np.uint8)


def _allocate(folder: str, size_bytes: int) -> int:
    descriptor = _open_unnamed(folder)
    try:
        while True:
            with contextlib.suppress(InterruptedError):  # a signal came
                os.posix_fallocate(descriptor, 0, size_bytes)
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _open_unnamed(folder: str) -> int:
    """Open a file that vanishes with the processes that have it open."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # not every file system can
        descriptor, path = tempfile.mkstemp(prefix="ascend_session-", dir=folder)
        os.unlink(path)
        return descriptor


class Buffers:
    """Memory for results, reused once nothing refers to them.

    The kernel clears new memory page by page, which takes longer than to fill it; and TensorFlow
    copies arrays that do not begin at a multiple of 64 bytes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: List[Any] = []

    def take(self, shape: Sequence[int], dtype: Any) -> Any:
        """Return an array with arbitrary contents."""
        import numpy as np

        size_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if size_bytes < _REUSED_BYTES:
            return np.empty(shape, dtype)
        with self._lock:
            memory = self._find_free(size_bytes)
        begin = -memory.ctypes.data % 64
        return memory[begin : begin + size_bytes].view(dtype).reshape(shape)

    def _find_free(self, size_bytes: int) -> Any:
        """Return memory that no array refers to any more."""
        import numpy as np

        for memory in self._kept:
            is_free = sys.getrefcount(memory) == _REFERENCES
            if is_free and size_bytes + 64 <= len(memory) <= 2 * size_bytes + 64:
                return memory
        memory = np.empty(size_bytes + 64, np.uint8)
        self._kept = [memory, *self._kept[: _KEPT_COUNT - 1]]
        return memory


def _references_when_free() -> int:
    """Count the references to what only a list and a loop's variable refer to."""
    for memory in [bytearray(1)]:
        return sys.getrefcount(memory)
    return 0


_REFERENCES = _references_when_free()
