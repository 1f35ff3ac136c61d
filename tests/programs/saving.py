"""Saves a checkpoint when Ctrl-C is pressed, as training scripts do."""

import sys

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_system

path = sys.argv[1]
step = tf.get_variable("step", initializer=0)
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
