"""Reading which server belongs to which superpod: ``super_pod_list`` of version 1.2.

Source: launch_facts.md, A3 (HCOMM: GetSingleSuperPod and GetSingleSuperPodSever).
"""

from typing import AbstractSet, Any, Dict, Mapping

from ascend_session.cluster.rank_table.fields import Fields, shown
from ascend_session.cluster.rank_table.findings import WARNING

__all__ = ["read_super_pods"]

_LONGEST_ID = 127  # bytes


def read_super_pods(
    fields: Fields, table: Mapping[str, Any], known: AbstractSet[str]
) -> Dict[str, str]:
    """The superpod of each server that is listed; ``known`` are the servers of the table."""
    found: Dict[str, str] = {}
    seen: Dict[str, str] = {}
    for place, pod in fields.objects(table, "super_pod_list", ""):
        pod_id = fields.text(pod, "super_pod_id", place) or ""
        if pod.get("super_pod_id") == "":
            fields.refuse("empty pod", f"{place}.super_pod_id", "is empty; HCCL refuses that.")
        elif pod_id in seen:
            said = f"is {shown(pod_id)}, as is {seen[pod_id]}; a superpod is listed once."
            fields.refuse("pod twice", f"{place}.super_pod_id", said)
        elif len(pod_id.encode()) > _LONGEST_ID:
            said = f"is {shown(pod_id)}, longer than {_LONGEST_ID} bytes."
            fields.refuse("long pod", f"{place}.super_pod_id", said)
        seen.setdefault(pod_id, f"{place}.super_pod_id")
        for path, server in fields.objects(pod, "server_list", place):
            server_id = fields.text(server, "server_id", path)
            if server_id is not None:
                _join(fields, found, server_id, pod_id, f"{path}.server_id")
                if server_id not in known:
                    said = f"is {shown(server_id)}, which the table's own server_list has not."
                    fields.refuse("pod server", f"{path}.server_id", said)
    return found


def _join(fields: Fields, found: Dict[str, str], server_id: str, pod_id: str, place: str) -> None:
    earlier = found.get(server_id)
    if earlier is not None and earlier != pod_id:
        said = f"is {shown(server_id)} again; HCCL takes the last superpod, {shown(pod_id)}."
        fields.found.add(WARNING, "server in two pods", place, said, "List a server once.")
    found[server_id] = pod_id
