"""Collectives that move the ranks' arrays without reckoning with them."""

from typing import Any, List, Sequence

from ascend_session.backends.ranks.exchange import Channel
from ascend_session.backends.ranks.words import Form, from_words, in_words, to_words
from ascend_session.errors import CollectiveError

__all__ = ["all_to_all", "from_root", "gathered", "matrix_of_all", "zeros_like"]


def gathered(channel: Channel, array: Any) -> Any:
    """All members' arrays, of the same shape, one behind the other along the first dimension."""
    import numpy as np

    form = (array.dtype, array.shape)
    if not array.shape:
        raise CollectiveError("a scalar cannot be gathered; give it a dimension: [x].")
    rows = channel.gather(to_words([array]))
    return np.concatenate([from_words(row, [form])[0] for row in rows])


def from_root(channel: Channel, forms: Sequence[Form], arrays: Sequence[Any], root: int) -> Any:
    """The root's arrays on each member.

    Args:
        channel: The ranks.
        forms: dtypes and shapes, the same on each.
        arrays: This rank's; only the root's are looked at.
        root: The root's place among the ranks.
    """
    import numpy as np

    words = to_words(arrays) if channel.me == root else np.zeros(in_words(forms), np.int32)
    # Zeros change no bit; TensorFlow 1.15 cannot broadcast in a group without rank 0.
    return from_words(channel.reduce(words, "Add"), forms)


def zeros_like(arrays: Sequence[Any]) -> List[Any]:
    """What a rank gets for which a reduction is not meant."""
    import numpy as np

    return [np.zeros_like(array) for array in arrays]


def matrix_of_all(channel: Channel, numbers: Any, part: str) -> Any:
    """Each member's int64 numbers, as many on each, ``[size, len(numbers)]``."""
    import numpy as np

    rows = channel.gather(to_words([numbers]), part)
    form = (np.dtype(np.int64), numbers.shape)
    return np.stack([from_words(row, [form])[0] for row in rows])


def all_to_all(channel: Channel, array: Any, sent: Any, starts: Any, received: Any) -> List[Any]:
    """What each member has for this one.

    Args:
        channel: The ranks.
        array: What this rank has for all, in one dimension.
        sent: How many elements each member has for each, int64 ``[size, size]``.
        starts: Where they begin in its array, int64 ``[size, size]``.
        received: How many elements each member expects of each, int64 ``[size, size]``.

    Returns:
        An array from each member, in their order.

    Raises:
        CollectiveError: If a member expects another number than there is for it.
    """
    _check(channel, sent, received)
    length = _rounded(int(((starts + sent) * (sent > 0)).max()))
    form = (array.dtype, (length,))
    rows = channel.gather(to_words([array[:length]], in_words([form])), "data")
    me = channel.me
    found = []
    for place, row in enumerate(rows):
        begin, count = int(starts[place][me]), int(sent[place][me])
        found.append(from_words(row, [form])[0][begin : begin + count])
    return found


def _rounded(length: int) -> int:
    """The next power of two, so that ever new counts do not make ever new exchanges."""
    return 1 << (length - 1).bit_length() if length else 0


def _check(channel: Channel, sent: Any, received: Any) -> None:
    for sender in range(channel.size):
        for receiver in range(channel.size):
            has, wants = int(sent[sender][receiver]), int(received[receiver][sender])
            if has != wants:
                ranks = channel.ranks
                raise CollectiveError(
                    f"rank {ranks[sender]} sends {has} elements to rank {ranks[receiver]}, which "
                    f"expects {wants} of it (send_counts and recv_counts)."
                )
