"""What a test needs of the machine, and which part of that is missing."""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from ascend_session import device_count

__all__ = [
    "MARKER",
    "control_nodes",
    "count_operators",
    "device_nodes",
    "missing_device",
    "missing_for",
    "needs_packages",
]

MARKER = (
    "needs(packages=True, devices=1): what a test needs besides a device node: TensorFlow, the "
    "vendor's packages and their list of operators, and how many devices"
)

_PACKAGES = ("tensorflow", "npu_bridge", "hccl")
_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_CONTROL_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
# guides/facts/adapter.md#graphs-that-stay-on-the-cpu
_OPERATORS = (
    "built-in/framework/tensorflow/npu_supported_ops.json",
    "framework/built-in/tensorflow/npu_supported_ops.json",
)


def device_nodes() -> List[Path]:
    """List the nodes of this machine's devices; of virtual ones only if there are no others."""
    try:
        names = os.listdir(str(_host() / "dev"))
    except OSError:
        return []
    whole, virtual = (
        sorted(name for name in names if re.fullmatch(f"{prefix}davinci[0-9]+", name))
        for prefix in ("", "v")
    )
    return [_host() / "dev" / name for name in whole or virtual]


def control_nodes() -> List[Path]:
    """List the nodes without which no device can be opened, whether or not they are there."""
    return [_host() / "dev" / name for name in _CONTROL_NODES]


def count_operators() -> int:
    """Count the operators in the adapter's list of those that a device runs; 0 without a list."""
    folder = Path(_operator_folder())
    # A folder of the host's, if what runs here sees the host somewhere else.
    folders = [folder, _host() / str(folder).lstrip("/")]
    counts = [_count_keys(one / path) for one in folders for path in _OPERATORS]
    return max(counts)


def _host() -> Path:
    """The root of the host, as the product takes it."""
    return Path(os.environ.get("ASCEND_SESSION_HOST_ROOT") or "/")


def _operator_folder() -> str:
    return os.environ.get("ASCEND_OPP_PATH") or "/usr/local/Ascend/opp"


def _count_keys(path: Path) -> int:
    try:
        return len(json.loads(path.read_text(errors="replace")))
    except (OSError, ValueError, TypeError):
        return 0


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
    if not device_nodes():
        return "there is no /dev/davinci<N>"
    if not device_count():
        return f"{_VISIBLE}={os.environ.get(_VISIBLE)!r} leaves no device"
    return None


def _missing_package() -> Optional[str]:
    for name in _PACKAGES:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            return f"{name} cannot be found by {sys.executable}"
    if not count_operators():
        return f"there is no list of supported operators in {_operator_folder()}"
    return None


def _missing_devices(count: int) -> Optional[str]:
    here = device_count()
    return f"this needs {count} devices, and this process gets {here}" if count > here else None
