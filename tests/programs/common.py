"""What the programs share: lines on stdout, and what the product did on stderr."""

import logging
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from ascend_session import ascend_session

tf.disable_eager_execution()
logging.basicConfig(format="%(levelname)s %(message)s")
logging.getLogger("ascend_session").setLevel(logging.DEBUG)


def say(line: str) -> None:
    """One line for the test that waits for it."""
    print(line, flush=True)


def say_ready() -> None:
    """Tells the test that its signal may come."""
    say("ready")


def blocking_op(begun: Callable[[], None] = say_ready) -> Any:
    """An operator whose run never ends; it calls ``begun`` from inside the run."""
    said = tf.py_func(lambda: begun() is None, [], tf.bool)
    with tf.control_dependencies([said]):
        return tf.FIFOQueue(1, tf.float32).dequeue()


def works() -> str:
    """Whether a session can be opened and run here."""
    with ascend_session(graph=tf.Graph()) as sess:
        return str(sess.run(tf.constant(7)))
