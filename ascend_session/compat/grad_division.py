"""Which rank updates which variable, when each rank updates a part of them.

The ranks get runs of neighbouring gradients of about the same size in bytes. The division is the
vendor's, step by step, for all ranks and a checkpoint's reader have to come to the same one.

Source: npu/util.py, ``fair_division`` and what is around it.
"""

from typing import Any, Iterable, List, Sequence, Tuple

__all__ = [
    "GradDivisionItem",
    "add_grads_and_vars",
    "fair_division",
    "get_all_grad_item",
    "get_gid_by_grad",
    "get_gid_by_weight",
]


class GradDivisionItem:
    """A gradient and its variable.

    Attributes:
        size: Bytes of the gradient, 0 for a scalar.
        root_rank_id: The rank that updates the variable, -1 as long as nobody does.
    """

    def __init__(self, grad: Any, var: Any) -> None:
        self.grad = grad
        self.var = var
        self.size = _bytes_of(grad)
        self.root_rank_id = -1


def _bytes_of(gradient: Any) -> int:
    shape = list(gradient.shape)
    if not shape:
        return 0
    size = int(gradient.dtype.size)
    for length in shape:
        size *= int(length)
    return size


_items: List[Any] = []


def add_grads_and_vars(grads_and_vars: Iterable[Tuple[Any, Any]], rank_size: int) -> None:
    """Divides these pairs among so many ranks, in place of those before."""
    found = [GradDivisionItem(grad, var) for grad, var in grads_and_vars if grad is not None]
    _items[:] = fair_division(found, rank_size)


def get_all_grad_item() -> List[Any]:
    """What was divided last."""
    return _items


def get_gid_by_grad(grad: Any) -> int:
    """The rank to which the gradient of that name belongs, -1 if none does."""
    return _last([one.root_rank_id for one in _items if one.grad.name == grad.name])


def get_gid_by_weight(weight: Any) -> int:
    """The rank that updates the variable of that name, -1 if none does."""
    return _last([one.root_rank_id for one in _items if one.var.name == weight.name])


def _last(found: Sequence[int]) -> int:
    return found[-1] if found else -1


def fair_division(inputs: List[Any], number: int) -> List[Any]:
    """Gives each item a ``root_rank_id`` from 0 to ``number`` - 1.

    Raises:
        ValueError: If there are more ranks than items.
        ZeroDivisionError: For sizes that the vendor's does not divide either.
    """
    if number > len(inputs) or number < 0:
        raise ValueError(
            f"{len(inputs)} gradients cannot be divided among {number} ranks: each needs one."
        )
    if number == len(inputs):
        for place, item in enumerate(inputs):
            item.root_rank_id = place
        return inputs
    begin = 0
    for rank in range(number):
        after = number - rank - 1  # each rank behind this one needs an item
        begin = _fill(inputs, begin, len(inputs) - after, rank, _share(inputs, number - rank))
    return inputs


def _fill(inputs: List[Any], begin: int, end: int, rank: int, share: int) -> int:
    """Gives items to ``rank`` until it has its share; returns where the next rank begins."""
    taken = 0
    for place in range(begin, end):
        size = inputs[place].size
        fits = taken + size <= share
        if not fits and place > begin and taken + size - share > share - taken:
            return place
        inputs[place].root_rank_id = rank
        taken += size
        if not fits:
            return place + 1
    return end


def _share(inputs: List[Any], ranks: int) -> int:
    """What each of so many ranks should get of the items that nobody has; large ones aside."""
    free = [item for item in inputs if item.root_rank_id < 0]
    if ranks == 1:
        return int(sum(item.size for item in free))
    large: List[Any] = []
    while True:
        rest = sum(item.size for item in free if item not in large)
        if len(large) == ranks:
            raise ZeroDivisionError(
                f"{len(large)} gradients are each larger than all smaller ones together, as many "
                f"as there are ranks left ({ranks}): the vendor's division ends here, too."
            )
        share = int(rest // (ranks - len(large)))
        more = [item for item in free if item not in large and item.size > rest - item.size]
        if not more:
            return share
        large += more
