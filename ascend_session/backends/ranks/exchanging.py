"""Collectives in which each rank gives each rank something else, and what all of them check."""

from typing import Any, Sequence

from ascend_session.backends.collective_shapes import exchanged
from ascend_session.backends.ranks.exchange import Channel
from ascend_session.backends.ranks.moving import all_to_all, matrix_of_all
from ascend_session.errors import CollectiveError

__all__ = ["by_lists", "by_matrix", "check_rank", "check_root", "check_size"]


def by_lists(channel: Channel, arrays: Sequence[Any]) -> Any:
    """all_to_all_v.

    Args:
        channel: The ranks.
        arrays: The data, then send_counts, send_displacements, recv_counts, recv_displacements.
    """
    import numpy as np

    size = channel.size
    data = arrays[0].reshape(-1)
    lists = [_list(channel, array) for array in arrays[1:]]
    send_counts, send_displacements, recv_counts, recv_displacements = lists
    _check_end(data, int((send_counts + send_displacements * (send_counts > 0)).max()))
    table = matrix_of_all(channel, np.concatenate(lists[:3]), "counts")
    sent, starts, received = (table[:, at : at + size] for at in (0, size, 2 * size))
    parts = all_to_all(channel, data, sent, starts, received)
    result = np.zeros(exchanged(recv_counts.tolist(), recv_displacements.tolist()), data.dtype)
    for part, start in zip(parts, recv_displacements):
        result[start : start + len(part)] = part
    return result


def by_matrix(channel: Channel, arrays: Sequence[Any], rank: int) -> Any:
    """all_to_all_v_c.

    Args:
        channel: The ranks.
        arrays: The data, then the matrix.
        rank: What this process says is its rank in the group.
    """
    import numpy as np

    size = channel.size
    check_rank(channel, rank)
    data, matrix = arrays[0].reshape(-1), arrays[1]
    if matrix.size != size * size or (matrix < 0).any():
        raise CollectiveError(
            f"send_count_matrix needs one row and one column for each of the group's {size} ranks, "
            f"and no number below 0; it is {matrix.tolist()}."
        )
    sent = matrix.reshape(size, size)
    _check_end(data, int(sent[channel.me].sum()))
    table = matrix_of_all(channel, sent.reshape(-1), "counts")
    for place, row in enumerate(table):
        if (row != table[0]).any():
            raise CollectiveError(
                f"send_count_matrix is not the same on all ranks: rank {channel.ranks[0]} has "
                f"{table[0].tolist()}, rank {channel.ranks[place]} has {row.tolist()}."
            )
    starts = np.cumsum(sent, axis=1) - sent
    return np.concatenate(all_to_all(channel, data, sent, starts, sent.T))


def check_size(channel: Channel, name: str, size: int) -> None:
    """Raises CollectiveError if the group has another number of ranks than the operator says."""
    if size != channel.size:
        raise CollectiveError(f"{name}={size}, but the group has {channel.size} ranks.")


def check_root(channel: Channel, root: int) -> None:
    """Raises CollectiveError if the group has no such rank."""
    if not 0 <= root < channel.size:
        raise CollectiveError(
            f"root_rank={root}, but the ranks of the group are 0 to {channel.size - 1}."
        )


def check_rank(channel: Channel, rank: int) -> None:
    """Raises CollectiveError if this process has another rank in the group."""
    if rank != channel.me:
        raise CollectiveError(f"rank={rank}, but this process is rank {channel.me} of the group.")


def _list(channel: Channel, numbers: Any) -> Any:
    numbers = numbers.reshape(-1)
    if len(numbers) < channel.size or (numbers < 0).any():
        raise CollectiveError(
            f"each list of counts and displacements needs {channel.size} numbers of 0 or more, one "
            f"for each rank of the group; one is {numbers.tolist()}."
        )
    return numbers[: channel.size]


def _check_end(data: Any, end: int) -> None:
    if end > len(data):
        raise CollectiveError(
            f"{end} elements of send_data are asked for, but it has {len(data)}. Counts and "
            "displacements are in elements, not in bytes."
        )
