"""What a test needs of the machine, and which part of that is missing."""

import importlib.util
import os
import sys
from typing import Any, Dict, Optional

from ascend_session import device_count
from ascend_session.hardware import VISIBLE_VARIABLE, device_nodes, host_root, operator_list

__all__ = ["MARKER", "missing_device", "missing_for", "needs_packages"]

MARKER = (
    "needs(packages=True, devices=1): what a test needs besides a device node: TensorFlow, the "
    "vendor's packages and their list of operators, and how many devices"
)

_PACKAGES = ("tensorflow", "npu_bridge", "hccl")


def missing_for(item: Any) -> Optional[str]:
    """What keeps this test from running here, in words; None if nothing does."""
    asked = _asked(item)
    return (
        missing_device()
        or (_missing_package() if asked["packages"] else None)
        or _missing_devices(asked["devices"])
    )


def needs_packages(item: Any) -> bool:
    """Whether this test needs the vendor's packages: whether it opens the device."""
    return bool(_asked(item)["packages"])


def _asked(item: Any) -> Dict[str, int]:
    asked = {"packages": True, "devices": 1}
    for marker in reversed(list(item.iter_markers("needs"))):
        asked.update(marker.kwargs)
    return asked


def missing_device() -> Optional[str]:
    """Say why this process gets no device, in words; None if it gets one."""
    if not device_nodes(host_root(os.environ)):
        return "there is no /dev/davinci<N>"
    if not device_count():
        return f"{VISIBLE_VARIABLE}={os.environ.get(VISIBLE_VARIABLE)!r} leaves no device"
    return None


def _missing_package() -> Optional[str]:
    for name in _PACKAGES:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            return f"{name} cannot be found by {sys.executable}"
    found = operator_list(os.environ, host_root(os.environ))
    if not found.operators:
        return f"there is no list of supported operators in {found.folder}"
    return None


def _missing_devices(count: int) -> Optional[str]:
    here = device_count()
    return f"this needs {count} devices, and this process gets {here}" if count > here else None
