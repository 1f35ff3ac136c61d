"""The first message to the guardian: the job."""

import functools
import os
from typing import Any, Callable, Dict

from ascend_session.launcher.job.start import GuardedRank
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.plan.stall_limits import describe_limits, note_after_s
from ascend_session.rank_folder import CHANNEL


def describe_rank(
    rank: LaunchRank, address: str = "", as_bytes: Callable[[str], bytes] = os.fsencode
) -> GuardedRank:
    """Give what the guardian has to know of a rank, and the address to which the rank reports."""
    variables = {**rank.environment, CHANNEL: address}
    return GuardedRank(
        rank=rank.rank,
        command=[as_bytes(word) for word in rank.command],
        cwd=as_bytes(rank.cwd),
        environment={as_bytes(name): as_bytes(value) for name, value in variables.items()},
        cpus=None if rank.cpus is None else list(rank.cpus),
        is_attached=rank.is_attached,
        stdout=as_bytes(rank.stdout),
        stderr=as_bytes(rank.stderr),
    )


def describe_job(plan: Plan, address: str, unfinished: str) -> Dict[str, Any]:
    """Make the message, but for the descriptor on which ranks report.

    Args:
        plan: The attempt, whose ranks are to be started; their log files are there.
        address: Where ranks report.
        unfinished: The result as it is now, for `saved.write_result_of_killed`; empty for none.

    Returns:
        What `loop.GuardedJob` takes.
    """
    # What all ranks have is one object then, which is sent once.
    as_bytes = functools.lru_cache(maxsize=None)(os.fsencode)
    timeout_s = plan.config.stall_timeout
    first = plan.ranks[0]
    limits = () if timeout_s is None else describe_limits(timeout_s, plan.backend, plan.ranks)
    return {
        "ranks": [tuple(describe_rank(rank, address, as_bytes)) for rank in plan.ranks],
        "stall": {
            "size": plan.size,
            "folder": as_bytes(plan.folder),
            "cwd": as_bytes(first.cwd),
            "timeout_s": timeout_s,
            "note_s": note_after_s(first.environment),
            "limits": tuple(limits),
        },
        "unfinished": unfinished,
        "has_pipes": plan.config.program is not None,
        "grace": plan.config.grace,
        "size": plan.size if plan.size == 1 or plan.config.program is not None else 0,
    }
