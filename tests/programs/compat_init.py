"""Does what scripts do with the functions of npu_init; prints what it finds."""

import json
import os
from typing import Any

os.environ.pop("RANK_SIZE", None)

from ascend_session.compat.finder import install

install()

import tensorflow as tensorflow_of_the_script  # noqa: E402

tensorflow_of_the_script.compat.v1.disable_eager_execution()
from npu_bridge.npu_init import *  # noqa: E402, F403

import ascend_session.compat.npu_bridge.npu_init as mirrored  # noqa: E402

names: Any = dict(globals())
found: Any = {}
tf = names["tf"]
util, session, backend = names["util"], names["session"], names["backend"]

found["same module"] = util.__name__ == "ascend_session.compat.npu_bridge.estimator.npu.util"
found["tf"] = tf is tensorflow_of_the_script or hasattr(tf, "placeholder")


def entries(made: Any) -> Any:
    return [one.name for one in made._config.graph_options.rewrite_options.custom_optimizers]


with tf.Graph().as_default():
    try:
        names["get_npu_rank_id"]()
    except NameError as error:
        found["too early"] = str(error)
    sess, ending = names["init_resource"]()
    found["ranks"] = [
        names[f"get_npu_{name}"]()
        for name in ("rank_id", "local_rank_id", "rank_size", "local_rank_size")
    ]
    found["initialised"] = entries(sess)
    found["sum"] = int(sess.run(tf.constant(1) + 1))
    names["shutdown_resource"](sess, ending)
    try:
        sess.run(tf.constant(1) + 2)
    except Exception as error:
        found["after shutdown"] = type(error).__name__
    names["close_session"](sess)

with tf.Graph().as_default():
    with tf.Session() as plain:
        found["plain"] = entries(plain)
    mine = tf.ConfigProto()
    with tf.Session(config=mine) as plain:
        found["changed"] = len(mine.graph_options.rewrite_options.custom_optimizers)
    interactive = tf.InteractiveSession()
    found["interactive"] = entries(interactive)
    interactive.close()

proto = names["npu_config_proto"](tf.ConfigProto(log_device_placement=True))
found["proto"] = [
    len(proto.graph_options.rewrite_options.custom_optimizers),
    proto.log_device_placement,
    names["npu_config_proto"]("none").allow_soft_placement,
    names["npu_session_config_init"]().allow_soft_placement,
    names["npu_graph_options"]().optimizer_options.global_jit_level,
    names["npu_optimizer_options"](proto.graph_options.optimizer_options).global_jit_level,
]
hooks = names["npu_hooks_append"]()
found["hooks"] = [type(one).__name__ for one in hooks]
found["more hooks"] = names["npu_hooks_append"](hooks) is hooks and len(hooks)
found["callbacks"] = [type(one).__name__ for one in names["npu_callbacks_append"]()]
optimizer = names["npu_tf_optimizer"](tf.train.GradientDescentOptimizer(0.1))
found["optimizer"] = type(optimizer).__name__
found["options"] = names["experimental_options"]["layout_optimizer"]
if hasattr(tf, "estimator"):
    config = names["npu_run_config_init"]()
    found["run config"] = len(config.session_config.graph_options.rewrite_options.custom_optimizers)
of_keras = names["set_keras_session_npu_config"]()
found["keras"] = entries(of_keras)
found["is Keras's"] = backend.get_session() is of_keras
names["npu_clear_session"]()
found["another"] = backend.get_session() is not of_keras and entries(backend.get_session())
found["mirrored"] = mirrored.util is util
print(json.dumps(found), flush=True)
