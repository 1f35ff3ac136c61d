"""HCCL's collectives with the vendor's signatures, on the device and between stub processes.

The operators take and give tensors of the default graph; groups and ranks can be asked for inside
``with ascend_system()``. TensorFlow is imported when the first operator is built.
"""

from ascend_session.hccl.exchanging import all_to_all_v, all_to_all_v_c
from ascend_session.hccl.groups import (
    create_group,
    destroy_group,
    group_rank,
    local_rank,
    local_size,
    rank,
    size,
    world_rank,
)
from ascend_session.hccl.moving import allgather, broadcast, receive, send
from ascend_session.hccl.reducing import allreduce, reduce, reduce_scatter
from ascend_session.vendor import WORLD_GROUP

__all__ = [
    "WORLD_GROUP",
    "all_to_all_v",
    "all_to_all_v_c",
    "allgather",
    "allreduce",
    "broadcast",
    "create_group",
    "destroy_group",
    "group_rank",
    "local_rank",
    "local_size",
    "rank",
    "receive",
    "reduce",
    "reduce_scatter",
    "send",
    "size",
    "world_rank",
]
