"""Whole outputs of ``npu-smi info``, one for each layout of launch_facts.md, B2."""

from pathlib import Path
from typing import Dict

SAMPLES: Dict[str, str] = {
    path.stem[len("npu_smi_") :]: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "data").glob("npu_smi_*.txt"))
}
