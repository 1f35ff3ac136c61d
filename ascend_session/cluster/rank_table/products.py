"""Rules that depend on the product: which devices a server has, and how many of them a job.

Source: launch_facts.md, A2 rules 5 and 7 and A5 (HCOMM: GetSingleDevice in
topoinfo_ranktableConcise.cc, CheckDeviceNumValid in config.cc, CheckDevCount in
hccl_communicator_attrs.cc).
"""

from typing import Optional

from ascend_session.cluster.rank_table.contents import LAB, TEMPLATE_2, Contents
from ascend_session.cluster.rank_table.findings import ERROR, UNCHECKED, WARNING, Findings
from ascend_session.cluster.rings import count_fault, ring_fault
from ascend_session.hardware.families import family as family_of

__all__ = ["check_product"]

_TRAINING, _A2, _A3 = family_of("910A"), family_of("910B"), family_of("910C")
_310P, _A5 = family_of("310P3"), family_of("950")
_SIZES = {_310P: 32, _A2: 16, _A3: 16}
_SMALLEST = 8  # devices of a server, of all other products
_FACTS = "launch_facts"


def check_product(table: Contents, family: Optional[str], found: Findings) -> None:
    """Looks at the rules; see `ascend_session.cluster.rank_table.rules.check_rules`."""
    if family == _A5:
        said = f"is version {table.format}, but {family} takes version 2.0 only."
        found.add(ERROR, "product", "version", said, None, f"{_FACTS} A1")
        return
    if table.format in (TEMPLATE_2, LAB) and family not in (None, _TRAINING):
        said = f"The {table.format} format is for {_TRAINING}, not for {family}."
        found.add(WARNING, "format", "", said, "`ascend-session ranktable convert` writes 1.0.")
    _device_ids(table, family, found)
    _equal_counts(table, family, found)
    _rings(table, family, found)


def _device_ids(table: Contents, family: Optional[str], found: Findings) -> None:
    if table.format == TEMPLATE_2:
        return  # it has the same limit on all products, and was looked at when it was read
    limit = max(_SIZES.values()) if family is None else _SIZES.get(family, _SMALLEST)
    source = f"{_FACTS} A2 rule 5"
    for spot, device in table.placed():
        physical = int(device.device_id)
        if physical >= limit:
            where = f"on {family}" if family else "on any product"
            said = f"is {physical}, but {where} HCCL takes 0 to {limit - 1}."
            found.add(ERROR, "device_id", table.place(spot, "device_id"), said, None, source)
        elif family is None and physical >= _SMALLEST:
            who = "only 310P takes" if physical >= _SIZES[_A2] else "only A2, A3 and 310P take"
            said = f"is {physical}, which {who}."
            found.add(UNCHECKED, "device_id", table.place(spot, "device_id"), said, None, source)


def _equal_counts(table: Contents, family: Optional[str], found: Findings) -> None:
    counts = sorted({len(server.devices) for server in table.servers})
    if len(counts) < 2:
        return
    said = f"Servers have from {counts[0]} to {counts[-1]} devices; "
    source = f"{_FACTS} A2 rule 7"
    if family in (_A2, _A3):
        said += "the manual advises the same number in each."
        found.add(WARNING, "counts", "", said, None, source)
    elif family is None:
        said += "only A2 and A3 take that, all others the same number in each."
        found.add(UNCHECKED, "counts", "", said, None, source)
    else:
        said += f"on {family} HCCL takes the same number in each only."
        found.add(ERROR, "counts", "", said, None, source)


def _rings(table: Contents, family: Optional[str], found: Findings) -> None:
    if family not in (_TRAINING, None):
        return
    for number, server in enumerate(table.servers):
        physical = [int(device.device_id) for device in server.devices]
        for severity, fault in ((ERROR, count_fault(physical)), (WARNING, ring_fault(physical))):
            if fault and family is None:
                severity, fault = UNCHECKED, f"If this is the Atlas training series: {fault}"
            if fault:
                found.add(
                    severity, "rings", table.server_place(number), fault, None, f"{_FACTS} A5"
                )
