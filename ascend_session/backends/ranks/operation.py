"""What a collective is called, and the numbers that the ranks give it together."""

from typing import NamedTuple, Tuple

__all__ = ["Agreed", "Operation"]


class Operation(NamedTuple):
    """One collective in the program.

    Attributes:
        key: Its place in the program, the same on all ranks: ``graph 1, hccl_world_group,
            collective 3``.
        name: The op's name in the graph, for messages.
        ranks: World ranks that take part, ascending.
        signature: What must be equal on all of them, readable: ``allreduce sum float32 [4, 3]``.
    """

    key: str
    name: str
    ranks: Tuple[int, ...]
    signature: str


class Agreed(NamedTuple):
    """The numbers under which TensorFlow's runtime knows a collective, the same on all ranks.

    Attributes:
        group: Number of this set of ranks, from 1, fresh for each system.
        instance: Number of this key and signature, from 1, fresh, never used twice in a job.
    """

    group: int
    instance: int
