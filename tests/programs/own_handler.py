"""Installs a SIGTERM handler of its own inside the block, and stops when it is told to."""

import signal
import threading
from typing import Any

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_session

stop = threading.Event()


def handle(number: int, frame: Any) -> None:
    stop.set()


with ascend_session() as sess:
    signal.signal(signal.SIGTERM, handle)
    step = tf.constant(7)
    say("ready")
    while not stop.wait(0):
        sess.run(step)
    # The last epoch, longer than the product waits for a main thread to notice a signal.
    threading.Event().wait(1)
    say(f"finished {sess.run(step)}")
