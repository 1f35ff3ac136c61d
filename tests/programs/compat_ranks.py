"""A rank that trains as scripts for the vendor's package do; writes down what it finds."""

import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()

from npu_bridge.npu_init import *  # noqa: E402, F403

names: Any = dict(globals())
tf = names["tf"]
rank, size = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
found: Any = {"weights": {}, "size": size}
BATCH = 2


def data() -> Any:
    """This rank's part of each batch."""
    numbers = np.random.RandomState(0).rand(6, size, BATCH, 3).astype("float32")
    return [(one[rank], one[rank].sum(1, keepdims=True)) for one in numbers]


def model() -> Any:
    """A linear model, whose first weights are another's on each rank."""
    x, y = tf.placeholder(tf.float32, [BATCH, 3]), tf.placeholder(tf.float32, [BATCH, 1])
    start = np.full([3, 1], 0.1 * (rank + 1), "float32")
    weight = tf.get_variable("weight", initializer=start, use_resource=True)
    return x, y, weight, tf.reduce_mean(tf.square(tf.matmul(x, weight) - y))


def train(optimizer: Any) -> Any:
    """The weights after training in a session with hooks."""
    with tf.Graph().as_default():
        x, y, weight, loss = model()
        step = optimizer().minimize(loss, tf.train.get_or_create_global_step())
        with tf.train.MonitoredTrainingSession(hooks=names["npu_hooks_append"]()) as sess:
            for xs, ys in data():
                sess.run(step, {x: xs, y: ys})
            return sess.run(weight).ravel().tolist()


def scaled() -> Any:
    """With a scaled loss."""
    manager = names["FixedLossScaleManager"](8)
    inner = names["NPUDistributedOptimizer"](tf.train.GradientDescentOptimizer(0.1))
    return names["NPULossScaleOptimizer"](inner, manager, is_distributed=True)


kinds: Any = {
    "distributed": lambda: names["npu_tf_optimizer"](tf.train.GradientDescentOptimizer(0.1)),
    "npu": lambda: names["NPUOptimizer"](
        tf.train.GradientDescentOptimizer(0.1), is_distributed=True
    ),
    "wrapped": lambda: names["npu_distributed_optimizer_wrapper"](
        tf.train.GradientDescentOptimizer(0.1)
    ),
    "scaled": scaled,
}
ASKED = sys.argv[2:]
for kind in ASKED:
    if kind in kinds:
        found["weights"][kind] = train(kinds[kind])

with tf.Graph().as_default():
    sess, ending = names["init_resource"]()
    found["rank"] = [names["get_npu_rank_id"](), names["get_npu_rank_size"]()]
    names["shutdown_resource"](sess, ending)
    names["close_session"](sess)

with tf.Graph().as_default(), tf.Session() as sess:
    sent = [
        tf.get_variable(f"sent{n}", initializer=[rank + 1.0], use_resource=bool(n))
        for n in range(2)
    ]
    received = names["hccl_ops"].broadcast(tf.trainable_variables(), 1)
    sess.run(tf.global_variables_initializer())
    sess.run(received)
    found["sent"] = [float(one[0]) for one in sess.run(sent)]

if hasattr(tf, "estimator") and "estimator" in ASKED:

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        start = np.full([3, 1], 0.1 * (rank + 1), "float32")
        weight = tf.get_variable("weight", initializer=start, use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.matmul(features, weight) - labels))
        made = names["NPUDistributedOptimizer"](tf.train.GradientDescentOptimizer(0.1))
        op = made.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=op)

    def input_fn() -> Any:
        xs, ys = (np.stack(one) for one in zip(*data()))
        return tf.data.Dataset.from_tensor_slices((xs, ys))

    config = names["NPURunConfig"](model_dir=f"model_{rank}", iterations_per_loop=3)
    estimator = names["NPUEstimator"](model_fn, config=config)
    estimator.train(input_fn, steps=6)
    found["weights"]["estimator"] = estimator.get_variable_value("weight").ravel().tolist()

with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    json.dump(found, file)
