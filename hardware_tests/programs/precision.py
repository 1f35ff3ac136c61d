"""Computes all cases in the precision mode of the command line, and writes the results to a file.

In a process of its own, for a precision mode stays in the process after its session has gone.
"""

import sys
from typing import Any

import common  # noqa: F401  (graph mode)
import numpy as np
import tensorflow.compat.v1 as tf

from ascend_session import AscendConfig, ascend_system
from hardware_tests.graphs import CASES, train

mode: Any
mode, path = sys.argv[1:]
training = mode != "force_fp16"  # which is for inference
# Before the adapter is loaded, and without its entry: on the CPU.
results = {"training on the CPU": train(tf, lambda graph: tf.Session(graph=graph))}


def computed(system: Any, name: str) -> Any:
    with tf.Graph().as_default():
        fetch, feed = CASES[name].in_graph(tf)
        with system.session() as sess:
            return sess.run(fetch, feed)


config = AscendConfig(precision_mode=mode, graph_run_mode=int(training))
with ascend_system(config, backend="npu") as system:
    results.update({name: computed(system, name) for name in CASES})
    if training:
        results["training"] = train(tf, system.session)
np.savez(path, **results)
