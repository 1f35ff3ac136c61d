"""What the vendor's NPURunConfig does with what it is given, of a few of its arguments.

Source: npu_config.py: the order of its arguments, and checkpoints each 100 steps unless it is told.
"""

from typing import Any, Optional

import tensorflow.compat.v1 as tf


class NPURunConfig(tf.estimator.RunConfig):  # type: ignore[misc,name-defined]
    """Keeps options for NPUEstimator."""

    def __init__(
        self,
        iterations_per_loop: int = 1,
        profiling_config: Any = None,
        model_dir: Optional[str] = None,
        session_config: Any = None,
        precision_mode: Optional[str] = None,
        graph_run_mode: int = 1,
    ) -> None:
        self.precision_mode = precision_mode
        self.graph_run_mode = graph_run_mode
        super().__init__(model_dir, save_checkpoints_steps=100, session_config=session_config)
