import tensorflow as tf
from npu_bridge.npu_init import *

sess = tf.Session(config=npu_config_proto())
sess.run(npu_ops.initialize_system())


def main(_):
    sess.run(tf.no_op())


if __name__ == "__main__":
    tf.app.run()
    sess.run(npu_ops.shutdown_system())  # expect: no-shutdown
