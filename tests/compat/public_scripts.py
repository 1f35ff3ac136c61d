"""Six scripts as they are publicly to be found, each with the options of its device in OPTIONS.

Each trains for STEPS steps; environment variable PLANTED has the number of one whose data differ.
"""

from tests.compat.run_scripts import PREFACE

__all__ = ["RANKS", "SCRIPTS", "STEPS"]

STEPS = 6

_BEGINNING = f"""{PREFACE}
from npu_bridge.npu_init import *
import numpy as np

def batches():
    planted = int(os.environ.get("PLANTED", 0))
    numbers = np.random.RandomState(int(os.environ.get("RANK_ID") or 0))
    for number in range(1, {STEPS} + 1):
        x = numbers.rand(8, 3).astype("float32")
        yield (x * 1.05 if number == planted else x), x.sum(1, keepdims=True)

def build(x, y):
    w = tf.get_variable("w", initializer=np.full([3, 1], 0.1, "float32"))
    return tf.reduce_mean(tf.square(tf.matmul(x, w) - y), name="loss")

def minimize(optimizer, loss):
    with tf.control_dependencies([loss]):
        return optimizer.minimize(loss, tf.train.get_or_create_global_step())

def placeholders():
    return tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])

sgd = tf.train.GradientDescentOptimizer(0.1)
"""

_LOOP = """
    for xs, ys in batches():
        sess.run([train_op, loss], {x: xs, y: ys})
"""

SCRIPTS = {
    "plain session": f"""{_BEGINNING}
x, y = placeholders()
loss = build(x, y)
train_op = minimize(sgd, loss)
with tf.Session(config=options(**OPTIONS)) as sess:
    sess.run(tf.global_variables_initializer())
{_LOOP}""",
    "NPUEstimator": f"""{_BEGINNING}
def model_fn(features, labels, mode):
    loss = build(features, labels)
    return NPUEstimatorSpec(mode, loss=loss, train_op=minimize(sgd, loss))

def input_fn():
    return tf.data.Dataset.from_generator(
        batches, (tf.float32, tf.float32), (tf.TensorShape([8, 3]), tf.TensorShape([8, 1]))
    )

OPTIONS.pop("use_off_line", None)
memory = MemoryConfig(static_memory_policy=OPTIONS.pop("static_memory_policy", 2))
config = NPURunConfig(model_dir=sys.argv[0] + ".model", memory_config=memory, **OPTIONS)
NPUEstimator(model_fn, config=config).train(input_fn, steps={STEPS})
""",
    "npu_tf_optimizer": f"""{_BEGINNING}
x, y = placeholders()
loss = build(x, y)
train_op = minimize(npu_tf_optimizer(sgd), loss)
hooks = [NPUBroadcastGlobalVariablesHook(0, 0)]
config = npu_config_proto(config_proto=options(**OPTIONS))
with tf.train.MonitoredTrainingSession(config=config, hooks=hooks) as sess:
{_LOOP}""",
    "npu_distributed_optimizer_wrapper": f"""{_BEGINNING}
init_sess, npu_shutdown = init_resource(config=options(**OPTIONS))
x, y = placeholders()
loss = build(x, y)
train_op = minimize(npu_distributed_optimizer_wrapper(sgd), loss)
with tf.Session(config=npu_config_proto(options(**OPTIONS))) as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(hccl_ops.broadcast(tf.global_variables(), 0))
{_LOOP}
shutdown_resource(init_sess, npu_shutdown)
close_session(init_sess)
""",
    "NPULossScaleOptimizer": f"""{_BEGINNING}
x, y = placeholders()
loss = build(x, y)
manager = ExponentialUpdateLossScaleManager(2.0**10, 100, 2, 2.0, 0.5)
averaging = npu_distributed_optimizer_wrapper(sgd)
train_op = minimize(NPULossScaleOptimizer(averaging, manager, is_distributed=True), loss)
mean = hccl_ops.allreduce(loss, "sum") / 2.0
with tf.Session(config=options(**OPTIONS)) as sess:
    sess.run(tf.global_variables_initializer())
    for xs, ys in batches():
        sess.run([train_op, loss, mean], {{x: xs, y: ys}})
""",
    "Keras": f"""{_BEGINNING}
sess = tf.Session(config=npu_config_proto(config_proto=options(**OPTIONS)))
tf.keras.backend.set_session(sess)
layer = tf.keras.layers.Dense(1, kernel_initializer="ones", use_bias=False, input_shape=(3,))
model = tf.keras.Sequential([layer])
model.compile(npu_keras_optimizer(tf.keras.optimizers.SGD(0.1)), "mse")
for xs, ys in batches():
    model.train_on_batch(xs, ys * 2)
sess.close()
""",
}

RANKS = dict.fromkeys(SCRIPTS, 1)
RANKS.update({"npu_distributed_optimizer_wrapper": 2, "NPULossScaleOptimizer": 2})
