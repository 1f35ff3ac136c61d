"""Ranks that do not agree on what they add."""

import os

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system, hccl

tf.disable_eager_execution()
total = hccl.allreduce(tf.constant([1.0] * (2 + int(os.environ["RANK_ID"]))), "sum")
with ascend_system() as system, system.session() as session:
    try:
        session.run(total)
    except tf.errors.OpError as error:
        print(type(error).__name__, error.message.partition("CollectiveError: ")[2].partition("\n")[0])
