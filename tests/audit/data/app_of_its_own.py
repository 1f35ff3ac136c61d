"""An object that runs is no tf.app, and what others call may be called safely."""

import tensorflow as tf
from npu_bridge.estimator import npu_ops

from application import App

app = App()
sess = tf.Session()
sess.run(npu_ops.initialize_system())
app.run()
sess.run(npu_ops.shutdown_system())  # expect: shutdown-skipped
