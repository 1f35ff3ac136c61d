"""Each rank updates a part of the variables, and sends them to the others.

The vendor's takes DEVICE_ID for the rank: where it is another number, nobody would update some of
the variables. That is refused here. Source: npu_optimizer.py.
"""

import os
from typing import Any, List, Sequence, Tuple

from ascend_session import hccl
from ascend_session.compat.grad_division import get_gid_by_weight
from ascend_session.compat.tensorflow_names import tf
from ascend_session.errors import UnsupportedError

__all__ = ["own_pairs", "own_rank", "sent_by_owners"]


def own_rank() -> int:
    """This rank, which is DEVICE_ID.

    Raises:
        ValueError: If that is not set, or negative.
        UnsupportedError: If RANK_ID is another number.
    """
    device, rank = os.environ.get("DEVICE_ID"), os.environ.get("RANK_ID")
    if device is None or int(device) < 0:
        raise ValueError(f"Please set the correct DEVICE_ID value, current DEVICE_ID is: {device}")
    if rank is not None and int(rank) != int(device):
        raise UnsupportedError(
            f"npu_optimizer.reduce and is_weight_update_sharding take DEVICE_ID={device} for the "
            f"rank, but RANK_ID={rank}: some variables would never be updated.",
            hint="Leave is_weight_update_sharding out, or start the ranks on one server, one on "
            "each device.",
        )
    return int(device)


def own_pairs(pairs: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
    """The pairs that this rank applies, and the gradients that it only has to exchange."""
    rank = own_rank()
    own, others = [], []
    for gradient, variable in pairs:
        owner = get_gid_by_weight(variable)
        if owner == rank:
            own.append((gradient, variable))
        elif owner >= 0:
            others.append(gradient)
    return own, others


def sent_by_owners(variables: Sequence[Any]) -> Any:
    """An operation that gives each of the variables its owner's value.

    Each exchange waits for the one before it: all ranks must come to them in the same order.
    """
    done: List[Any] = []
    for variable in variables:
        owner = get_gid_by_weight(variable)
        if owner < 0:
            continue
        with tf.control_dependencies(done[-1:]):
            received = hccl.broadcast([variable.read_value()], owner, 0, -1)[0]
            done.append(variable.assign(received).op)
    return tf.group(done)
