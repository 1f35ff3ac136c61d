"""Imports TensorFlow once, then runs programs of this folder in forked copies of itself.

A line on stdin names a program and its arguments; the answer is ``pid N``, then what the program
writes, then ``ended CODE``. The copy runs the program as its own main program, to its own end.
"""

import gc
import json
import os
import runpy
import signal
import sys
from pathlib import Path

import tensorflow.compat.v1 as tf

import ascend_session.backends.stub
import ascend_session.session.api  # noqa: F401  (imported here, so that the copies need not)

HERE = Path(__file__).resolve().parent
# A shell's background job is started with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
gc.freeze()  # a collection in a copy would copy all that it shares with the others
tf.logging.set_verbosity(tf.logging.ERROR)


def forked() -> bool:
    """Whether this is the copy; the original says what became of it."""
    child = os.fork()
    if child:
        print(f"pid {child}", flush=True)
        _, status = os.waitpid(child, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        print(f"ended {code}", flush=True)
    return not child


for line in iter(sys.stdin.readline, ""):
    if forked():
        name, *arguments = json.loads(line)
        sys.argv = [name, *arguments]
        runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
        break
