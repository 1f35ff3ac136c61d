import tensorflow as tf
from npu_bridge.npu_init import *


def main():
    npu_init, npu_shutdown = npu_ops.initialize_system(), npu_ops.shutdown_system()
    with tf.Session() as sess:
        sess.run(npu_ops.initialize_system())
        try:
            sess.run(1)
        finally:
            sess.run(npu_ops.shutdown_system())
