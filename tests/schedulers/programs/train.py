"""A training of several ranks: writes who it is, sums a few times, or until something happens.

The first argument is the folder to write to, the second what to do: ``once``, ``fail`` (rank 5
ends with 3) or ``on`` (without end).
"""

import json
import os
import sys
from pathlib import Path

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system, hccl

tf.disable_eager_execution()
folder, what = Path(sys.argv[1]), sys.argv[2]
weights = tf.placeholder(tf.float32, [4])
total = hccl.allreduce(weights, "sum")
with ascend_system() as system, system.session() as session:
    value = session.run(total, {weights: [system.rank] * 4})
    said = {
        "rank": system.rank,
        "size": system.size,
        "local_rank": system.local_rank,
        "local_size": system.local_size,
        "device_id": int(system.device_id),
        "sum": float(value[0]),
        "node": os.environ.get("SLURMD_NODENAME"),
        "pid": os.getpid(),
    }
    whole = folder / f"rank_{system.rank}.json"
    whole.with_suffix(".part").write_text(json.dumps(said))
    whole.with_suffix(".part").rename(whole)
    if what == "fail" and system.rank == 5:
        sys.exit(3)
    while what != "once":
        session.run(total, {weights: [1] * 4})
