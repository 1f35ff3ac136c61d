"""HCCL's collectives, made of a communicator's two exchanges: share bytes and reduce arrays."""

import functools
from typing import Any, Dict, List, Sequence, Tuple

from ascend_session.backends.collectives import count_exchanged
from ascend_session.backends.exchange.communicator import Communicator
from ascend_session.backends.exchange.reductions import reduction_dtype
from ascend_session.errors import CollectiveError

Form = Tuple[Any, Tuple[int, ...]]
"""dtype and shape of an array."""


def all_reduce(comm: Communicator, arrays: Sequence[Any], reduction: str) -> List[Any]:
    """Reduce the ranks' arrays one by one, of the same dtypes and shapes on each.

    All arrays that are reduced in one dtype travel as one.
    """
    results: List[Any] = [None] * len(arrays)
    dtypes = tuple(array.dtype for array in arrays)
    for dtype, places in _places_by_dtype(dtypes, reduction):
        flat = [arrays[place].reshape(-1).astype(dtype, copy=False) for place in places]
        # One exchange has the collective's own key.
        part = "" if len(places) == len(arrays) else dtype
        reduced = comm.all_reduce(_join(flat), reduction, dtype, part)
        end = 0
        for place in places:
            array = arrays[place]
            piece = reduced[end : end + array.size].reshape(array.shape)
            results[place] = piece.astype(array.dtype, copy=False)
            end += array.size
    return results


def reduce_scatter(comm: Communicator, array: Any, reduction: str) -> Any:
    """Give each rank its part of the reduction, along the first dimension.

    Raises:
        CollectiveError: If that cannot be divided by the number of ranks.
    """
    lengths = array.shape
    if not lengths or lengths[0] % comm.size:
        raise CollectiveError(
            f"reduce_scatter divides the first dimension among {comm.size} ranks; the shape "
            f"{list(lengths)} cannot be divided evenly."
        )
    part = lengths[0] // comm.size
    return all_reduce(comm, [array], reduction)[0][comm.me * part : (comm.me + 1) * part]


def all_gather(comm: Communicator, array: Any) -> Any:
    """Concatenate all ranks' arrays, of the same shape, along the first dimension."""
    if not array.shape:
        raise CollectiveError("a scalar cannot be gathered; give it a dimension: [x].")
    rows = _gather(comm, array)
    return rows.reshape((comm.size * array.shape[0], *array.shape[1:]))


def broadcast(
    comm: Communicator, forms: Sequence[Form], arrays: Sequence[Any], root: int
) -> List[Any]:
    """Give each rank the root's arrays.

    Args:
        comm: The ranks.
        forms: dtypes and shapes, the same on each.
        arrays: This rank's; only the root's matter.
        root: The root's index among the ranks.
    """
    import numpy as np

    results = [comm.buffers.take(shape, dtype) for dtype, shape in forms]
    targets = [_as_bytes(result) for result in results]
    ends = np.cumsum([len(target) for target in targets])
    # The root's arrays travel one behind the other, the others send nothing.
    blocks = [_as_bytes(array) for array in arrays] if comm.me == root else [targets[0][:0]]
    parts = [(root, int(end) - len(target), target) for target, end in zip(targets, ends)]
    comm.share(_join(blocks), parts)
    return results


def all_to_all_v(comm: Communicator, arrays: Sequence[Any]) -> Any:
    """Give each rank a part of what each has, by lists of counts.

    Args:
        comm: The ranks.
        arrays: The data, then send_counts, send_displacements, recv_counts, recv_displacements.
    """
    import numpy as np

    size = comm.size
    data = arrays[0].reshape(-1)
    lists = [_check_list(comm, array) for array in arrays[1:]]
    send_counts, send_displacements, recv_counts, recv_displacements = lists
    _check_end(data, int((send_counts + send_displacements * (send_counts > 0)).max()))
    table = _gather(comm, np.concatenate(lists[:3]).astype(np.int64), "counts")
    sent, starts, received = (table[:, at : at + size] for at in (0, size, 2 * size))
    parts = _all_to_all(comm, data, sent, starts, received)
    result = np.zeros(
        count_exchanged(recv_counts.tolist(), recv_displacements.tolist()), data.dtype
    )
    for part, start in zip(parts, recv_displacements):
        result[start : start + len(part)] = part
    return result


