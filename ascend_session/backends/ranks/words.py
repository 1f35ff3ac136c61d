"""Arrays as the 32-bit words in which they travel, whatever their dtype; bit by bit the same."""

from typing import Any, List, Sequence, Tuple

__all__ = ["Form", "from_words", "in_words", "to_words"]

Form = Tuple[Any, Tuple[int, ...]]
"""dtype and shape of an array."""

_WORD = 4  # bytes


def in_words(forms: Sequence[Form]) -> int:
    """How many words arrays of these forms take."""
    return sum(-(-_bytes(form) // _WORD) for form in forms)


def to_words(arrays: Sequence[Any], length: int = 0) -> Any:
    """The arrays one behind the other as int32, each in whole words, all to ``length``."""
    import numpy as np

    parts = []
    for array in arrays:
        data = np.ascontiguousarray(array).tobytes()
        parts += [data, bytes(-len(data) % _WORD)]
    words = np.frombuffer(b"".join(parts), dtype=np.int32)
    missing = length - len(words)
    return np.concatenate([words, np.zeros(missing, np.int32)]) if missing > 0 else words


def from_words(words: Any, forms: Sequence[Form]) -> List[Any]:
    """The arrays of these forms that `to_words` has made ``words`` of."""
    import numpy as np

    data = np.ascontiguousarray(words).tobytes()
    arrays, start = [], 0
    for form in forms:
        dtype, shape = form
        count = int(np.prod(shape, dtype=np.int64))
        if count:
            array = np.frombuffer(data, dtype=dtype, count=count, offset=start).copy()
        else:
            array = np.zeros(0, dtype)
        arrays.append(array.reshape(shape))
        start += in_words([form]) * _WORD
    return arrays


def _bytes(form: Form) -> int:
    import numpy as np

    dtype, shape = form
    return int(np.prod(shape, dtype=np.int64)) * int(np.dtype(dtype).itemsize)
