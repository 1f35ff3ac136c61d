"""A rank of a script that knows the vendor's names alone; says what it was answered."""

from ascend_session.compat import finder

finder.install()

import tensorflow.compat.v1 as tf  # noqa: E402
from hccl.manage.api import (  # noqa: E402
    create_group,
    destroy_group,
    get_group_rank_from_world_rank,
    get_local_rank_id,
    get_local_rank_size,
    get_rank_id,
    get_rank_size,
    get_world_rank_from_group_rank,
)
from npu_bridge.estimator import npu_ops  # noqa: E402
from npu_bridge.hccl import hccl_ops  # noqa: E402
from npu_bridge.helper import helper  # noqa: E402
from one_rank import say  # noqa: E402

tf.disable_eager_execution()


def entry():
    """A proto with an entry, so that the session is one of the device's."""
    proto = tf.ConfigProto()
    proto.graph_options.rewrite_options.custom_optimizers.add().name = "NpuOptimizer"
    proto.graph_options.rewrite_options.memory_optimization = 2
    proto.graph_options.rewrite_options.remapping = 2
    return proto


initialise, shut_down = npu_ops.initialize_system(), npu_ops.shutdown_system()
try:
    get_rank_id()
except ValueError as error:
    say(str(error).splitlines()[0])

with tf.Session(config=entry()) as sess:
    sess.run(initialise)
    rank = get_rank_id()
    say([rank, get_rank_size(), get_local_rank_id(), get_local_rank_size()])
    if rank > 0:
        create_group("later", 2, [1, 2])
        there = get_group_rank_from_world_rank(rank, "later")
        say([get_rank_id("later"), there, get_world_rank_from_group_rank("later", 0)])
    x = tf.constant([1.0 + rank, 2.0])
    gen = helper.get_gen_ops()
    made = [
        hccl_ops.allreduce(x, "sum"),
        hccl_ops.allgather(x, 3),
        hccl_ops.allgather(x, 3, 0, -1, "hccl_world_group"),
        hccl_ops.broadcast([x], 1)[0],
        hccl_ops.broadcast([x], 2, "hccl_world_group")[0],
        hccl_ops.reduce_scatter(tf.tile(x[:1], [3]), "sum", 3),
        gen.hcom_all_reduce(
            input=x, reduction="max", group="hccl_world_group", fusion=0, fusion_id=-1
        ),
    ]
    for tensor in made:
        say(sess.run(tensor).tolist())
    if rank > 0:
        say(sess.run(hccl_ops.allreduce(x, "sum", group="later")).tolist())
        destroy_group("later")
    sess.run(hccl_ops.allreduce(x, "sum"))
    sess.run(shut_down)
    for ask in (get_rank_size, lambda: sess.run(x)):
        try:
            ask()
        except Exception as error:
            say(type(error).__name__)
