"""HCCL's collectives with the vendor's signatures, on the device and between stub processes.

The operators take and give tensors of the default graph; groups and ranks can be asked for inside
``with ascend_system()``. TensorFlow is imported when the first operator is built. They raise

* TypeError or ValueError for an argument of a wrong type or value, also for a tensor, as far as
  it is known while the graph is built;
* LifecycleError for an operator under eager execution, for a group without an open system;
* CollectiveError for a group or a rank that is not there;
* BackendError if the backend that is chosen cannot run here.
"""

from ascend_session.hccl.operators import (
    all_to_all_v,
    all_to_all_v_c,
    allgather,
    allreduce,
    broadcast,
    create_group,
    destroy_group,
    group_rank,
    local_rank,
    local_size,
    rank,
    receive,
    reduce,
    reduce_scatter,
    send,
    size,
    world_rank,
)
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
