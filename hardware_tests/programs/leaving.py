"""Computes on the device, and ends as the command line says; says last what the system did."""

import atexit
import sys
import threading
from typing import Any, List

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_system
from hardware_tests.graphs import product

systems: List[Any] = []
# Registered before everything else, so that it is called after everything else.
atexit.register(lambda: say([event.name for system in systems for event in system.events]))
fetch, feed, expected = product(tf)


def compute(system: Any, sess: Any) -> None:
    systems.append(system)
    say((sess.run(fetch, feed) == expected).all().item())


def by_the_end_of_the_block() -> None:
    with ascend_system(backend="npu") as system, system.session() as sess:
        compute(system, sess)


def without_leaving_the_block() -> None:
    system = ascend_system(backend="npu").__enter__()
    compute(system, system.session().__enter__())


def by_an_interrupt() -> None:
    try:
        with ascend_system(backend="npu") as system, system.session() as sess:
            compute(system, sess)
            say("computing")
            # Not in a loop of runs: an exception that a handler raises while TensorFlow 2 flattens
            # a feed ends the process in its C++ code, with a plain session, too.
            threading.Event().wait()
    except KeyboardInterrupt:
        say("interrupted")


globals()[sys.argv[1]]()
