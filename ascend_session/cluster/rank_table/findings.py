"""Findings about rank tables, and where the rule behind each of them is laid down.

What HCCL's loader refuses is an error. What it takes although the manual says otherwise is a
warning. The rules of the loader are read from HCOMM's sources, those of the manual from the pages
on rank tables in the documentation of HCCL.
"""

from typing import Iterable, List, Optional, Sequence

from ascend_session.errors import JobError
from ascend_session.findings import Finding, errors_of, limit_repeats, sort_by_severity
from ascend_session.text import printable

_CONCISE = "HCOMM, topoinfo_ranktableConcise.cc"
_CONFIG = "HCOMM, config.cc"
_MANUAL = "HCCL manual, cluster_info_config"
_TRAINING_MANUAL = "TensorFlow adapter manual, distributed_training.md"

_SOURCES = {
    "file name": "HCCL's error EI0004 (is not a valid real path)",
    "status": "HCOMM, HCCL_RANKTABLE_TIMEOUT_S",
    "server twice": "HCCL's error EI0004 (used repeatedly)",
    "device twice": f"{_CONFIG}, CheckDeviceId",
    "host_port": f"{_MANUAL}, version 1.2",
    "rank too large": f"{_CONFIG}, CheckRankListInfo",
    "rank twice": f"{_CONFIG}, CheckRankListInfo",
    "rank missing": f"{_CONFIG}, CheckRankListInfo",
    "grouping": _MANUAL,
    # Addresses
    "address twice": f"{_CONCISE}, GetSingleDeviceIp",
    "address alike": f"{_CONCISE}, GetSingleDeviceIp",
    "addresses": f"{_CONCISE}, GetSingleDeviceIp",
    "kind": f"{_CONFIG}, CheckRankIpFamily",
    "address wanted": _MANUAL,
    "address missing": f"{_CONCISE}, CheckNicDeployConsistence",
    # The product
    "product": _MANUAL,
    "device_id": f"{_CONCISE}, GetSingleDevice",
    "counts": f"{_CONFIG}, CheckDeviceNumValid",
    "rings": _TRAINING_MANUAL,
    # Superpods
    "no pods": f"{_CONCISE}, CheckSuperPodInfo",
    "pods elsewhere": "HCOMM, GetSuperPodList",
    "no pod": f"{_CONCISE}, CheckSuperPodInfo",
    "no sdid": f"{_CONCISE}, CheckSuperPodInfo",
    "sdid twice": f"{_CONCISE}, CheckSuperPodInfo",
    "pods mixed": f"{_MANUAL}, version 1.2",
    # The host
    "no rank": "HCCL's error EI0014",
    "opened": "HCCL's error EI0014",
    "no node": "HCCL's error EI0014",
    "hidden": "HCCL's error EI0014",
    "address": "HCCL's error EJ0004",
}


def make_finding(
    severity: str, rule: str, place: str, message: str, hint: Optional[str] = None
) -> Finding:
    """Make a finding of a rule, with the source of that."""
    return Finding(severity, message, hint, rule, None, place, _SOURCES.get(rule))


def tidy_findings(findings: Iterable[Finding]) -> List[Finding]:
    """Count what repeats, put errors first, and escape what others wrote into the table."""
    return [
        finding._replace(
            message=printable(finding.message), place=printable(str(finding.place or ""))
        )
        for finding in sort_by_severity(limit_repeats(findings))
    ]


def refuse_table(name: str, findings: Sequence[Finding]) -> JobError:
    """Make one error of all findings that are errors; it has the others as well."""
    errors = errors_of(findings)
    if len(errors) == 1:
        message = f"{name}: {errors[0]._replace(hint=None)}"
        return JobError(message, hint=errors[0].hint, findings=findings)
    lines = [f"{name}: {len(errors)} problems:"]
    lines += [f"  {number}. {error}" for number, error in enumerate(errors, 1)]
    return JobError("\n".join(lines), findings=findings)
