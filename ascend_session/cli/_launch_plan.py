"""How a plan is drawn for ``--dry-run``: what all ranks share, then a block for each rank."""

import shlex
from typing import TYPE_CHECKING, Dict, Iterator, List, Tuple

from ascend_session.cli._flags import with_flags
from ascend_session.cli._launch_summary import rank_list

if TYPE_CHECKING:
    from ascend_session.launcher.plan import Plan, RankPlan

__all__ = ["plan_text"]


def plan_text(plan: "Plan") -> str:
    """The plan in lines; variables and commands as a shell takes them."""
    shared = _shared(plan)
    lines = [f"{label:<10}{text}" for label, text in _facts(plan)]
    lines += ["", "In every rank's environment"] if shared else []
    lines += [f"  {_assigned(name, value)}" for name, value in shared.items()]
    for rank in plan.ranks:
        own = [pair for pair in rank.changed.items() if pair[0] not in shared]
        lines += ["", _headline(rank), *(f"  {_assigned(*pair)}" for pair in own)]
        lines += [f"  > {rank.stdout}", f"  2> {rank.stderr}"]
    if plan.removed:
        lines += ["", "Not inherited by the ranks"]
        lines += [f"  {name}: {why}" for name, why in plan.removed.items()]
    return "\n".join(lines)


def _facts(plan: "Plan") -> Iterator[Tuple[str, str]]:
    first = plan.ranks[0]
    count = len(plan.ranks)
    yield "Ranks", f"{count} on {plan.backend}: {plan.reason}"
    # All ranks of a job run the same.
    yield "Command", " ".join(map(shlex.quote, first.command))
    yield "Folder", first.cwd
    yield "JOB_ID", plan.job_id
    yield "CPUs", with_flags(plan.bound)
    if plan.nodes.of > 1:
        yield "Node", f"{plan.nodes.number} of {plan.nodes.of}; {plan.size} ranks in all"
    yield "Logs", plan.folder
    shown = "all" if len(plan.shown) == count else rank_list(plan.shown) or "none"
    yield "Shown", f"{shown}{'' if shown in ('all', 'none') else f' of 0-{count - 1}'}"


def _shared(plan: "Plan") -> Dict[str, str]:
    """The changed variables that are the same in all ranks."""
    others: List[RankPlan] = list(plan.ranks[1:])
    return {
        name: value
        for name, value in plan.ranks[0].changed.items()
        if others and all(rank.changed.get(name) == value for rank in others)
    }


def _headline(rank: "RankPlan") -> str:
    node = "" if rank.physical is None else f" (/dev/davinci{int(rank.physical)})"
    cpus = "" if rank.cpus is None else f", CPUs {rank_list(rank.cpus)}"
    return f"Rank {rank.rank} on device {int(rank.device)}{node}{cpus}"


def _assigned(name: str, value: str) -> str:
    return f"{name}={shlex.quote(value)}"
