"""The product family of a chip, by the name that ``npu-smi`` prints.

Source: launch_facts.md, A1 (910A, A2 = 910B, A3 = 910_93 or 910C, A5 = 950) and B2 (names that
``npu-smi`` prints: ``910A``, ``910B3``, ``Ascend910`` on A3, ``310P3``).
"""

import re
from typing import Optional

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
    """Find the family of a chip, as in ``A2 (910B)``; None for a name that is not known."""
    short = re.sub(r"(?i)^ascend", "", "".join(name.split()))
    for pattern, product in _FAMILIES:
        if re.fullmatch(pattern, short, re.IGNORECASE):
            # "910" alone is an old name; on A3 the tool prints "Ascend910".
            return None if short == "910" and short == name.strip() else product
    return None


def named_family(name: str) -> Optional[str]:
    """Find the family that a person means: its name, ``A2``, or the name of a chip."""
    called = name.strip().upper()
    for product in (_TRAINING, _A2, _A3, _A5):
        if called in (product.upper(), product.split()[0].upper()) and called != "ATLAS":
            return product
    return family(name)


def has_nic(product: Optional[str]) -> bool:
    """Tell whether processors of the family have a network interface of their own."""
    return product in (_TRAINING, _A2, _A3)
