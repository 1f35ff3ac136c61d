"""What the programs of ranks share."""

import json
import os
from typing import Any

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

RANK = int(os.environ["RANK_ID"])
SIZE = int(os.environ["RANK_SIZE"])


def say(value: Any) -> None:
    """One value for the test, as JSON."""
    os.write(1, f"say {RANK} {json.dumps(value)}\n".encode())
