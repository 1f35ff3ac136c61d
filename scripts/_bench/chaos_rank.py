"""Trains the digits as the example does, without its picture: ``chaos_rank.py DATA [ARGUMENTS]``.

Without arguments it writes the images to DATA, so that no rank has to load scikit-learn.
"""

import os
import sys
from pathlib import Path
from typing import Sequence

from ascend_session import ascend_system
from ascend_session.examples import digits
from ascend_session.examples._report import save_numbers
from ascend_session.files import replace_file


def write_images(path: str) -> None:
    """Write all examples, to train on and held out."""
    import numpy

    arrays = [array for part in digits.load_digits() for array in part]
    with open(path, "wb") as file:
        numpy.savez(file, *arrays)


def train(path: str, argv: Sequence[str]) -> None:
    """Train, and let rank 0 write what stands for the weights."""
    import numpy

    arguments = digits.parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    with numpy.load(path) as file:
        arrays = [file[name] for name in file.files]
    examples, held_out = digits.Examples(*arrays[:2]), digits.Examples(*arrays[2:])
    with ascend_system(digits.CONFIG) as system:
        model = digits.Model(size=system.size)
        history, weights = digits.train(system, model, examples, held_out, arguments)
    if system.rank == 0:
        save_numbers(history, arguments.output)
        replace_file(str(Path(arguments.output) / "weights"), weights.encode())


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_images(sys.argv[1])
    else:
        train(sys.argv[1], sys.argv[2:])
