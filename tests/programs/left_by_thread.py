"""The main thread opens the system, another one shuts it down; then a signal arrives."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_system
from tests.signals import signal_this_thread

with ThreadPoolExecutor(1) as pool:
    with ascend_system() as system:
        session = system.session(graph=tf.Graph())
        pool.submit(session.__enter__).result()
    pool.submit(session.__exit__, None, None, None).result()
say(f"open {system.is_open}")

# What is opened next gets the number of a descriptor that was closed, if there is one.
reader, writer = os.pipe()
os.set_blocking(reader, False)
os.set_blocking(writer, False)
signal.signal(signal.SIGUSR1, lambda number, frame: None)
signal_this_thread(signal.SIGUSR1)
try:
    say(f"a stranger's pipe got {os.read(reader, 1)!r}")
except BlockingIOError:
    say("a stranger's pipe got nothing")
say("ready")
try:
    signal.pause()
finally:
    say("outer finally")
