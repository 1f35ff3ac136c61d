"""The product family that a chip's name stands for.

Source: launch_facts.md, A1 (910A, A2 = 910B, A3 = 910_93 or 910C, A5 = 950) and B2 (names that
``npu-smi`` prints: ``910A``, ``910B3``, ``Ascend910`` on A3, ``310P3``).
"""

import re
from typing import Optional

__all__ = ["family", "has_nic", "named_family"]

_TRAINING, _A2, _A3, _A5 = "Atlas training (910A)", "A2 (910B)", "A3", "A5 (950)"
_FAMILIES = (
    (r"950.*", _A5),
    (r"910(_93.*|C.*|)", _A3),
    (r"910B.*", _A2),
    (r"910(A|Pro|Premium).*", _TRAINING),
    (r"310P.*", "310P"),
    (r"310B.*", "310B"),
    (r"310.*|MiniD", "310"),
)


def family(name: str) -> Optional[str]:
    """The family of a chip, as in ``A2 (910B)``; None for a name that is not known."""
    short = re.sub(r"(?i)^ascend", "", "".join(name.split()))
    for pattern, found in _FAMILIES:
        if re.fullmatch(pattern, short, re.IGNORECASE):
            # "910" alone is an old name; on A3 the tool prints "Ascend910".
            return None if short == "910" and short == name.strip() else found
    return None


def named_family(name: str) -> Optional[str]:
    """The family that a person calls so: its name, ``A2``, or the name of a chip."""
    called = name.strip().upper()
    for found in (_TRAINING, _A2, _A3, _A5):
        if called in (found.upper(), found.split()[0].upper()) and called != "ATLAS":
            return found
    return family(name)


def has_nic(found: Optional[str]) -> bool:
    """Whether processors of the family have a network interface of their own."""
    return found in (_TRAINING, _A2, _A3)
