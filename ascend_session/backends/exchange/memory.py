"""Shared memory that has no name: a file that is unlinked before it is used.

Writing to a page of ``/dev/shm`` that the file system cannot provide is SIGBUS, not an error, and
containers often have 64 MB of it. All pages are therefore allocated before the file is mapped.
"""

import errno
import mmap
import os
import sys
import tempfile
import threading
from typing import Any, List, NamedTuple, Sequence, Tuple

from ascend_session.errors import CollectiveError

FOLDERS = ("/dev/shm", "/tmp", "/var/tmp")
"""Where such files are made; the first that has room is taken."""

SMALLEST = 64 * 1024
"""Bytes below which it is not worth trying."""

_WORTH_KEEPING_BYTES = 1 << 20
_KEPT = 3  # memory for results


def create_shared_memory(size_bytes: int, smallest_bytes: int = SMALLEST) -> Tuple[int, int]:
    """Make a file for shared memory, smaller than asked where there is not so much room.

    Args:
        size_bytes: How many bytes are wanted.
        smallest_bytes: How many are needed.

    Returns:
        Its descriptor, and how many bytes it has: `size_bytes` or a half, a quarter ... of it.

    Raises:
        CollectiveError: If no folder has room for `smallest_bytes`.
    """
    failures: List[str] = []
    while size_bytes >= smallest_bytes:
        failures.clear()
        for folder in FOLDERS:
            try:
                return _allocate(folder, size_bytes), size_bytes
            except OSError as error:
                failures.append(f"{folder}: {error.strerror}")
        size_bytes //= 2
    raise CollectiveError(
        f"There is no room for {smallest_bytes // 1024} KB of shared memory, in which the ranks of "
        f"this machine exchange tensors ({'; '.join(failures)}).",
        hint="Give the container more of /dev/shm (docker run --shm-size=1g), or free space there.",
    )


def map_shared_memory(descriptor: int, size_bytes: int) -> Any:
    """Map such a file.

    Returns:
        A writable uint8 array of its bytes; the memory is released with the array.
    """
    import numpy as np

    return np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)


def _allocate(folder: str, size_bytes: int) -> int:
    descriptor = _open_unnamed(folder)
    try:
        while True:
            try:
                os.posix_fallocate(descriptor, 0, size_bytes)
                return descriptor
            except OSError as error:
                if error.errno != errno.EINTR:  # a signal came
                    raise
    except BaseException:
        os.close(descriptor)
        raise


def _open_unnamed(folder: str) -> int:
    """Open a file without a name, of which nothing is left whichever process is killed when."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # not every file system can
        descriptor, path = tempfile.mkstemp(prefix="ascend_session-", dir=folder)
        os.unlink(path)
        return descriptor


class Buffers:
    """Memory for results, handed out again once nobody refers to what is in it.

    New memory has to be cleared by the kernel page by page, which takes longer than to fill it; and
    TensorFlow copies what does not begin at a multiple of 64 bytes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: List[Any] = []

    def take(self, shape: Sequence[int], dtype: Any) -> Any:
        """Give an array whose values mean nothing yet."""
        import numpy as np

        size_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if size_bytes < _WORTH_KEEPING_BYTES:
            return np.empty(shape, dtype)
        with self._lock:
            memory = self._free(size_bytes)
        begin = -memory.ctypes.data % 64
        return memory[begin : begin + size_bytes].view(dtype).reshape(shape)

    def _free(self, size_bytes: int) -> Any:
        """Find memory to which nothing but this list refers: views refer to it, too."""
        import numpy as np

        for memory in self._kept:
            is_free = sys.getrefcount(memory) == _REFERENCES
            if is_free and size_bytes + 64 <= len(memory) <= 2 * size_bytes + 64:
                return memory
        memory = np.empty(size_bytes + 64, np.uint8)
        self._kept = [memory, *self._kept[: _KEPT - 1]]
        return memory


def _references_when_free() -> int:
    """Count the references to what only a list and a loop's variable refer to."""
    for memory in [bytearray(1)]:
        return sys.getrefcount(memory)
    return 0


_REFERENCES = _references_when_free()


def part_of(count: int, index: int, parts: int) -> slice:
    """Give the elements of ``count`` that one of several ranks reduces."""
    return slice(count * index // parts, count * (index + 1) // parts)


class Blocks(NamedTuple):
    """How a run passes through shared memory: in blocks, for which each rank has two places.

    The two take turns, so that who writes a block does not disturb those that read the one before.

    Attributes:
        ranks: Those that take part.
        sizes: How many bytes each of them has for the others.
        block_bytes: How much of each passes at once, a multiple of 64 so that it begins where
            elements of any dtype may.
    """

    ranks: Sequence[int]
    sizes: Sequence[int]
    block_bytes: int

    @property
    def numbers(self) -> range:
        """The numbers of all blocks."""
        return range(-(-max(self.sizes) // self.block_bytes))

    def place(self, memory: Any, rank: int, block: int) -> Any:
        """Give the part of the shared memory, uint8, that holds what a rank has in a block."""
        index = self.ranks.index(rank)
        begin = (block % 2 * len(self.ranks) + index) * self.block_bytes
        size_bytes = min(self.sizes[index] - block * self.block_bytes, self.block_bytes)
        return memory[begin : begin + max(size_bytes, 0)]
