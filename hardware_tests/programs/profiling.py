"""Computes with profiling on; the data goes to the folder of the command line.

In a process of its own: profiling is on for a process, not for a session.
"""

import sys

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import AscendConfig, ProfilingConfig, ProfilingOptions, ascend_session
from hardware_tests.graphs import product

# guides/facts/option_files.md#profiling_options: task_trace asks for training_trace
options = ProfilingOptions(output=sys.argv[1], task_trace="on", training_trace="on")
profiling = ProfilingConfig(enable_profiling=True, profiling_options=options)
fetch, feed, expected = product(tf)
with ascend_session(AscendConfig(profiling_config=profiling), backend="npu") as sess:
    for _ in range(3):
        assert (sess.run(fetch, feed) == expected).all()
say("computed")
