"""Computes on the device and holds it until its input ends."""

import sys

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_system
from hardware_tests.graphs import product

fetch, feed, expected = product(tf)
with ascend_system(backend="npu") as system, system.session() as sess:
    assert (sess.run(fetch, feed) == expected).all()
    say("holding")
    sys.stdin.read()
