import tensorflow as tf
from npu_bridge.npu_init import *

npu_int = npu_ops.initialize_system()
npu_shutdown = npu_ops.shutdown_system()
sess = tf.Session()
sess.run(npu_int)
try:
    sess.run(1)
except Exception as error:
    print(error)
sess.run(npu_shutdown)  # expect: shutdown-skipped
