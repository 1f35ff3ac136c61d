"""Saves a checkpoint when Ctrl-C is pressed, as training scripts do.

A step computes for some milliseconds, as training does: TensorFlow 1.15 takes a lock in Python
before each run, and a KeyboardInterrupt that is raised inside of that keeps it for ever, with this
package or without it (2 of 90 runs of steps that compute nothing).
"""

import sys

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_system

path = sys.argv[1]
step = tf.get_variable("step", initializer=0)
with tf.control_dependencies([tf.matmul(*[tf.random_normal([512, 512])] * 2)]):
    train = step.assign_add(1)
saver = tf.train.Saver()

with ascend_system() as system:
    with system.session() as sess:
        sess.run(step.initializer)
        sess.run(train)
        try:
            say("ready")
            while True:
                sess.run(train)
        except KeyboardInterrupt:
            saved = sess.run(step)
            saver.save(sess, path)
    with system.session() as sess:
        saver.restore(sess, path)
        say(f"restored {saved > 0 and sess.run(step) == saved}")
