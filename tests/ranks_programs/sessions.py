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

    with ascend_system(), tf.Session() as sess:
        begin = [tf.constant(0), tf.constant(0.0)]
        _, found = tf.while_loop(lambda number, _: number < 5, body, begin, parallel_iterations=10)
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


def group_made_again():
    """The same graph, and a group of the same name with another rank in it."""
    with ascend_system(), tf.Session() as sess:
        summed = None
        for members in ([0, 1], [0, 1, 2], [0, 1]):
            if RANK not in members:
                continue
            hccl.create_group("g", len(members), members)
            if summed is None:
                summed = hccl.allreduce(tf.constant(RANK + 1.0), "sum", group="g")
            for _ in range(2):
                say(float(sess.run(summed)))
            hccl.destroy_group("g")


def graph_of_some():
    """Only two ranks build a graph of their own before the one of all."""
    with ascend_system():
        if RANK < 2:
            hccl.create_group("two", 2, [0, 1])
            with tf.Graph().as_default(), tf.Session() as sess:
                say(float(sess.run(hccl.allreduce(tf.constant(RANK + 1.0), "sum", group="two"))))
        with tf.Graph().as_default(), tf.Session() as sess:
            say(float(sess.run(total(RANK + 1.0))))


def reduced_to_one():
    with ascend_system(), tf.Session() as sess:
        values = tf.constant([float("inf"), float("nan"), RANK - 9.0])
        say(str(sess.run(hccl.reduce(values, "max", 1)).tolist()))


def after_an_error():
    """What is being handled around a block has nothing to do with its end."""
    try:
        raise ValueError("batch too large")
    except ValueError:
        with ascend_system(), tf.Session() as sess:
            say(float(sess.run(total(RANK + 1.0))))
            if RANK:
                hccl.create_group("others", 2, [1, 2])
                of_two = hccl.allreduce(tf.constant(RANK + 0.0), "sum", group="others")
                for _ in range(20):
                    found = sess.run(of_two)
                say(float(found))


def after_a_cancelled_run():
    """Rank 0 enters a collective and does not wait for it; its next run is the second one."""
    with ascend_system(), tf.Session() as sess:
        number = tf.placeholder(tf.float32, [])
        summed, ready = total(number), total(0.0)
        if RANK == 0:
            operators = tf.get_default_graph().get_operations()
            enter = next(operator for operator in operators if operator.type == "PyFunc")
            sess.run(enter, {number: 1.0})
            sess.run(ready)
        else:
            sess.run(ready)
            say(float(sess.run(summed, {number: 100.0})))
        say(float(sess.run(summed, {number: 10.0})))


def in_a_function():
    """As TensorFlow 1 writes functions; what they use of the graph is made outside of them."""
    from tensorflow.python.framework import function

    @function.Defun(tf.float32)
    def summed(value):
        return total(value)

    with ascend_system(), tf.Session() as sess:
        say(float(sess.run(summed(tf.constant(RANK + 1.0)))))


def passed_in_a_loop():
    """Rank 0 sends what rank 1 receives, in iterations that do not wait for each other."""

    def body(number, result):
        if RANK == 0:
            with tf.control_dependencies([hccl.send(tf.cast(number, tf.float32), 5, 1)]):
                return number + 1, result + 1
        return number + 1, result * 10 + hccl.receive(tf.TensorShape([]), tf.float32, 5, 0)

    with ascend_system(), tf.Session() as sess:
        if RANK < 2:
            begin = [tf.constant(0), tf.constant(0.0)]
            _, found = tf.while_loop(
                lambda number, _: number < 4, body, begin, parallel_iterations=10
            )
            say(float(sess.run(found)))


def by_many():
    with ascend_system(), tf.Session() as sess:
        say(sess.run(hccl.allgather(tf.constant([RANK]), SIZE)).tolist())


globals()[sys.argv[1]]()
