"""Rules on the superpods of version 1.2.

Source: launch_facts.md, A3 (HCOMM: CheckSuperPodInfo in topoinfo_ranktableConcise.cc).
"""

from typing import Dict, List, Optional, Tuple

from ascend_session.cluster.rank_table.contents import V1_2, Contents, Spot
from ascend_session.cluster.rank_table.findings import ERROR, WARNING, Findings
from ascend_session.hardware.families import family as family_of

__all__ = ["check_super_pods", "reads_super_pods"]

_A3 = family_of("910C")
_SOURCE = "launch_facts A3"
_KEY = "super_device_id"
_INVALID = str(0xFFFFFFFF)  # which HCCL takes for none


def reads_super_pods(family: Optional[str]) -> bool:
    """Whether HCCL reads superpods on a product; None, one that is not known, may be A3.

    Source: HCOMM, GetSuperPodList, which does nothing where IsSuperPodMode is false.
    """
    return family in (None, _A3)


def check_super_pods(table: Contents, family: Optional[str], found: Findings) -> None:
    """Looks at the rules; see `ascend_session.cluster.rank_table.rules.check_rules`."""
    if table.format != V1_2:
        return
    pods = [server.super_pod_id for server in table.servers]
    if not any(pods):
        said = "is missing; without it HCCL takes the servers as in version 1.0."
        found.add(WARNING, "no pods", "super_pod_list", said, None, _SOURCE)
        return
    severity = ERROR if reads_super_pods(family) else WARNING
    if severity == WARNING:
        said = f"is for A3; on {family} HCCL does not look at superpods."
        found.add(WARNING, "pods elsewhere", "version", said, 'Write "1.0".', _SOURCE)
    for index, server in enumerate(table.servers):
        if not server.super_pod_id:
            said = f"is {server.server_id!r}, which no superpod has; HCCL wants each in one."
            place = f"server_list[{index}].server_id"
            found.add(severity, "no pod", place, said, "Add it to super_pod_list.", _SOURCE)
    _device_numbers(table, severity, found)
    _neighbours(pods, found)


def _device_numbers(table: Contents, severity: str, found: Findings) -> None:
    seen: Dict[Tuple[Optional[str], str], Spot] = {}
    for spot, device in table.placed():
        number = device.super_device_id
        if number in (None, _INVALID):
            said = f"is {number or 'missing'}; with a super_pod_list each device needs its own."
            hint = "`npu-smi info -t spod-info -i <id> -c <chip>` says it (SDID)."
            found.add(severity, "no sdid", table.place(spot, _KEY), said, hint, _SOURCE)
            continue
        key = (table.servers[spot[0]].super_pod_id, number or "")
        if key in seen:
            said = f"is {number}, as is {table.place(seen[key], _KEY)} in the same superpod."
            found.add(severity, "sdid twice", table.place(spot, _KEY), said, None, _SOURCE)
        seen.setdefault(key, spot)


def _neighbours(pods: List[Optional[str]], found: Findings) -> None:
    """The manual wants the servers of a superpod next to each other."""
    seen = {pods[0]}
    for index, (before, pod) in enumerate(zip(pods, pods[1:]), 1):
        if pod != before and pod in seen:
            said = f"is of superpod {pod!r} again; the manual wants its servers side by side."
            found.add(WARNING, "pods mixed", f"server_list[{index}]", said, None, _SOURCE)
        seen.add(pod)
