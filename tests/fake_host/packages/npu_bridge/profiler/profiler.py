"""Profiles what runs inside a block (tf_adapter/python/npu_bridge/profiler/profiler.py)."""

from typing import Any

from fake_ge import profiler


class Profiler:
    """Profiles the offloaded runs between `start` and `stop`; also a context manager."""

    def __init__(self, *, level: Any = "L0", aic_metrics: Any = "", output_path: Any = "") -> None:
        given = {"level": level, "aic_metrics": aic_metrics, "output_path": output_path}
        for name, value in given.items():
            if not isinstance(value, str):
                raise ValueError(f"Option {name} should be str, but get type: {type(value)}")
        self._given = given

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it; RuntimeError if the adapter refuses."""
        _raise_if_refused(profiler.start(**self._given))

    def stop(self) -> None:
        """Stops it."""
        _raise_if_refused(profiler.stop())


def _raise_if_refused(status: str) -> None:
    if status:
        raise RuntimeError(status)
