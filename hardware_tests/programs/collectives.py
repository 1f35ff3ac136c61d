"""One rank of the contract of collectives: each answer and what NumPy makes of it, as JSON.

Arguments: the backend, and the sections to do or parts of them, as JSON. Each line begins with
``@``, for what the vendor's libraries print comes in between.
"""

import hashlib
import json
import logging
import sys
import warnings
from typing import Any, Callable

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)
logging.basicConfig(format="%(levelname)s %(message)s")

from collective_more import MORE  # noqa: E402
from collective_sections import Answer, Rank, of_type  # noqa: E402

from ascend_session import ascend_system, hccl  # noqa: E402


def say(check: str, **found: Any) -> None:
    """One line for the test."""
    print(f"\n@ {json.dumps({'check': check, 'rank': me.rank, **found})}", flush=True)


def say_answer(answer: Answer) -> None:
    """What the test has to know of an array: how far off it is, and what its bits are."""
    found, expected = np.asarray(answer.found), np.asarray(answer.expected)
    off = None
    if found.shape == expected.shape and answer.counts:
        whole = np.abs(expected.astype(np.float64))
        largest = float(whole.max()) if whole.size else 0.0
        apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        off = float(apart.max()) / (largest or 1.0) if apart.size else 0.0
        off = off if np.isfinite(off) else 1e300
    say(
        answer.check,
        dtype=answer.dtype,
        shape=list(found.shape),
        expected_shape=list(expected.shape),
        off=off,
        digest=hashlib.sha1(found.tobytes()).hexdigest() if answer.counts else None,
    )


def do(section: str, work: Callable[[Rank], Any]) -> None:
    """Does a section; if it fails, says so for all of it."""
    try:
        for one in work(me):
            say_answer(one) if isinstance(one, Answer) else say(
                one[0], found=one[1], expected=one[2]
            )
    except Exception as error:
        say(section, error=f"{type(error).__name__}: {error}")
        raise
    say(f"done {section}")


backend, sections = sys.argv[1], json.loads(sys.argv[2])
with ascend_system(backend=backend) as system:
    me = Rank(tf, np, hccl, system)
    # One session stays open and has computed: on a device the groups end with the last that has
    # (guides/facts/process.md#life-of-ge-in-a-process).
    with tf.Graph().as_default() as graph:
        number = tf.placeholder(tf.float32, [2, 2])
        square = tf.matmul(number, number)
        keeper: Any = system.session(graph)
    with keeper as sess:
        sess.run(square, {number: np.eye(2)})
        say("begun")
        for name in sections:
            do(name, MORE.get(name) or of_type(*name.split()[-1:], only=name))
        say("end", found="orderly", expected="orderly")
