"""Opens a session on the npu backend; the first argument is the environment, as JSON."""

import json
import os
import sys

os.environ.update(json.loads(sys.argv[1]))
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)

from common import say, tf  # noqa: E402  (the environment comes first)

from ascend_session import LifecycleError, RetryPolicy, ascend_session, ascend_system  # noqa: E402

answer = tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]))
say("opening")
if "probe" in sys.argv:
    with ascend_system(backend="npu", probe=RetryPolicy()):
        say("opened")
with ascend_session(backend="npu") as sess:
    say(str(sess.run(answer)[0][0]))
    if "fork" in sys.argv:
        child = os.fork()
        if not child:
            try:
                sess.run(answer)
            except LifecycleError as error:
                say(error.message.partition(";")[0].replace(str(os.getppid()), "P"))
            sys.exit(3)
        say(f"child {child} ended {os.waitpid(child, 0)[1]}")
        say(str(sess.run(answer)[0][0]))
    if "leave" in sys.argv:
        sys.exit(0)
    if "stay" in sys.argv:
        say("ready")
        sys.stdin.readline()
say("closed")
