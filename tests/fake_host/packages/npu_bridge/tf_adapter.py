"""Functions of the adapter's library (tf_adapter/util/npu_plugin.h, through swig)."""

from fake_ge.float_status import device_sat_mode

__all__ = ["GetDeviceSatMode"]


def GetDeviceSatMode() -> int:  # noqa: N802
    """How the device shows an overflow: 0, 1, or -1 if it cannot be asked."""
    return device_sat_mode()