def all_to_all_v_c(comm: Communicator, arrays: Sequence[Any], rank: int) -> Any:
    """Give each rank a part of what each has, by a matrix that is the same on all.

    Args:
        comm: The ranks.
        arrays: The data, then the matrix.
        rank: This process's rank in the group, according to the script.
    """
    import numpy as np

    size = comm.size
    if rank != comm.me:
        raise CollectiveError(f"rank={rank}, but this process is rank {comm.me} of the group.")
    data, matrix = arrays[0].reshape(-1), arrays[1]
    if matrix.size != size * size or (matrix < 0).any():
        raise CollectiveError(
            f"send_count_matrix needs one row and one column for each of the group's {size} ranks, "
            f"and no number below 0; it is {matrix.tolist()}."
        )
    sent = matrix.reshape(size, size)
    _check_end(data, int(sent[comm.me].sum()))
    table = _gather(comm, sent.reshape(-1).astype(np.int64), "counts")
    for index, row in enumerate(table):
        if (row != table[0]).any():
            raise CollectiveError(
                f"send_count_matrix is not the same on all ranks: rank {comm.ranks[0]} has "
                f"{table[0].tolist()}, rank {comm.ranks[index]} has {row.tolist()}."
            )
    starts = np.cumsum(sent, axis=1) - sent
    return np.concatenate(_all_to_all(comm, data, sent, starts, sent.T))


def check_size(comm: Communicator, name: str, size: int) -> None:
    """Raise CollectiveError if the group has another number of ranks than the operator says."""
    if size != comm.size:
        raise CollectiveError(f"{name}={size}, but the group has {comm.size} ranks.")


def check_root(comm: Communicator, root: int) -> None:
    """Raise CollectiveError if the group has no such rank."""
    if not 0 <= root < comm.size:
        raise CollectiveError(
            f"root_rank={root}, but the ranks of the group are 0 to {comm.size - 1}."
        )


@functools.lru_cache(maxsize=256)
def _places_by_dtype(dtypes: Tuple[Any, ...], reduction: str) -> List[Tuple[str, List[int]]]:
    """Group arrays by the dtype in which they are reduced, in the order of the first ones."""
    places: Dict[str, List[int]] = {}
    for place, dtype in enumerate(dtypes):
        places.setdefault(reduction_dtype(reduction, dtype.name), []).append(place)
    return list(places.items())


def _gather(comm: Communicator, array: Any, name: str = "") -> Any:
    """Return the ranks' arrays, of the same dtype and shape on each, as ``[size, *shape]``."""
    result = comm.buffers.take((comm.size, *array.shape), array.dtype)
    rows = _as_bytes(result).reshape(comm.size, array.nbytes)
    comm.share(_as_bytes(array), [(index, 0, row) for index, row in enumerate(rows)], name)
    return result


def _all_to_all(comm: Communicator, data: Any, sent: Any, starts: Any, received: Any) -> List[Any]:
    """Return what each rank has for this one, an array from each.

    Args:
        comm: The ranks.
        data: What this rank has for all, in one dimension.
        sent: How many elements each rank has for each, int64 ``[size, size]``.
        starts: Where they begin in its array, int64 ``[size, size]``.
        received: How many elements each rank expects of each, int64 ``[size, size]``.

    Raises:
        CollectiveError: If a rank expects another number than there is for it.
    """
    import numpy as np

    _check_counts(comm, sent, received)
    me, itemsize = comm.me, data.dtype.itemsize
    results = [np.empty(int(count), data.dtype) for count in sent[:, me]]
    parts = [
        (index, int(starts[index][me]) * itemsize, _as_bytes(result))
        for index, result in enumerate(results)
        if result.size
    ]
    comm.share(_as_bytes(data), parts, "data")
    return results


def _check_counts(comm: Communicator, sent: Any, received: Any) -> None:
    ranks = comm.ranks
    for sender in range(comm.size):
        for receiver in range(comm.size):
            has, wants = int(sent[sender][receiver]), int(received[receiver][sender])
            if has != wants:
                raise CollectiveError(
                    f"rank {ranks[sender]} sends {has} elements to rank {ranks[receiver]}, which "
                    f"expects {wants} of it (send_counts and recv_counts)."
                )


def _check_list(comm: Communicator, numbers: Any) -> Any:
    numbers = numbers.reshape(-1)
    if len(numbers) < comm.size or (numbers < 0).any():
        raise CollectiveError(
            f"each list of counts and displacements needs {comm.size} numbers of 0 or more, one "
            f"for each rank of the group; one is {numbers.tolist()}."
        )
    return numbers[: comm.size]


def _check_end(data: Any, end: int) -> None:
    if end > len(data):
        raise CollectiveError(
            f"The counts need {end} elements of send_data, but it has {len(data)}. Counts and "
            "displacements are in elements, not in bytes."
        )


def _join(arrays: Sequence[Any]) -> Any:
    import numpy as np

    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _as_bytes(array: Any) -> Any:
    """View an array as its bytes in one dimension; a copy of it if it has gaps."""
    import numpy as np

    return np.ascontiguousarray(array.reshape(-1)).view(np.uint8)
