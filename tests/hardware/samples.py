"""Whole outputs of ``npu-smi info``, one per layout of guides/facts/devices.md#npu-smi-info."""

from pathlib import Path
from typing import Dict

SAMPLES: Dict[str, str] = {
    path.stem[len("npu_smi_") :]: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "data").glob("npu_smi_*.txt"))
}
