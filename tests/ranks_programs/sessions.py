"""Collectives in sessions of all kinds: which one is the argument. Each says what it reckoned."""

import sys
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from one_rank import RANK, SIZE, say

from ascend_session import ascend_session, ascend_system, hccl


def total(value):
    """The sum over the ranks of a number, as an operator."""
    return hccl.allreduce(tf.convert_to_tensor(value, tf.float32), "sum")


def of_the_product():
    with ascend_session() as sess:
        say(float(sess.run(total(RANK + 1.0))))


def monitored():
    with ascend_system() as system:
        step = tf.train.get_or_create_global_step()
        summed = total(tf.cast(step, tf.float32) + 1)
        with tf.control_dependencies([summed]):
            train = tf.assign_add(step, 1)
        hooks = [tf.train.StopAtStepHook(3)]
        with tf.train.MonitoredTrainingSession(
            system.target, hooks=hooks, config=system.session_config()
        ) as sess:
            while not sess.should_stop():
                say(float(sess.run([summed, train])[0]))


def several_graphs():
    graphs = []
    for factor in (1.0, 10.0):
        with tf.Graph().as_default() as graph:
            graphs.append((graph, total(factor * (RANK + 1))))
    with ascend_system():
        sessions = [(tf.Session(graph=graph), summed) for graph, summed in graphs]
        for _ in range(2):
            for sess, summed in sessions:
                say(float(sess.run(summed)))
        with tf.Session(graph=graphs[0][0]) as again:
            say(float(again.run(graphs[0][1])))


def several_systems():
    summed = total(RANK + 1.0)
    for _ in range(3):
        with ascend_system(), tf.Session() as sess:
            say(float(sess.run(summed)))


def in_threads():
    """Each thread has a graph of its own."""
    with ascend_system():
        graphs = []
        for number in range(4):
            with tf.Graph().as_default() as graph:
                graphs.append((graph, total(float(number))))
        found = {}

        def run(number):
            graph, summed = graphs[number]
            with tf.Session(graph=graph) as sess:
                found[number] = [float(sess.run(summed)) for _ in range(5)]

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(sorted(found.items()))


def loop(new):
    (tf.enable_control_flow_v2 if new else tf.disable_control_flow_v2)()

    def body(number, result):
        # What is reduced does not depend on the iteration before.
        return number + 1, result * 10 + total(tf.cast(number, tf.float32))

    # TensorFlow 1.15 begins the iterations of new loops in any order, and only one at a time.
    together = 1 if new and tf.__version__.startswith("1.") else 10
    with ascend_system(), tf.Session() as sess:
        begin = [tf.constant(0), tf.constant(0.0)]
        _, found = tf.while_loop(
            lambda number, _: number < 5, body, begin, parallel_iterations=together
        )
        say([float(sess.run(found)) for _ in range(3)])


def old_loop():
    loop(False)


def new_loop():
    loop(True)


def own_variables():
    with ascend_system(), tf.Session() as sess:
        variable = tf.get_variable("v", initializer=float(RANK))
        summed = total(variable + 0)
        sess.run(tf.global_variables_initializer())
        sess.run(tf.assign_add(variable, summed * 10))
        say(float(sess.run(variable)))


def changing_shapes():
    given = tf.placeholder(tf.float32, [None, 2])
    summed = hccl.allreduce(given, "sum")
    gathered = hccl.allgather(given, SIZE)
    with ascend_system(), tf.Session() as sess:
        for rows in (1, 3, 0, 2, 3):
            feed = {given: np.array([[1.0, RANK]] * rows).reshape(rows, 2)}
            a, b = sess.run([summed, gathered], feed)
            say([a.tolist(), b.tolist()])


def keras():
    if not hasattr(tf.keras.backend, "set_session"):
        say(f"Keras {tf.keras.__version__.split('.')[0]}")
        return
    layers = tf.keras.layers
    tf.keras.backend.set_session(tf.Session())
    with ascend_system():
        model = tf.keras.Sequential(
            [layers.Dense(1, kernel_initializer="ones", use_bias=False, input_shape=(1,))]
        )
        summed = hccl.allreduce(model.output, "sum")
        sess = tf.keras.backend.get_session()
        sess.run(tf.global_variables_initializer())
        say(sess.run(summed, {model.input: [[RANK + 1.0]]}).tolist())


def gradients():
    with ascend_system(), tf.Session() as sess:
        weight = tf.get_variable("w", initializer=[1.0, 2.0])
        summed = hccl.allreduce(weight * (RANK + 1.0), "sum")
        slope = tf.gradients(summed, weight, grad_ys=tf.constant([1.0, RANK + 1.0]))[0]
        sess.run(tf.global_variables_initializer())
        say(sess.run(slope).tolist())
        try:
            tf.gradients(hccl.allgather(weight * 1.0, SIZE), weight)
        except LookupError as error:
            say(str(error)[:33])


globals()[sys.argv[1]]()
