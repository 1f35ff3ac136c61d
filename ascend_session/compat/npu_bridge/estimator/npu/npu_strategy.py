"""``npu_bridge.estimator.npu.npu_strategy``: one replica in each rank, and data divided among them.

Source: npu_strategy.py.
"""

from typing import Any

from tensorflow.python.distribute import distribute_lib, one_device_strategy

from ascend_session.compat.optimizers import rank_count
from ascend_session.compat.script_run import script_run
from ascend_session.compat.vendor_modules import mirror

_Extended: Any = one_device_strategy.OneDeviceExtended
_Strategy: Any = distribute_lib.StrategyV1


class NPUExtended(_Extended):  # type: ignore[misc]
    """The implementation of `NPUStrategy`."""

    @property
    def _num_replicas_in_sync(self) -> int:
        return rank_count()

    def _experimental_distribute_dataset(self, dataset: Any, *options: Any) -> Any:
        system = script_run().system()
        return dataset.shard(system.size, system.rank)


class NPUStrategy(_Strategy):  # type: ignore[misc]
    """``tf.distribute``'s strategy of one device, in each rank.

    Args:
        device: The host's CPU.

    Raises:
        ValueError: For another device.
    """

    def __init__(self, device: str = "/cpu:0") -> None:
        if device != "/cpu:0":
            raise ValueError('"device" only support "/cpu:0"')
        super().__init__(NPUExtended(self, device))


__getattr__, __all__ = mirror(
    globals(),
    "os distribute_lib one_device_strategy util_lib get_rank_size get_rank_id",
)
