"""Ranks that train in all ways that people do; rank 0 says what becomes of the comparison.

Those whose names begin with ``wrong`` end with different models, or may do so. The arguments are
the name of a case, and how it runs: ``npu_bridge`` is with the vendor's API, ``alone`` without our
launcher, ``unheard`` below one that cannot be reached.
"""

import atexit
import contextlib
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf
from one_rank import RANK, SIZE, say

from ascend_session import AscendConfig, ascend_system, hccl, training
from ascend_session.rank_folder import CHANNEL, RANK_FOLDER
from tests.channels import Launcher

if "npu_bridge" in sys.argv:
    from vendor_training import ascend_system, hccl, training

FOLDER = os.environ[RANK_FOLDER]
DATA = np.random.RandomState(RANK).rand(64, 3).astype(np.float32)
STEPS = 4


def inputs():
    x = tf.placeholder(tf.float32, [None, 3])
    return x, tf.reduce_sum(x, axis=1, keepdims=True)


def batch(step=0):
    return DATA[8 * (step % 8) :][:8]


def layer(x, units, name, **settings):
    kernel = tf.get_variable(f"{name}/kernel", [int(x.shape[-1]), units], **settings)
    bias = tf.get_variable(f"{name}/bias", [units], initializer=tf.zeros_initializer(), **settings)
    return tf.matmul(x, kernel) + bias


def network(x, name="net"):
    return layer(tf.nn.relu(layer(x, 5, f"{name}/first")), 1, f"{name}/last")


def squares(difference):
    return tf.reduce_mean(tf.square(difference))


def distributed(rate=0.1, *manager):
    return training.DistributedOptimizer(tf.train.GradientDescentOptimizer(rate), *manager)


def train(session, x, *steps, count=STEPS):
    for step in range(count):
        for operation in steps:
            session.run(operation, {x: batch(step)})


def begin(session):
    session.run(tf.global_variables_initializer())
    session.run(tf.local_variables_initializer())


def begin_alike(session, broadcast):
    begin(session)
    session.run(broadcast)


def simple(optimizer=None, broadcasts=True, build=network):
    """A plain loop."""
    with ascend_system() as system:
        x, y = inputs()
        loss = squares(build(x) - y)
        step = (optimizer or distributed()).minimize(loss)
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin(session)
            if broadcasts:
                session.run(broadcast)
            train(session, x, step)


def right():
    simple()


def right_adam_with_hooks():
    with ascend_system() as system:
        x, y = inputs()
        loss = squares(network(x) - y)
        optimizer = training.DistributedOptimizer(tf.train.AdamOptimizer(0.01))
        step = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        with tf.train.MonitoredTrainingSession(
            system.target,
            config=system.session_config(),
            hooks=[training.BroadcastGlobalVariablesHook(0)],
        ) as session:
            train(session, x, step)


def right_shuffled_data():
    """Each rank reads data of its own in an order of its own, until they end."""
    with ascend_system() as system:
        data = tf.data.Dataset.from_tensor_slices(DATA).shuffle(64, seed=RANK).batch(8)
        x = tf.data.make_one_shot_iterator(data).get_next()
        step = distributed().minimize(squares(network(x) - tf.reduce_sum(x, 1, keepdims=True)))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    session.run(step)


def right_exit_in_block():
    exit_in_block(broadcasts=True)


def wrong_exit_in_block():
    exit_in_block(broadcasts=False)


def exit_in_block(broadcasts):
    """The program exits with 0 where its session is open."""
    with ascend_system() as system:
        x, y = inputs()
        step = distributed().minimize(squares(network(x) - y))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin(session)
            if broadcasts:
                session.run(broadcast)
            train(session, x, step)
            sys.exit(0)


def right_data_end_the_block():
    data_end_the_block(broadcasts=True)


def wrong_data_end_the_block():
    data_end_the_block(broadcasts=False)


