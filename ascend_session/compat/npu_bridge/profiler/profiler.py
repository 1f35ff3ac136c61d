"""``npu_bridge.profiler.profiler``: profiling of a part of the script; here no data is written.

Source: profiler.py.
"""

from typing import Any

from ascend_session.compat.npu_bridge import tf_adapter
from ascend_session.compat.vendor_modules import mirror


class Profiler:
    """What runs between `start` and `stop`, or in its block, is profiled on a device.

    Args:
        level: ``L0``, ``L1`` or ``L2``.
        aic_metrics: Which metrics of the cores; not with L0.
        output_path: A folder.

    Raises:
        ValueError: For what is no text.
    """

    def __init__(self, *, level: str = "L0", aic_metrics: str = "", output_path: str = "") -> None:
        given = {"level": level, "aic_metrics": aic_metrics, "output_path": output_path}
        for name, value in given.items():
            if not isinstance(value, str):
                raise ValueError(f"Option {name} should be str, but get type: {type(value)}")
        self._level = level
        self._aic_metrics = aic_metrics
        self._output_path = output_path

    def __enter__(self) -> "Profiler":
        self.start()
        return self

    def __exit__(self, exe_type: Any, exe_val: Any, exc_tb: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begins; RuntimeError for options that cannot be, and inside another one."""
        problem = tf_adapter.ProfilerStart(self._level, self._aic_metrics, self._output_path)
        if problem:
            raise RuntimeError(problem)

    def stop(self) -> None:
        """Ends it."""
        problem = tf_adapter.ProfilerStop()
        if problem:
            raise RuntimeError(problem)


__getattr__, __all__ = mirror(globals(), "tf_adapter")
