"""Opens a session of its own on the npu backend; the first argument is the environment, as JSON."""

import json
import os
import sys
import threading
from typing import Any

os.environ.update(json.loads(sys.argv[1]))
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)

from common import blocking_op, say, say_ready, tf  # noqa: E402  (the environment comes first)

from ascend_session import ascend_system  # noqa: E402

product = tf.matmul(tf.constant([[2.0]]), tf.constant([[3.0]]))


def left_open(system: Any) -> Any:
    session = tf.Session(system.target, config=system.session_config())
    say(str(session.run(product)[0][0]))
    return session


def monitored(system: Any, make_operation: Any = blocking_op) -> None:
    operation = make_operation()
    try:
        with tf.train.MonitoredTrainingSession(
            system.target, config=system.session_config()
        ) as session:
            session.run(product)
            session.run(operation)
    finally:
        say("finally")


def hanging(system: Any) -> None:
    monitored(system, lambda: tf.py_func(lambda: say_ready() or threading.Event().wait(60), [], []))


with ascend_system(backend="npu") as system:
    opened = globals()[sys.argv[2]](system)
say("closed")