def data_end_the_block(broadcasts):
    """The end of the data is caught outside of the session's block."""
    with ascend_system() as system:
        data = tf.data.Dataset.from_tensor_slices(DATA).batch(8)
        x = tf.data.make_one_shot_iterator(data).get_next()
        step = distributed().minimize(squares(network(x) - tf.reduce_sum(x, 1, keepdims=True)))
        broadcast = training.broadcast_global_variables(0)
        with contextlib.suppress(tf.errors.OutOfRangeError), system.session() as session:
            begin(session)
            if broadcasts:
                session.run(broadcast)
            while True:
                session.run(step)


def right_other_types():
    """Variables of all types that can be trained; each rank's are off by about their rounding."""
    off_by({"bfloat16": 1e-2, "float16": 2e-3, "float64": 1e-10, "complex64": 1e-6})


def wrong_bfloat16():
    off_by({"bfloat16": 0.5})


def wrong_complex64():
    off_by({"complex64": 1e-2})


def off_by(differences):
    """Average gradients in float32; rank 1's variables are larger by these relative differences."""
    with ascend_system() as system:
        steps, numbers = [], np.linspace(1.0, 2.0, 1000)
        for dtype, difference in differences.items():
            values = numbers * (1 + RANK * difference) * (1j if dtype == "complex64" else 1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of older NumPy
                begun = tf.cast(tf.constant(values), dtype)
            variable = tf.get_variable(f"as_{dtype}", initializer=begun)
            [mean] = training.distributed_gradients([tf.fill([1000], RANK * 1e-4)])
            steps.append(tf.assign_sub(variable, tf.cast(mean, dtype)))
        with system.session() as session:
            begin(session)
            for _ in range(STEPS):
                session.run(steps)


def right_references():
    tf.disable_resource_variables()
    simple()


def right_frozen():
    """The first layer is neither trained nor equal."""
    with ascend_system() as system:
        x, y = inputs()
        frozen = layer(x, 4, "frozen", trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        step = distributed().minimize(squares(layer(frozen, 1, "last") - y))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            train(session, x, step)


def right_batch_statistics():
    """Each rank has moving averages of its own data, by TensorFlow's own layer."""
    with ascend_system() as system:
        x, y = inputs()
        gamma = tf.get_variable("gamma", [3], initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [3], initializer=tf.zeros_initializer())
        average = tf.get_variable("moving_mean", [3], trainable=False)
        mean, variance = tf.nn.moments(x, [0])
        update = tf.assign_sub(average, 0.1 * (average - mean))
        normal = tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
        with tf.control_dependencies([update]):
            step = distributed().minimize(squares(network(normal) - y))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            train(session, x, step)


def right_loss_scale(first=2.0**32):
    """The first steps overflow on all ranks."""
    manager = training.ExponentialUpdateLossScaleManager(first, 2, 1, 2.0, 0.5)
    simple(distributed(0.1, manager))


def right_adam_with_loss_scale():
    manager = training.ExponentialUpdateLossScaleManager(2.0**8, 2)
    simple(training.DistributedOptimizer(tf.train.AdamOptimizer(0.01), manager))


def right_accumulated():
    """Gradients of two batches are averaged at once."""
    with ascend_system() as system:
        x, y = inputs()
        loss = squares(network(x) - y)
        variables = tf.trainable_variables()
        local = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in variables]
        gradients = tf.gradients(loss, variables)
        add = tf.group(*(tf.assign_add(a, g) for a, g in zip(local, gradients)))
        means = training.distributed_gradients([each / 2.0 for each in local])
        apply = tf.train.GradientDescentOptimizer(0.1).apply_gradients(zip(means, variables))
        with tf.control_dependencies([apply]):
            clear = tf.group(*(tf.assign(each, tf.zeros_like(each)) for each in local))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            train(session, x, add, add, clear)


def embedding(optimizer):
    with ascend_system() as system:
        rows = tf.placeholder(tf.int32, [4])
        table = tf.get_variable("table", [10, 3])
        step = optimizer.minimize(squares(tf.nn.embedding_lookup(table, rows) - 1.0))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            for number in range(STEPS):
                session.run(step, {rows: np.arange(4) * (RANK + 1) % 10 + number % 2})


def right_embedding():
    embedding(distributed())


def right_embedding_with_adam():
    embedding(training.DistributedOptimizer(tf.train.AdamOptimizer(0.1)))


def adversaries(of_discriminator, of_generator, is_local=False):
    """A generator and a discriminator, each with an optimizer."""
    with ascend_system() as system:
        x, _ = inputs()
        places = {"collections": [tf.GraphKeys.LOCAL_VARIABLES]} if is_local else {}
        fake = layer(tf.random_normal([8, 2]), 3, "generator")
        with tf.variable_scope("discriminator") as scope:
            real = layer(x, 1, "d", **places)
            scope.reuse_variables()
            judged = layer(fake, 1, "d", **places)
        every = [*tf.global_variables(), *tf.local_variables()]
        own = {
            name: [each for each in every if f"{name}/" in each.name]
            for name in ("generator", "discriminator")
        }
        steps = [
            of_discriminator.minimize(
                squares(real - 1.0) + squares(judged), var_list=own["discriminator"]
            ),
            of_generator.minimize(squares(judged - 1.0), var_list=own["generator"]),
        ]
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            train(session, x, *steps)


def right_two_optimizers():
    adversaries(distributed(0.01), distributed(0.02))


def right_local_discriminator():
    adversaries(tf.train.GradientDescentOptimizer(0.01), distributed(0.02), is_local=True)


def right_graphs_that_share_names():
    """A discriminator is trained by all ranks in one graph, and by each alone in the next."""
    with ascend_system() as system:
        for averages in (True, False):
            with tf.Graph().as_default():
                x, y = inputs()
                places = {} if averages else {"collections": [tf.GraphKeys.LOCAL_VARIABLES]}
                judged = layer(x, 1, "discriminator", **places)
                own = [*tf.global_variables(), *tf.local_variables()]
                plain = tf.train.GradientDescentOptimizer(0.1)
                judge = (distributed() if averages else plain).minimize(
                    squares(judged - y), None, own
                )
                step = distributed().minimize(
                    squares(network(x) - y), None, tf.trainable_variables("net")
                )
                broadcast = training.broadcast_global_variables(0)
                with system.session() as session:
                    begin_alike(session, broadcast)
                    train(session, x, judge, step)


def right_graphs_side_by_side():
    """Two graphs with the same names are trained in turns; each rank closes them as it likes."""
    with ascend_system() as system:
        models = []
        for rate in (0.1, 0.2):
            with tf.Graph().as_default():
                x, y = inputs()
                step = distributed(rate).minimize(squares(network(x) - y))
                broadcast = training.broadcast_global_variables(0)
                session = tf.Session(system.target, config=system.session_config())
                begin_alike(session, broadcast)
                models.append((session, x, step))
        for _ in range(2):
            for model in models:
                train(*model)
        for session, *_ in models[:: 1 - 2 * (RANK % 2)]:
            session.close()


def wrong_one_of_two_optimizers():
    adversaries(tf.train.GradientDescentOptimizer(0.01), distributed(0.02))


def right_groups():
    """Two tables, each on two ranks, which average its gradients; all average the last layer."""
    with ascend_system() as system:
        first = RANK - RANK % 2
        hccl.create_group(f"pair_{first}", 2, [first, first + 1])
        rows = tf.placeholder(tf.int32, [8])
        x, y = inputs()
        table = tf.get_variable(
            "table",
            [10, 3],
            initializer=tf.random_uniform_initializer(seed=first),
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )
        values = tf.identity(table)
        loss = squares(network(x + tf.gather(values, rows)) - y)
        last = [each for each in tf.trainable_variables() if each is not table]
        means = training.distributed_gradients(tf.gradients(loss, last))
        of_table = tf.convert_to_tensor(tf.gradients(loss, [values])[0])
        of_table = hccl.allreduce(of_table, "sum", group=f"pair_{first}") / 2.0
        means, _ = tf.clip_by_global_norm(means, 5.0)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        step = optimizer.apply_gradients([*zip(means, last), (of_table, table)])
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            for number in range(STEPS):
                session.run(step, {x: batch(number), rows: np.arange(8)})


def right_model_parallel():
    """Each rank has a table of its own; the norm for clipping is that of all."""
    with ascend_system() as system:
        x, y = inputs()
        own = layer(x, 1, "own", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        variables = tf.local_variables()
        gradients = tf.gradients(squares(own - y), variables)
        norm = tf.sqrt(hccl.allreduce(tf.square(tf.global_norm(gradients)), "sum"))
        clipped = [each * tf.minimum(1.0, 1.0 / norm) for each in gradients]
        step = tf.train.GradientDescentOptimizer(0.1).apply_gradients(zip(clipped, variables))
        with system.session() as session:
            begin(session)
            train(session, x, step)


def right_learner_and_actors():
    """Rank 0 trains and sends its variables; the others only compute."""
    with ascend_system() as system:
        x, y = inputs()
        values = network(x)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(squares(values - y))
        send = training.broadcast_global_variables(0)
        with system.session() as session:
            begin(session)
            for number in range(STEPS):
                session.run(send)
                session.run(step if RANK == 0 else values, {x: batch(number)})


def right_evaluated_by_rank_0():
    """Rank 0 evaluates in between, and then in a session of its own."""
    with ascend_system() as system:
        x, y = inputs()
        loss = squares(network(x) - y)
        step = distributed().minimize(loss)
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            for _ in range(2):
                train(session, x, step)
                if RANK == 0:
                    session.run(loss, {x: batch()})
        if RANK == 0:
            with system.session() as session:
                begin(session)
                session.run(loss, {x: batch()})


def right_ema_swaps_on_rank_0():
    swap_averages(ranks=[0])


def right_ema_swaps():
    swap_averages(ranks=range(SIZE))


def swap_averages(ranks):
    """These ranks evaluate with the averages of the variables in their place, at last to stay."""
    with ascend_system() as system:
        x, y = inputs()
        loss = squares(network(x) - y)
        variables = tf.trainable_variables()
        step = distributed().minimize(loss)
        averages = tf.train.ExponentialMovingAverage(0.5)
        with tf.control_dependencies([step]):
            step = averages.apply(variables)
        kept = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in variables]
        keep = tf.group(*(tf.assign(k, v) for k, v in zip(kept, variables)))
        swap = tf.group(*(tf.assign(v, averages.average(v)) for v in variables))
        swap_back = tf.group(*(tf.assign(v, k) for k, v in zip(kept, variables)))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            for after in ([swap_back], []):
                train(session, x, step)
                if RANK in ranks:
                    for operation in (keep, swap, *after):
                        session.run(operation)
                    session.run(loss, {x: batch()})


def right_restored():
    """Rank 0 restores a checkpoint."""
    with ascend_system() as system:
        x, y = inputs()
        step = distributed().minimize(squares(network(x) - y))
        saver, path = tf.train.Saver(sharded=False), os.path.join(FOLDER, "model")
        broadcast = training.broadcast_global_variables(0)
        for is_second in (False, True):
            with system.session() as session:
                begin(session)
                if RANK == 0 and is_second:
                    saver.restore(session, path)
                session.run(broadcast)
                train(session, x, step)
                if RANK == 0:
                    saver.save(session, path)


def wrong_restored():
    """As above, and nothing is broadcast after the second beginning."""
    with ascend_system() as system:
        x, y = inputs()
        step = distributed().minimize(squares(network(x) - y))
        saver, path = tf.train.Saver(sharded=False), os.path.join(FOLDER, "model")
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            train(session, x, step)
            saver.save(session, path)
        with system.session() as session:
            begin(session)
            if RANK == 0:
                saver.restore(session, path)
            train(session, x, step)


def right_by_hand():
    averaged_by_hand(adam_by_hand)


def wrong_by_hand():
    averaged_by_hand(adam_by_hand, broadcasts=False)


def right_python_optimizer():
    averaged_by_hand(descend_in_python)


def wrong_python_optimizer():
    averaged_by_hand(descend_in_python, broadcasts=False)


def averaged_by_hand(build_step, broadcasts=True):
    with ascend_system() as system:
        x, y = inputs()
        step = build_step(squares(network(x) - y), tf.trainable_variables())
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin(session)
            if broadcasts:
                session.run(broadcast)
            train(session, x, step)


def adam_by_hand(loss, variables):
    optimizer = tf.train.AdamOptimizer(0.01)
    pairs = optimizer.compute_gradients(loss, variables)
    return optimizer.apply_gradients([(mean_of_ranks(each), variable) for each, variable in pairs])


def descend_in_python(loss, variables):
    """Assign the variables, as an optimizer does that is written in Python."""
    means = training.distributed_gradients(tf.gradients(loss, variables))
    means, _ = tf.clip_by_global_norm(means, 1.0)
    return tf.group(*(tf.assign(v, v - 0.1 * m) for v, m in zip(variables, means)))


def mean_of_ranks(tensor):
    return hccl.allreduce(tensor, "sum") / SIZE


def right_mean_of_models():
    """Each rank trains alone; now and then they average their variables, but not at the end."""
    mix_models(lambda v: tf.assign(v, mean_of_ranks(v + 0.0)), count=2)


def right_mean_of_models_at_last():
    """As above, from the same beginning and to the same end."""
    mix_models(lambda v: tf.assign(v, mean_of_ranks(v + 0.0)), broadcasts=True)


def right_elastic_averaging():
    """Each rank trains alone; now and then they move towards the mean of their variables."""
    mix_models(lambda v: tf.assign_sub(v, 0.5 * (v - mean_of_ranks(v + 0.0))), True, count=2)


def right_elastic_averaging_in_each_step():
    """As above, right after each update, and by assignment."""

    def move(v):
        value = v.read_value() * 1.0
        return tf.assign(v, value - 0.5 * (value - mean_of_ranks(value)))

    mix_models(move, True, count=2, in_each_step=True)


def mix_models(move, broadcasts=False, count=1, in_each_step=False):
    with ascend_system() as system:
        x, y = inputs()
        step = tf.train.GradientDescentOptimizer(0.1).minimize(squares(network(x) - y))
        with tf.control_dependencies([step] if in_each_step else []):
            mix = tf.group(*(move(variable) for variable in tf.trainable_variables()))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin(session)
            if broadcasts:
                session.run(broadcast)
            for _ in range(count):
                train(session, x, step)
                session.run(mix, {x: batch()})
            if count > 1:
                train(session, x, step)


def right_closed_by_a_handler():
    """Variables are overwritten in between; rank 1 closes its session while it handles an error."""
    with ascend_system() as system:
        x, y = inputs()
        step = distributed().minimize(squares(network(x) - y))
        variables = tf.trainable_variables()
        halve = [tf.assign(v, tf.fill(v.shape, 0.5)) for v in variables]
        broadcast = training.broadcast_global_variables(0)
        session = tf.Session(system.target, config=system.session_config())
        begin_alike(session, broadcast)
        train(session, x, step)
        session.run(halve)
        train(session, x, step)
        try:
            raise KeyError("expected")
        except KeyError:
            if RANK == 1:
                session.close()
        session.close()


def right_inference():
    with ascend_system() as system:
        x, _ = inputs()
        values = network(x)
        with system.session() as session:
            begin(session)
            train(session, x, values)


def right_nothing():
    with ascend_system():
        pass


def right_after_nan():
    """All ranks' variables become NaN."""
    simple(distributed(float("nan")))


def right_loop():
    """Several steps in a run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the stub's loop is on the host
        opening = ascend_system(AscendConfig(iterations_per_loop=3))
    with opening as system:
        total = tf.get_variable("total", [2])
        step = distributed().minimize(tf.reduce_sum(total) * (RANK + 1.0))
        broadcast = training.broadcast_global_variables(0)
        with system.session() as session:
            begin_alike(session, broadcast)
            session.run(training.iterations_per_loop(session, step, 3))


def right_keras():
    keras(broadcasts=True)


def wrong_keras():
    keras(broadcasts=False)


def keras(broadcasts):
    warnings.filterwarnings("ignore", "`Model.state_updates`")  # TensorFlow warns of itself
    with ascend_system() as system:
        tf.keras.backend.set_session(tf.Session(config=system.session_config()))
        optimizers = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
        model.compile(training.DistributedOptimizer(optimizers.SGD(0.1)), "mse")
        model.predict(DATA[:8])
        if broadcasts:
            session = tf.keras.backend.get_session()
            session.run(training.broadcast_global_variables(0))
        model.fit(DATA[:8], DATA[:8].sum(1), epochs=1, verbose=0)


def wrong():
    simple(broadcasts=False)


def wrong_loss_scale():
    manager = training.ExponentialUpdateLossScaleManager(2.0**8, 2)
    simple(distributed(0.1, manager), broadcasts=False)


def wrong_left_open():
    """Nothing is closed, neither session nor system."""
    system = ascend_system().open()
    x, y = inputs()
    step = distributed().minimize(squares(network(x) - y))
    session = tf.Session(config=system.session_config())
    begin(session)
    train(session, x, step)
    globals().update(session=session)


def wrong_plain_optimizer():
    simple(tf.train.GradientDescentOptimizer(0.1))


def checked(broadcasts, optimizer=None):
    """A hook compares after the first step and then every third."""
    with ascend_system() as system:
        x, y = inputs()
        step = tf.train.get_or_create_global_step()
        hooks = [training.CheckRanksHook(every=3)]
        train_op = (optimizer or distributed()).minimize(squares(network(x) - y), step)
        spoil = tf.assign(tf.trainable_variables()[0], tf.fill([3, 5], RANK * 1.0))
        if broadcasts:
            hooks.append(training.BroadcastGlobalVariablesHook(0))
        with tf.train.MonitoredTrainingSession(config=system.session_config(), hooks=hooks) as sess:
            for number in range(8):
                sess.run(train_op, {x: batch(number)})
                if RANK == 0:  # runs in which no step is made
                    sess.run(y, {x: batch(number)})
                if number == 3 and "spoiled" in sys.argv:
                    sess.run(spoil)
                say(int(sess.run(step)))


def right_checked():
    checked(broadcasts=True)


def right_checked_shapes():
    """The hook, with a variable whose shape TensorFlow does not know, and one of float64."""
    with ascend_system() as system:
        x, _ = inputs()
        free = tf.get_variable(
            "free", initializer=tf.placeholder_with_default([1.0], None), validate_shape=False
        )
        exact = tf.get_variable("exact", initializer=tf.constant([RANK * 1e-9 + 1], tf.float64))
        product = tf.reduce_sum(x) * tf.reduce_sum(free) * tf.cast(tf.reduce_sum(exact), tf.float32)
        [mean, other] = training.distributed_gradients(
            [tf.reshape(each, [1]) for each in (product, product)]
        )
        step = tf.group(
            tf.assign(free, free - mean, validate_shape=False),
            tf.assign_sub(exact, tf.cast(other, tf.float64) * 1e-6),
            tf.assign_add(tf.train.get_or_create_global_step(), 1),
        )
        with tf.train.MonitoredTrainingSession(
            system.target,
            config=system.session_config(),
            hooks=[training.CheckRanksHook(every=1)],
        ) as session:
            train(session, x, step)


def wrong_checked():
    checked(broadcasts=False)


def failing():
    """Each rank's program fails after the training, and catches the exception."""
    try:
        with ascend_system() as system:
            x, y = inputs()
            step = distributed().minimize(squares(network(x) - y))
            with system.session() as session:
                begin(session)
                train(session, x, step)
                raise ValueError("interrupted")
    except ValueError:
        pass


def say_outcome():
    found = [message for kind, message in LAUNCHER.messages() if kind == "models"]
    names = ("is_one_model", "error", "notes")
    say({name: found[-1][name] for name in names} if found else None)


os.makedirs(FOLDER, exist_ok=True)
if "alone" in sys.argv:  # without our launcher
    del os.environ[RANK_FOLDER]
elif "unheard" in sys.argv:  # below one that cannot be reached
    os.environ[CHANNEL] = "nobody-listens-here"
elif RANK == 0:
    LAUNCHER = Launcher(Path(FOLDER))
    os.environ.update(LAUNCHER.environ)
    atexit.register(say_outcome)  # the last handler, after those of the systems
globals()[sys.argv[1]]()
