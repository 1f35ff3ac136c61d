"""Imports TensorFlow once, and becomes the ranks of launches: says what stands for their Python.

The argument is a folder for it. Ends when its stdin does.
"""

import contextlib
import gc
import sys
from pathlib import Path

import numpy  # noqa: F401
import tensorflow.compat.v1  # noqa: F401

import ascend_session.backends.exchange.group
import ascend_session.backends.stub
import ascend_session.session.api  # noqa: F401
from tests.rank_nursery import RankNursery

with contextlib.suppress(ImportError):  # what only the examples need
    import matplotlib.pyplot  # noqa: F401
    import sklearn.datasets  # noqa: F401

gc.freeze()  # a collection in a copy would copy all that it shares with the others
nursery = RankNursery(Path(sys.argv[1]))
print(nursery.python, flush=True)
sys.stdin.read()
nursery.close()
