import atexit

from npu_bridge.npu_init import *


def stop(sess, npu_shutdown):
    shutdown_resource(sess, npu_shutdown)
    close_session(sess)


sess, npu_shutdown = init_resource()
atexit.register(stop, sess, npu_shutdown)
