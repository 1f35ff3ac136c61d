"""Enters the blocks and never leaves them; ends as the command line says."""

import sys

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_system
from ascend_session.backends.stub import StubBackend

if sys.argv[1] == "and fail to shut down":
    StubBackend.system_ops = lambda stub: (tf.no_op(), tf.Assert(False, ["the device is on fire"]))
system = ascend_system().__enter__()
sess = system.session().__enter__()
system.session().__enter__()  # which has to be closed first
say(str(sess.run(tf.constant(7))))
if sys.argv[1] == "by an error":
    raise ZeroDivisionError
while sys.argv[1] == "by a signal":
    sess.run(tf.constant(7))
