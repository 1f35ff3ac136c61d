"""Which rank's gradients were the first that were not finite, if a job fails because of such.

One step later the sum has made the variables of all ranks NaN, and whoever looks first fails.
"""

import re
from typing import List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.failures.record import ErrorRecord
from ascend_session.launcher.job.reports import NotFinite
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.text import format_ranges

# What TensorFlow says: NanTensorHook, check_numerics, verify_tensor_all_finite, and scripts.
_NAMES = re.compile(r"\b(NaN|Inf)\b|NanLoss|not finite|non-finite|infinite", re.IGNORECASE)


class FirstNotFinite(NamedTuple):
    """The first gradients that were not finite.

    Attributes:
        ranks: Whose they were; empty if only the sum overflowed.
        sentence: What is known of it.
    """

    ranks: Tuple[int, ...]
    sentence: str


def is_about_numbers(error: Optional[ErrorRecord]) -> bool:
    """Return whether an exception is about numbers that are not finite."""
    return error is not None and _NAMES.search(f"{error.name} {error.message}") is not None


def find_first(reports: Mapping[int, NotFinite]) -> Optional[FirstNotFinite]:
    """Find who brought the first gradients that were not finite; None if no rank reported any."""
    if not reports:
        return None
    step = min(report.step for report in reports.values())
    first = {rank: report for rank, report in reports.items() if report.step == step}
    own = sorted(rank for rank, report in first.items() if report.is_own)
    variable = first[own[0] if own else min(first)].variable
    since = f"in step {step} since the start"
    whose = f"rank{'' if len(own) == 1 else 's'} {format_ranges(own, ',')}"
    what, sums = "The first numbers of a reduction that were", "The sum of the ranks' numbers"
    if variable:
        what = f"The first gradient of {variable!r} that was"
        sums = f"The sum of the ranks' gradient of {variable!r}"
    text = f"{what} seen not to be finite came from {whose}, {since}."
    if not own:
        text = f"{sums} overflowed {since}, though each was finite."
    return FirstNotFinite(tuple(own), text)


def raised_alike(failed: List[LaunchRank], size: int) -> Optional[ErrorRecord]:
    """Return the exception that all ranks of a job have raised; None if they did not."""
    errors = [rank.error for rank in failed]
    first = errors[0] if errors else None
    if first is None or len(errors) != size or size == 1 or first.type == "SystemExit":
        return None
    same = all(
        each is not None
        and (each.type, each.message) == (first.type, first.message)
        and each.failed_rank is None
        for each in errors
    )
    return first if same and not first.is_termination else None
