"""The mirrored modules for tests in this process, imported after TensorFlow is in graph mode.

npu_init is not among them: importing it changes every later session of the process.
"""

import importlib
from typing import Any

import pytest

from hardware_tests.graph_mode import tensorflow_in_graph_mode

tensorflow_in_graph_mode()


def module(name: str) -> Any:
    """A module of the room ``compat``."""
    return importlib.import_module(f"ascend_session.compat.{name}")


def of_estimator(name: str) -> Any:
    """A module of ``npu_bridge.estimator.npu``."""
    return module(f"npu_bridge.estimator.npu.{name}")


has_estimators = pytest.mark.skipif(
    not hasattr(of_estimator("npu_config").NPURunConfig, "replace"),
    reason="this TensorFlow has no tf.estimator",
)
