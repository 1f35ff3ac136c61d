import tensorflow as tf
from npu_bridge.estimator import npu_ops


def main(argv):
    sess = tf.Session()
    sess.run(npu_ops.initialize_system())
    sess.run(npu_ops.shutdown_system())  # expect: shutdown-skipped


if __name__ == "__main__":
    tf.app.run(main)
