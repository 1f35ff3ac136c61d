"""What is known of a job before it starts, also where no plan of it can be made.

A plan ends at the first thing that is wrong. A user wants to hear of all of them, so the parts of
the decision are then made one by one, each as far as it goes.
"""

import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.backends import choose
from ascend_session.errors import AscendError
from ascend_session.launcher.command import command_of, working_directory
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import RankDevice
from ascend_session.launcher.inherited import refuse_task
from ascend_session.launcher.meeting import meeting_of
from ascend_session.launcher.nodes import Nodes, nodes_of
from ascend_session.launcher.plan import LOGS, Plan
from ascend_session.launcher.show import parse_show
from ascend_session.launcher.table_nodes import chosen_for

__all__ = ["Intended", "intended", "of_plan"]


class Intended(NamedTuple):
    """A job, as far as it is known.

    Attributes:
        backend: ``npu`` or ``stub``; None if that could not be decided.
        devices: The device of each rank of this server, by rank; empty if they are not known.
        size: Number of ranks of the whole job; 0 if it is not known.
        rank_table: Path of its table, or None.
        logs: The folder for the logs of all launches; None if not known.
        cwd: The ranks' working directory; None if there is none.
        environ: The environment of a rank, as far as it is known.
        is_planned: Whether that is all of it, without what ranks do not inherit.
    """

    backend: Optional[str] = None
    devices: Mapping[int, RankDevice] = {}
    size: int = 0
    rank_table: Optional[str] = None
    logs: Optional[str] = None
    cwd: Optional[str] = None
    environ: Mapping[str, str] = {}
    is_planned: bool = False


def of_plan(planned: Plan) -> Intended:
    """The job of a plan."""
    first = planned.ranks[0]
    return Intended(
        backend=planned.backend,
        devices={one.rank: RankDevice(one.device, one.physical) for one in planned.ranks},
        size=planned.size,
        rank_table=first.environment.get("RANK_TABLE_FILE"),
        logs=os.path.dirname(os.path.dirname(planned.folder)),
        cwd=first.cwd,
        environ=first.environment,
        is_planned=True,
    )


def intended(
    config: LaunchConfig, environ: Mapping[str, str]
) -> Tuple[Intended, List[AscendError]]:
    """The job that a config asks for, and everything because of which it cannot be planned.

    Args:
        config: What the launch is asked.
        environ: The launcher's environment.
    """
    refusals = _Refusals()
    together: Dict[str, str] = {**environ, **config.env}
    choice = refusals.of(choose, config.backend, environ)
    backend = None if choice is None else choice.name
    nodes = None if backend is None else refusals.of(nodes_of, config, backend, together)
    known = Nodes() if nodes is None else nodes
    chosen = meeting = None
    if backend is not None:
        chosen = refusals.of(chosen_for, config, backend, known, environ)
    devices = () if chosen is None else chosen.devices
    if backend is not None and (devices or config.rank_table is not None):
        meeting = refusals.of(meeting_of, config, backend, devices, together, known)
    if devices:
        refusals.of(refuse_task, together, known.size(len(devices)))
        refusals.of(parse_show, config.show, known.size(len(devices)))
    cwd = refusals.of(working_directory, config)
    if cwd is not None:
        refusals.of(command_of, config, cwd, together)
    asked = os.path.abspath(config.log_dir) if config.log_dir else None
    found = Intended(
        backend=backend,
        devices=dict(enumerate(devices, known.first_rank(len(devices)))),
        size=0 if nodes is None else known.size(len(devices)),
        rank_table=None if meeting is None else meeting.rank_table,
        logs=asked or (None if cwd is None else os.path.join(cwd, LOGS)),
        cwd=cwd,
        environ=together,
    )
    return found, refusals.found


class _Refusals:
    """Collects what parts of a plan refuse."""

    def __init__(self) -> None:
        self.found: List[AscendError] = []

    def of(self, part: Callable[..., Any], *arguments: Any) -> Any:
        """What a part decides; None if it refuses."""
        try:
            return part(*arguments)
        except AscendError as refusal:
            self.found.append(refusal)
            return None
