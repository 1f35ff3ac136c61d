"""Which rank brought another one down: one that this names, or the first with bad gradients.

On the stub the sentence of a rank that waits says so. On devices HCCL does, if the ranks send each
other heartbeats: "Cluster Exception Location[IP/ID]:[10.0.0.1/3]" is the server, and the N of the
``/dev/davinciN``, which is not the rank. Source: ``GetUId`` and ``MakeErrMsg`` in
src/framework/cluster_maintenance/health/heartbeat/heartbeat.cc of hicann/hccl.

One step after gradients that were not finite the sum has made the variables of all ranks NaN, and
whoever looks first fails: there the ranks' reports say whose were the first.
"""

import re
from typing import Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.failures.peers import LOCATION
from ascend_session.failures.record import ErrorRecord
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.launcher.job.reports import NotFinite
from ascend_session.launcher.plan.plan import Plan
from ascend_session.text import blank_unprintable, label_ranks, shorten

_LONGEST = 400  # characters of what is quoted, or stands behind a location
_NAMED = "ranks? [0-9]{1,7}(?:(?:, | and | to )(?:rank )?[0-9]{1,7})*"
_ABSENT = re.compile(
    rf"{JOB_CANNOT_GO_ON}(({_NAMED})(?: of [0-9]+(?: \([^)\n]*\))?|, which [^,\n]*,)? "
    r"(?:(?:has|have) (?:left|exited|failed|not answered)|did not join|failed:)[^\n]*)"
)
# What TensorFlow says: NanTensorHook, check_numerics, verify_tensor_all_finite, and scripts.
_NOT_FINITE = re.compile(r"\b(NaN|Inf)\b|NanLoss|not finite|non-finite|infinite", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]+)(?: to ([0-9]+))?")
_KIND = re.compile(r"ExceptionType:\[([^\]]{1,80})\]")
_REASON = re.compile(r"Possible Reason:\s*([^\n\]]{1,200})")


class Suspect(NamedTuple):
    """Who is named, and why.

    Attributes:
        ranks: The ranks, the first one named first.
        why: The sentence with which they are named.
        is_by_hccl: Whether HCCL names the rank, and not the stub.
    """

    ranks: Tuple[int, ...]
    why: str
    is_by_hccl: bool


def find_suspect(texts: Iterable[str], plan: Plan, reporter: int) -> Optional[Suspect]:
    """Find whom a rank names in what it has written; None if nobody but itself.

    Args:
        texts: What it has written.
        plan: The job.
        reporter: The rank.
    """
    for text in texts:
        match = _ABSENT.search(text)
        if match is not None:
            ranks = tuple(_expand(match[2]))
            why = shorten(blank_unprintable(match[1]).strip(), _LONGEST)
            if reporter not in ranks:
                return Suspect(ranks, f"{why[0].upper()}{why[1:]}", is_by_hccl=False)
        for location in LOCATION.finditer(text):
            rank = _find_rank(plan, location["address"], int(location["device"]))
            if rank is not None and rank != reporter:
                more = text[location.end() : location.end() + _LONGEST].split("\n", 1)[0]
                return Suspect((rank,), _describe_location(rank, reporter, more), True)
    return None


def _expand(names: str) -> List[int]:
    ranks: List[int] = []
    for first, last in _RANGE.findall(names):
        ranks += range(int(first), min(int(last or first), int(first) + 10_000) + 1)
    return ranks


def _find_rank(plan: Plan, server: str, device: int) -> Optional[int]:
    """Find the rank that opens a device of a server; None if that is not known."""
    table = plan.nodes.table
    if plan.nodes.count > 1:
        nodes = () if table is None else table.nodes
        devices = [each for node in nodes for each in node.devices]
        of_server = (each for each in devices if server in (each.server_id, each.host_ip))
        return next((each.rank_id for each in of_server if each.device_id == device), None)
    for rank in plan.ranks:
        if device == (rank.device_id if rank.physical_id is None else rank.physical_id):
            return rank.rank
    return None


def _describe_location(rank: int, reporter: int, more: str) -> str:
    kind, reason = _KIND.search(more), _REASON.search(more)
    what = f"'{kind[1]}'" if kind else "an exception"
    possible = f" (possible reasons: {blank_unprintable(reason[1]).strip()})" if reason else ""
    return f"HCCL reports {what} at rank {rank}, on rank {reporter}{possible}."


class FirstNotFinite(NamedTuple):
    """The first gradients that were not finite.

    Attributes:
        ranks: Whose they were; empty if only the sum overflowed.
        sentence: What is known of it.
    """

    ranks: Tuple[int, ...]
    sentence: str


def find_first_not_finite(
    error: Optional[ErrorRecord], reports: Mapping[int, NotFinite]
) -> Optional[FirstNotFinite]:
    """Find who brought the first gradients that were not finite, if a rank failed because of such.

    Args:
        error: The exception with which it failed.
        reports: What ranks have reported of such gradients.

    Returns:
        None if the exception is about something else, or no rank reported any.
    """
    if error is None or not _NOT_FINITE.search(f"{error.name} {error.message}") or not reports:
        return None
    step = min(report.step for report in reports.values())
    first = {rank: report for rank, report in reports.items() if report.step == step}
    own = sorted(rank for rank, report in first.items() if report.is_own)
    variable = first[own[0] if own else min(first)].variable
    since = f"in step {step} since the start"
    whose = label_ranks(own, ",")
    what, sums = "The first numbers of a reduction that were", "The sum of the ranks' numbers"
    if variable:
        what = f"The first gradient of {variable!r} that was"
        sums = f"The sum of the ranks' gradient of {variable!r}"
    text = f"{what} seen not to be finite came from {whose}, {since}."
    if not own:
        text = f"{sums} overflowed {since}, though each was finite."
    return FirstNotFinite(tuple(own), text)
