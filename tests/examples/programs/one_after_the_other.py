"""Runs the programs that are named by their paths, and says before each which it is."""

import runpy
import sys

import tensorflow.compat.v1 as tf

for path in sys.argv[1:]:
    print(f"program {path}", flush=True)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:  # with the sentence of one that has nothing to run on
        print(end, flush=True)
    if hasattr(tf.keras.backend, "set_session"):
        tf.keras.backend.set_session(None)  # or the next graph meets a session that is closed
