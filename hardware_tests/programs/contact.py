"""One step of the first contact, on one rank: initialise, compute, reduce, shut down.

Arguments: the step, and a folder in which each rank leaves a file with what it did, a line each.
"""

import json
import os
import sys
import time
from typing import Any, Dict

step, folder = sys.argv[1:]
rank = os.environ["LOCAL_RANK"]
began = time.time()


def note(**fact: Any) -> None:
    """Write what is done now, or how it ended; it is in the file whatever comes next."""
    with open(os.path.join(folder, f"rank_{rank}.jsonl"), "a") as file:
        file.write(json.dumps({"after_s": time.time() - began, **fact}) + "\n")


note(begins="importing TensorFlow")

import common  # noqa: E402, F401  (graph mode)
import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

from ascend_session import ascend_system, hccl  # noqa: E402
from hardware_tests.graphs import list_offloaded, product  # noqa: E402


def compute(system: Any) -> None:
    """Compute a product on the device, and check that it was, and is right."""
    with tf.Graph().as_default():
        fetch, feed, expected = product(tf)
        with system.session() as sess:
            if not list_offloaded(tf, sess, fetch, feed):
                sys.exit("The graph stayed on the CPU: no operator was given to the device.")
            if not (sess.run(fetch, feed) == expected).all():
                sys.exit("The device computed another product of matrices than the CPU.")


def reduce_once(system: Any) -> None:
    """Add up one tensor of each rank."""
    with tf.Graph().as_default():
        own = np.arange(4, dtype=np.float32) + system.rank
        fed = tf.placeholder(tf.float32, own.shape)
        total = hccl.allreduce(fed, "sum")
        with system.session() as sess:
            result = sess.run(total, {fed: own})
    expected = sum(np.arange(4, dtype=np.float32) + one for one in range(system.size))
    if not (result == expected).all():
        sys.exit(f"The allreduce gave {result.tolist()}, not {np.asarray(expected).tolist()}.")


actions: Dict[str, Any] = {"graph": compute, "allreduce": reduce_once, "shutdown": compute}
note(begins="initialise")
with ascend_system(backend="npu") as system:
    # A device comes up with the first session, if not before.
    with system.session(tf.Graph()):
        pass
    if step in actions:
        note(begins=step if step != "shutdown" else "graph")
        actions[step](system)
    note(begins="shutdown")
note(begins="end")
if step == "shutdown" and [event.name for event in system.events][-1:] != ["shutdown"]:
    sys.exit(f"The last event is not the shutdown: {[event.name for event in system.events]}.")
