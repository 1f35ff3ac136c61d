"""Product families of chips, by the name that ``npu-smi`` prints, and their properties.

Source: guides/facts/devices.md#product-families.
"""

import re
from typing import Optional, Sequence

from ascend_session.vendor import A2, A3, A5, DUO, TRAINING

_FAMILIES = (
    (r"950.*", A5),
    (r"910(_93.*|C.*|)", A3),
    (r"910B.*", A2),
    (r"910(A|Pro|Premium).*", TRAINING),
    (r"310P.*", DUO),
    (r"310B.*", "310B"),
    (r"310.*|MiniD", "310"),
)

# The Atlas training series: a job has 1, 2, 4 or 8 devices of a server. Devices 0-3 and 4-7 are
# separate rings, and 2 or 4 devices stay in one of them (guides/facts/launch.md#sizes-of-a-job).
# There is no device above 7 (HCOMM, GetSingleDevice in topoinfo_ranktableConcise.cc).
_JOB_SIZES = (1, 2, 4, 8)
SERVER_DEVICES = 8  # of one server, or of the half of an A2 server that HCCS connects
_RING = 4  # devices
# The sets of four devices that HCCL accepts (HCOMM, CheckServerInnerRankInfo in topoinfo_parse.cc).
_FOURS = ("0123", "4567", "0145", "0246", "0347", "1256", "1357", "2367")
_MOST_DEVICES = {DUO: 32, A2: 16, A3: 16}  # per server


def family(name: str) -> Optional[str]:
    """Find the family of a chip by its name: ``910B3`` is ``A2 (910B)``; None if unknown."""
    short = re.sub(r"(?i)^ascend", "", "".join(name.split()))
    for pattern, product in _FAMILIES:
        if re.fullmatch(pattern, short, re.IGNORECASE):
            # "910" alone is an old name; on A3 the tool prints "Ascend910".
            return None if short == "910" and short == name.strip() else product
    return None


def parse_family(name: str) -> Optional[str]:
    """Find the family by what a person types: ``A2``, ``A2 (910B)`` or the name of a chip."""
    called = name.strip().upper()
    for product in (TRAINING, A2, A3, A5):
        if called in (product.upper(), product.split()[0].upper()) and called != "ATLAS":
            return product
    return family(name)


def most_devices(product: Optional[str]) -> int:
    """Return the most devices of a server of this family, or of any family for None.

    Source: HCOMM, GetSingleDevice in topoinfo_ranktableConcise.cc.
    """
    return (
        max(_MOST_DEVICES.values())
        if product is None
        else _MOST_DEVICES.get(product, SERVER_DEVICES)
    )


def has_nic(product: Optional[str]) -> bool:
    """Return whether processors of the family have a network interface of their own."""
    return product in (TRAINING, A2, A3)


def find_count_fault(physical: Sequence[int]) -> str:
    """Return why the Atlas training series has no job of this many devices; empty if it may.

    Args:
        physical: The physical ids of the job's devices on one server. Ids above 7 show that it is
            another product, to which the rule does not apply.
    """
    if len(physical) in _JOB_SIZES or _is_other_product(physical):
        return ""
    return (
        f"A job on the Atlas training series has 1, 2, 4 or 8 devices of a server, not "
        f"{len(physical)} (physical {', '.join(map(str, physical))})."
    )


def find_ring_fault(physical: Sequence[int]) -> str:
    """Return why 2 or 4 devices of the Atlas training series are in different rings; else empty."""
    count = len(physical)
    rings = {int(number) // _RING for number in physical}
    if count not in _JOB_SIZES or count > _RING or len(rings) == 1 or _is_other_product(physical):
        return ""
    return (
        f"A job of {count} devices on the Atlas training series must stay inside 0-3 or 4-7, "
        f"which are separate rings; these are physical {', '.join(map(str, physical))}."
    )


def find_four_fault(physical: Sequence[int]) -> str:
    """Return why HCCL refuses these four devices of the Atlas training series; else empty."""
    chosen = "".join(map(str, sorted(map(int, physical))))
    if len(physical) != _RING or _is_other_product(physical) or chosen in _FOURS:
        return ""
    return (
        f"Of four devices on the Atlas training series HCCL takes only {', '.join(_FOURS)}; these "
        f"are physical {', '.join(map(str, physical))}."
    )


def find_half_fault(physical: Sequence[int]) -> str:
    """Return why HCCL refuses these devices of one A2 server with 16; empty if it does not.

    Source: HCOMM, CheckSingleServerComm in hccl_communicator_host.cc; HCCL manual,
    HCCL_INTRA_PCIE_ENABLE.md.
    """
    first = sorted(int(number) for number in physical if number < SERVER_DEVICES)
    second = sorted(int(number) for number in physical if number >= SERVER_DEVICES)
    if not first or not second or [number + SERVER_DEVICES for number in first] == second:
        return ""
    return (
        "A job on one A2 server that uses both 0-7 and 8-15 has the same devices of each, n and "
        f"n + 8; these are physical {', '.join(map(str, physical))}."
    )


def suggest_devices(physical: Sequence[int]) -> str:
    """Return a hint for devices of the Atlas training series that cannot form a job."""
    if len(physical) in _JOB_SIZES:
        return "Name devices of one half; `ascend-session devices` shows both kinds of ids."
    return f"Ask for {max(size for size in _JOB_SIZES if size < len(physical))} devices."


def _is_other_product(physical: Sequence[int]) -> bool:
    return not physical or any(int(number) >= SERVER_DEVICES for number in physical)
