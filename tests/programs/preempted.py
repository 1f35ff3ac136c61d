"""Trains until SIGTERM comes: ``preempted.py WHEN FOLDER``.

If WHEN is ``interrupted``, it is SIGINT that comes during a step. It says that it is ready, and
waits until somebody opens FOLDER/gate.
"""

import contextlib
import os
import sys
import threading

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_system, training

when, folder = sys.argv[1:]
is_during_a_step = when in ("during_a_step", "interrupted")


def wait() -> None:
    """Let the test send its signal, and go on when it opens the gate."""
    say("ready")
    with open(os.path.join(folder, "gate")):
        pass


class WaitAtTheEnd(tf.train.SessionRunHook):
    """A hook that takes its time after the last step."""

    def end(self, session: tf.Session) -> None:
        """Wait."""
        if when == "after_the_last_step":
            wait()


def begin_step(number: int) -> bool:
    """Wait in the third step."""
    if number == 2 and is_during_a_step:
        wait()
    return True


def train() -> None:
    """Three steps, and more if SIGTERM has to end them."""
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.py_func(begin_step, [step.read_value()], tf.bool)]):
        train_op = step.assign_add(1)
    hooks = [
        WaitAtTheEnd(),
        training.SaveOnPreemptionHook(folder, on_interrupt=when == "interrupted"),
        tf.train.StopAtStepHook(10 if is_during_a_step else 3),
    ]
    with ascend_system() as system, tf.train.MonitoredTrainingSession(
        master=system.target,
        config=system.session_config(),
        checkpoint_dir=folder,
        hooks=hooks,
        save_checkpoint_secs=None,
        save_checkpoint_steps=1000,
        save_summaries_steps=None,
    ) as sess:
        while not sess.should_stop():
            sess.run(train_op)
            if when == "after_an_error":
                raise ValueError
            say("trained")


if when == "in_another_thread":
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
else:
    with contextlib.suppress(ValueError):
        train()
    wait()
say("still there")
