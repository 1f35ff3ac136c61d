"""What the programs share: lines for the test that waits for them, and graph mode."""

import json
import logging
from typing import Any

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)
logging.basicConfig(format="%(levelname)s %(message)s")


def say(value: Any) -> None:
    """One line for the test."""
    print(f"\n@ {json.dumps(value)}", flush=True)
