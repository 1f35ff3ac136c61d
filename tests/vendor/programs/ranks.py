"""One rank of a job on a fake host, with the vendor's packages alone: what it gets, as JSON.

The first argument names what it does, one of the functions below.
"""

import json
import os
import sys
import warnings
from typing import Any, Callable, Dict

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)

from hccl.manage import api  # noqa: E402
from npu_bridge.estimator import npu_ops  # noqa: E402
from npu_bridge.hccl import hccl_ops  # noqa: E402


def said(build: Callable[[], Any]) -> Any:
    """The values of what is built, or the error with which its run ends."""
    with tf.Graph().as_default() as graph:
        fetches = build()
        with tf.Session(graph=graph, config=config) as sess:
            try:
                return plain(sess.run(fetches))
            except tf.errors.InternalError as error:
                return str(error)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return None if value is None else np.asarray(value, np.float64).tolist()


def own(*factors: float, dtype: Any = tf.float32) -> Any:
    """A tensor that differs from rank to rank."""
    return tf.constant([factor * (rank + 1) for factor in factors], dtype)


def each() -> Dict[str, Any]:
    """Every operator once, in one run."""
    found = {f"allreduce {name}": hccl_ops.allreduce(own(1, 2), name) for name in REDUCTIONS}
    found["allgather"] = hccl_ops.allgather(own(1, 2), size)
    found["broadcast"] = hccl_ops.broadcast([own(1, 2), own(5, dtype=tf.int64)], 1)
    found["reduce"] = hccl_ops.reduce(own(1, 2), "sum", 1)
    parts = own(*range(2 * size), dtype=tf.int32)
    found["reduce_scatter"] = hccl_ops.reduce_scatter(parts, "sum", size)
    # To rank i go i + 1 elements of this rank's number, from each comes as many as it is told.
    begins = [i * (i + 1) // 2 for i in range(size)]
    data = own(*[1] * (begins[-1] + size))
    found["all_to_all_v"] = hccl_ops.all_to_all_v(
        data,
        tf.constant([i + 1 for i in range(size)], tf.int64),
        tf.constant(begins, tf.int64),
        tf.constant([rank + 1] * size, tf.int64),
        tf.constant([(rank + 1) * i for i in range(size)], tf.int64),
    )
    matrix = tf.constant([[i + 1 for i in range(size)]] * size, tf.int64)
    found["all_to_all_v_c"] = hccl_ops.all_to_all_v_c(data, matrix, rank)
    return found


def in_a_loop() -> Any:
    start = (tf.constant(0), own(1.0))
    return tf.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, hccl_ops.allreduce(x, "sum")), start
    )[1]


def gradient() -> Any:
    x = own(1, 2)
    return tf.gradients(hccl_ops.allreduce(x, "max") * (rank + 1.0), x)[0]


def paired() -> Any:
    """Rank 0 sends to rank 1 twice, and gets an answer."""
    if rank == 0:
        return [
            hccl_ops.send(own(1, 2), 7, 1),
            hccl_ops.send(own(3, 4), 7, 1),
            hccl_ops.receive([1], tf.int32, 7, 1),
        ]
    if rank == 1:
        return [
            hccl_ops.receive([2], tf.float32, 7, 0),
            hccl_ops.receive([2], tf.float32, 7, 0),
            hccl_ops.send(own(9, dtype=tf.int32), 7, 0),
        ]
    return own(0)


def in_a_group() -> Any:
    """All but rank 1 are in it; root and order are those in the group."""
    return {
        "sum": hccl_ops.allreduce(own(1), "sum", group="g"),
        "all": hccl_ops.allgather(own(1), 2, group="g"),
        "root": hccl_ops.broadcast([own(1)], 1, group="g"),
    }


def different(what: str) -> Any:
    """Rank 0 calls something else than the others."""
    odd = rank == 0
    if what == "tag":
        return hccl_ops.allreduce(own(1), "sum") if odd else hccl_ops.allgather(own(1), size)
    if what == "count":
        return hccl_ops.allreduce(own(1, 2) if odd else own(1), "sum")
    if what == "dataType":
        return hccl_ops.allreduce(own(1, dtype=tf.int32 if odd else tf.float32), "sum")
    if what == "reduction":
        return hccl_ops.allreduce(own(1), "max" if odd else "sum")
    return hccl_ops.broadcast([own(1)], 1 if odd else 0)


def everything() -> Dict[str, Any]:
    found: Dict[str, Any] = {"each": said(each), "again": said(each), "loop": said(in_a_loop)}
    found["gradient"] = said(gradient)
    found["paired"] = said(paired)
    if rank != 1:
        api.create_group("g", 2, [2, 0])
        found["group"] = said(in_a_group)
    else:
        found["group"] = said(lambda: hccl_ops.allreduce(own(1), "sum", group="g"))
    for what in ("tag", "count", "dataType", "reduction", "root"):
        found[f"different {what}"] = said(lambda what=what: different(what))
    found["after"] = said(lambda: hccl_ops.allreduce(own(1), "sum"))
    # The last rank ends; the others wait for it until HCCL gives up.
    if rank != size - 1:
        found["lost"] = said(lambda: hccl_ops.allreduce(own(1), "sum"))
    return found


def faulty() -> Dict[str, Any]:
    """What the faults of collectives change."""
    found: Dict[str, Any] = {"each": said(each), "gradient": said(gradient), "paired": said(paired)}
    api.create_group(f"g{rank}", 1, [rank])
    alone = said(lambda: hccl_ops.allreduce(own(1, dtype=tf.int32), "sum", group=f"g{rank}"))
    return {**found, "alone": alone}


def nobody_comes() -> Dict[str, Any]:
    """Rank 1 never calls anything."""
    if rank == 1:
        sys.stdin.readline()
        return {}
    os.environ["FAKE_GE_HCCL_SECOND"] = "0.01"  # only now, for processes begin far apart
    return {"alone": said(lambda: hccl_ops.allreduce(own(1), "sum"))}


REDUCTIONS = ("sum", "prod", "max", "min")
config = tf.ConfigProto()
config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
start = npu_ops.initialize_system()
# A session that has computed keeps GE up, and with it the groups
# (guides/facts/process.md#life-of-ge-in-a-process).
two = tf.constant([[2.0]])
product = tf.matmul(two, two)
keeper = tf.Session(config=config)
keeper.run(start)
keeper.run(product)
rank, size = api.get_rank_id(), api.get_rank_size()
result = globals()[sys.argv[1]]()
print("@", json.dumps({"rank": rank, "size": size, **result}), flush=True)
