"""TensorFlow as tests use it: quiet, and in graph mode."""

import os
import warnings
from typing import Any

__all__ = ["tensorflow_in_graph_mode"]


def tensorflow_in_graph_mode() -> Any:
    """``tensorflow.compat.v1``, imported late."""
    # What TensorFlow warns of while it is imported is none of this project's business.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow.compat.v1 as module

        module.disable_eager_execution()
        module.logging.set_verbosity(module.logging.ERROR)
    return module
