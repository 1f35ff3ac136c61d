"""Waits for a signal at the place that the command line names."""

import ctypes
import hashlib
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf
from common import blocking_op, say

from ascend_session import ascend_session, ascend_system, current_system
from ascend_session.backends.stub import StubBackend
from ascend_session.session import signals
from tests.signals import signal_this_thread


def in_tensorflow(sess: Any) -> None:
    sess.run(blocking_op())


in_tensorflow_with_a_broken_wakeup = in_tensorflow


def in_tensorflow_and_swallow(sess: Any) -> None:
    try:
        sess.run(blocking_op())
    except Exception as error:
        say(f"swallowed {type(error).__name__}")


def in_tensorflow_and_clean_up_long(sess: Any) -> None:
    try:
        sess.run(blocking_op())
    except KeyboardInterrupt:
        time.sleep(3)  # longer than a run that does not react is waited for
        say("cleaned up")


def in_a_session_of_others(sess: Any) -> None:
    blocked = blocking_op()
    with tf.Session(config=current_system().session_config()) as mine:
        mine.run(blocked)


def in_a_session_on_the_host(sess: Any) -> None:
    blocked = blocking_op()
    with tf.Session() as mine:
        mine.run(blocked)


def in_a_monitored_session(sess: Any) -> None:
    run_monitored(blocking_op())


def in_a_monitored_run_that_does_not_react(sess: Any) -> None:
    run_monitored(
        tf.py_func(lambda: say("ready") or threading.Event().wait(60) or 0.0, [], tf.double)
    )


def run_monitored(operation: Any) -> None:
    system = current_system()
    with tf.train.MonitoredTrainingSession(system.target, config=system.session_config()) as mine:
        mine.run(operation)


def in_a_run_that_does_not_react(sess: Any) -> None:
    # Nothing can end it, so it ends by itself.
    sess.run(tf.py_func(lambda: say("ready") or threading.Event().wait(60) or 0.0, [], tf.double))


class Sayer(logging.Handler):
    """Says that something was logged."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.levelname)


def in_a_run_that_does_not_react_and_say_so(sess: Any) -> None:
    logging.getLogger("ascend_session").addHandler(Sayer(logging.WARNING))
    in_a_run_that_does_not_react(sess)


def in_a_run_that_does_not_react_and_little_grace(sess: Any) -> None:
    os.environ["ASCEND_SESSION_GRACE"] = "3.6"
    in_a_run_that_does_not_react(sess)


def full_pipe() -> int:
    """The end for writing of a pipe that nobody reads."""
    _, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b" " * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return writer


def in_a_run_that_does_not_react_and_nobody_reads(sess: Any) -> None:
    os.dup2(full_pipe(), 2)
    in_a_run_that_does_not_react(sess)


def in_python_and_nobody_reads_the_log(sess: Any) -> None:
    os.dup2(full_pipe(), 2)
    in_python(sess)


def in_python_and_nobody_reads(sess: Any) -> None:
    os.environ["ASCEND_SESSION_GRACE"] = "4"
    read, full = os.dup(1), full_pipe()
    for fd in (1, 2):
        os.dup2(full, fd)
    os.write(read, b"ready\n")
    while True:
        sess.run(tf.no_op())


def in_python_and_nobody_reads_its_output(sess: Any) -> None:
    os.environ["ASCEND_SESSION_GRACE"] = "4"
    read = os.dup(1)
    os.dup2(full_pipe(), 1)
    os.write(read, b"ready\n")
    while True:
        sess.run(tf.no_op())


def in_the_lock_of_a_graph(sess: Any) -> None:
    def interrupt_release(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if (os.path.basename(code.co_filename), code.co_name) == ("lock_util.py", "release"):
            sys.settrace(None)
            signal_this_thread(signal.SIGINT)

    step = tf.constant(7)
    sys.settrace(interrupt_release)
    try:
        while True:
            sess.run(step)
    except KeyboardInterrupt:
        say(str(sess.run(tf.constant(8))))  # which changes the graph


def in_python(sess: Any) -> None:
    step = tf.constant(7)
    say("ready")
    while True:
        sess.run(step)


def in_c(sess: Any, word: str = "ready") -> None:
    begin = threading.Event()
    threading.Thread(target=lambda: begin.wait() and say(word), daemon=True).start()
    sys.setswitchinterval(1000)  # the other thread speaks when this one is in C, not before
    begin.set()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)


def in_c_until_the_shutdown_has_begun(sess: Any) -> None:
    """Wait in C for what the shutdown begins with; it ends after this thread goes on."""
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    shut_down = StubBackend.shutdown

    def go_on_and_shut_down(stub: StubBackend) -> None:
        say("shutting down")
        library.pthread_mutex_unlock(mutex)
        time.sleep(0.5)  # in which the other thread must not go on
        shut_down(stub)
        say("shut down")

    StubBackend.shutdown = go_on_and_shut_down
    library.pthread_mutex_lock(mutex)
    say("ready")
    library.pthread_mutex_lock(mutex)


def in_another_thread(sess: Any) -> None:
    graph = tf.Graph()

    def work() -> None:
        with current_system().session(graph=graph) as mine:
            mine.run(blocking_op())

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)


def nowhere(sess: Any) -> None:
    pass


def in_tensorflow_beside_another_thread(sess: Any) -> None:
    graph, blocked = tf.Graph(), threading.Event()

    def work() -> None:
        with current_system().session(graph=graph) as mine:
            mine.run(blocking_op(blocked.set))

    thread = threading.Thread(target=work)
    thread.start()
    blocked.wait()
    try:
        sess.run(blocking_op())
    finally:
        thread.join()


def while_unwinding(sess: Any) -> None:
    try:
        in_python(sess)
    finally:
        in_c(sess, "unwinding")


def after_another_signal(sess: Any) -> None:
    try:
        in_python(sess)
    except KeyboardInterrupt:
        sess.run(blocking_op(lambda: say("dealt with")))


def main(where: str) -> None:
    try:
        with ascend_system() as system, system.session() as sess:
            globals()[where](sess)
    finally:
        say("outer finally")


if sys.argv[1] == "in_tensorflow_with_a_broken_wakeup":
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    os.close(reader)
if sys.argv[1] == "while_shutting_down":
    StubBackend.system_ops = lambda stub: (tf.no_op(), blocking_op())
    signals._SHUTDOWN_S = 1.0
    main("nowhere")
elif sys.argv[1] == "while_initialising":
    StubBackend.system_ops = lambda stub: (blocking_op(), tf.no_op())
    main("while_initialising")
elif sys.argv[1] == "while_initialising_and_go_on":
    StubBackend.system_ops = lambda stub: (blocking_op(), tf.no_op())
    try:
        ascend_system().__enter__()
    except BaseException as error:
        say(type(error).__name__)
    threading.Event().wait(3)
    say("still there")
elif sys.argv[1] == "in_c_until_the_shutdown_has_begun":
    try:
        with ascend_session() as session:
            in_c_until_the_shutdown_has_begun(session)
    finally:
        say("outer finally")
else:
    main(sys.argv[1])
