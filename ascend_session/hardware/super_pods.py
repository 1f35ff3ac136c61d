"""Where a chip of an A3 is in its superpod: ``npu-smi info -t spod-info``.

Source: launch_facts.md, A3 (the question, and SDID). The answer is four lines: ``SDID``, ``Super
Pod Size``, ``Super Pod ID`` (rank_table_config_a3.md in the manual of HCCL) and ``Server Index``.
"""

import re
from typing import NamedTuple, Optional

from ascend_session.hardware._text import pairs

__all__ = ["SuperPodPlace", "parse_super_pod"]

_NUMBER = re.compile(r"[0-9]{1,10}")


class SuperPodPlace(NamedTuple):
    """Number of a chip in its superpod (SDID), and the superpod's own."""

    device: str
    pod: str


def parse_super_pod(text: str) -> Optional[SuperPodPlace]:
    """Reads the answer; None if it does not say both numbers."""
    said = dict(pairs(text))
    device, pod = said.get("sdid", ""), said.get("super pod id", "")
    if _NUMBER.fullmatch(device) and _NUMBER.fullmatch(pod):
        return SuperPodPlace(device, pod)
    return None
