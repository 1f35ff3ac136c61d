"""The hook that reports steps; all hooks of `training` are one."""

import os
import time
from typing import Any, Optional

from ascend_session.backends._tensorflow import find_global_step, tf1
from ascend_session.rank_folder import CHANNEL
from ascend_session.training.progress import note_step_of_hook

_Hook: Any = tf1().train.SessionRunHook


class StepHook(_Hook):  # type: ignore[misc]
    """Reports the global step of each run to the launcher, if there are both; adds no operators."""

    _reported_step: Any = None
    _begun_s: Optional[float] = None

    def begin(self) -> None:
        """Find the global step."""
        graph = tf1().get_default_graph()
        self._reported_step = find_global_step(graph) if os.environ.get(CHANNEL) else None

    def before_run(self, run_context: Any) -> Any:
        """Fetch the global step, which the run may or may not have increased by then."""
        if self._reported_step is None:
            return None
        self._begun_s = time.monotonic()
        return tf1().train.SessionRunArgs(self._reported_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Report the step."""
        if self._reported_step is not None:
            note_step_of_hook(run_values.results, begun_s=self._begun_s)
