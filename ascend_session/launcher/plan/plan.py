"""The plan of a launch: what would be started, decided without starting any of it.

Nothing is written and no rank is started. ``npu-smi`` runs only where ranks are to be near their
devices or a rule depends on the product, and a port is bound for a moment where a free one is
needed for a chief.
"""

import os
import time
from dataclasses import replace
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
)

from ascend_session.backends import backend_class, choose
from ascend_session.backends.base import Backend
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import check_stall_note
from ascend_session.errors import AscendError, ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.ids import PhysicalDeviceId
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.decided import (
    AssumedDevices,
    Decisions,
    Request,
    make_absolute,
)
from ascend_session.launcher.plan.devices import (
    RankDevice,
    decide_devices,
    list_physical,
    parse_spans,
)
from ascend_session.launcher.plan.local_ranks import (
    JobFacts,
    check_task,
    decide_command,
    decide_ranks,
    decide_working_directory,
)
from ascend_session.launcher.plan.nodes import Nodes, await_table, decide_nodes
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.plan.rendezvous import Rendezvous, decide_rendezvous
from ascend_session.rank_folder import LOGS_FOLDER
from ascend_session.spelling import option
from ascend_session.witness import SET_VARIABLE


class Plan(NamedTuple):
    """One attempt at a job, decided in every detail.

    Attributes:
        config: The options of the launch.
        environ: The launcher's environment.
        backend: The class of the backend, for all ranks.
        reason: Why it is that one, in a few words.
        nodes: This node among those of the job.
        size: Number of ranks on all nodes.
        job_id: ``JOB_ID`` of this attempt.
        run: Name of the launch and of its folder, the same for all its attempts.
        attempt: Number of the attempt, from 1.
        folder: The attempt's own folder, absolute; the ranks' are below that.
        ranks: The ranks of this node, in order; what becomes of each is noted in it later.
        shown: Those whose output is shown.
        removed: Variables that the ranks do not inherit, each with the reason.
        notes: What the user should know, in sentences.
        bound: Where the ranks' CPUs come from, or why they have none of their own, in a few words.
    """

    config: LaunchConfig
    environ: Mapping[str, str]
    backend: Type[Backend]
    reason: str
    nodes: Nodes
    size: int
    job_id: str
    run: str
    attempt: int
    folder: str
    ranks: Tuple[LaunchRank, ...]
    shown: Tuple[int, ...]
    removed: Mapping[str, str]
    notes: Tuple[str, ...]
    bound: str

    def as_dict(self) -> Dict[str, Any]:
        """Convert the plan to plain values, which JSON can hold."""
        return {
            "backend": self.backend.name,
            "reason": self.reason,
            "job_id": self.job_id,
            "run": self.run,
            "attempt": self.attempt,
            "folder": self.folder,
            "size": self.size,
            "nodes": self.nodes.count,
            "node": self.nodes.rank,
            "shown": self.shown,
            "removed": self.removed,
            "notes": self.notes,
            "bound": self.bound,
            **({"set": dict(self.config.set)} if self.config.set else {}),
            "ranks": [rank.describe_plan() for rank in self.ranks],
        }


class JobDraft(NamedTuple):
    """What is decided of an attempt, each part as far as that is possible.

    Attributes:
        request: What is asked for.
        backend: The class of the backend; None if it is not known.
        devices: The device of each rank of this node, in order; empty if they are not known.
        first_rank: The first rank of this node.
        size: Number of ranks on all nodes; 0 if it is not known.
        rank_table: Absolute path of the job's rank table, or None.
        cwd: The ranks' working directory, absolute; None if there is none.
        logs: The folder for the logs of all launches, absolute; None if it is not known.
        ranks: What each rank of this node gets; empty if that is not known.
        problems: Why the job cannot be started, in the order in which a user would mend it.
        plan: The plan; None with problems.
    """

    request: Request
    backend: Optional[Type[Backend]]
    devices: Tuple[RankDevice, ...]
    first_rank: int
    size: int
    rank_table: Optional[str]
    cwd: Optional[str]
    logs: Optional[str]
    ranks: Tuple[LaunchRank, ...]
    problems: Tuple[AscendError, ...]
    plan: Optional[Plan]

    @property
    def holds_npus(self) -> bool:
        """Whether ranks hold Ascend processors of this host."""
        is_here = self.request.assumed is None
        return is_here and self.backend is not None and self.backend.holds_npus

    @property
    def physical(self) -> Tuple[PhysicalDeviceId, ...]:
        """The physical ids of the devices, without devices of another kind."""
        return list_physical(self.devices)

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of the first rank, or as much of it as is known."""
        return self.ranks[0].environment if self.ranks else self.request.job_environ


def plan_job(
    config: LaunchConfig,
    environ: Mapping[str, str],
    *,
    attempt: int = 1,
    run: Optional[str] = None,
) -> Plan:
    """Plan one attempt; the arguments are those of `decide_job`.

    Raises:
        BackendError: If the backend is not known, or ASCEND_SESSION_STUB_DEVICES is not a number.
        ConfigError: If ``show`` or ``attach`` names a rank that this job does not have.
        DeviceError: If the devices are not there, or cannot be one job on this product.
        JobError: If the ranks could not be one job, or there is nothing to start.
    """
    draft = decide_job(config, environ, attempt=attempt, run=run)
    if draft.plan is None:
        raise draft.problems[0]
    return draft.plan


def _inherit_overlay(config: LaunchConfig, environ: Mapping[str, str]) -> LaunchConfig:
    """Return a launch with the options that the launcher's environment sets, if it sets none.

    Raises:
        ConfigError: If the ranks could not read them.
    """
    if config.set or not environ.get(SET_VARIABLE):
        return config
    from ascend_session.config.overlay import read_overlay

    return replace(config, set=read_overlay(environ))


def decide_job(
    config: LaunchConfig,
    environ: Mapping[str, str],
    *,
    attempt: int = 1,
    run: Optional[str] = None,
    on_wait: Optional[Callable[[str], None]] = None,
    assumed: Optional[AssumedDevices] = None,
) -> JobDraft:
    """Make all decisions about one attempt, and its `Plan` if none of them reports a problem.

    Args:
        config: The options of the launch.
        environ: The launcher's environment.
        attempt: Number of the attempt, from 1; each has a ``JOB_ID`` and a folder of its own.
        run: `Plan.run` of the first attempt; None for the first.
        on_wait: Takes a sentence about a rank table that is waited for; None means not to wait.
        assumed: The devices of another machine to plan for; None for this one.

    Raises:
        PreflightError: If the rank table is not completed in time.
    """
    config = _inherit_overlay(config, environ)
    request = Request(config, environ, assumed)
    decisions = Decisions()
    backend, reason = decisions.make(decide_backend, request) or (None, "")
    nodes: Optional[Nodes] = None
    if backend is not None:
        if on_wait is not None:
            await_table(request, backend, on_wait)
        nodes = decisions.make_noted(decide_nodes, request, backend)
    place = nodes or Nodes()
    job_id = make_job_id(config, place, attempt)
    devices: Tuple[RankDevice, ...] = ()
    rendezvous: Optional[Rendezvous] = None
    if backend is not None:
        devices = decisions.make_noted(decide_devices, request, backend, place) or ()
        if devices:
            decisions.make(check_task, request.job_environ, place.size(len(devices)))
        rendezvous = decisions.make_noted(
            decide_rendezvous, request, backend, place, devices, job_id
        )
    decisions.make(check_stall_note, request.job_environ)
    cwd = decisions.make(decide_working_directory, config)
    where = config.log_dir or (None if cwd is None else os.path.join(cwd, LOGS_FOLDER))
    logs = None if where is None else decisions.make(make_absolute, where)
    command = None if cwd is None else decisions.make(decide_command, request, cwd)
    own, size = place.ranks(len(devices)), place.size(len(devices))
    shown = decisions.make(decide_shown, config, size) if devices else None
    if devices and nodes is not None:
        decisions.make(check_attached, config, own, size)
    ranks: Tuple[LaunchRank, ...] = ()
    plan = None
    # Each of these is there if nothing is refused.
    if backend and rendezvous and cwd and logs and command and not decisions.problems:
        run = run or _find_new_name(logs, place, job_id)
        folder = os.path.join(logs, run, f"attempt_{attempt}")
        job = JobFacts(backend, place, devices, job_id, rendezvous, command, cwd, folder)
        local = decisions.make_noted(decide_ranks, request, job)
        if local is not None:
            ranks = local.ranks
            decisions.make(check_ranks, backend, ranks)
        if local is not None and not decisions.problems:
            notes = [*([place.describe(len(ranks))] if place.count > 1 else []), *decisions.notes]
            if config.stall_timeout is not None:
                from ascend_session.launcher.plan.stall_limits import note_short_timeout

                notes += note_short_timeout(config.stall_timeout, backend, ranks)
            plan = Plan(
                config=config,
                environ=environ,
                backend=backend,
                reason=reason,
                nodes=place,
                size=size,
                job_id=job_id,
                run=run,
                attempt=attempt,
                folder=folder,
                ranks=ranks,
                shown=tuple(rank.rank for rank in ranks if rank.rank in (shown or ())),
                removed=local.removed,
                notes=tuple(dict.fromkeys(notes)),
                bound=local.bound,
            )
    return JobDraft(
        request=request,
        backend=backend,
        devices=devices,
        first_rank=own.start,
        size=0 if nodes is None else size,
        rank_table=None if rendezvous is None else rendezvous.rank_table,
        cwd=cwd,
        logs=logs,
        ranks=ranks,
        problems=tuple(decisions.problems),
        plan=plan,
    )


def decide_backend(request: Request) -> Tuple[Type[Backend], str]:
    """Decide on the backend of all ranks, and say why it is that one in a few words.

    One that is not known is refused (BackendError).
    """
    if request.assumed is not None and request.config.backend == "auto":
        return backend_class("npu"), f"{request.assumed} are assumed"
    choice = choose(request.config.backend, request.environ)
    return backend_class(choice.name), choice.reason


def make_job_id(config: LaunchConfig, nodes: Nodes, attempt: int) -> str:
    """Give the ``JOB_ID`` of an attempt, which begins with the time if nobody else names it."""
    if config.job_id:
        return config.job_id if attempt == 1 else f"{config.job_id}_{attempt}"
    made_up = f"job_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}"
    return nodes.job_id or made_up


def _find_new_name(logs: str, nodes: Nodes, job_id: str) -> str:
    """Find a name for a launch that no earlier one with this ``JOB_ID`` has taken.

    What such a launch left would be lost, and its failure be taken for one of this launch.
    """
    # Launchers on several nodes may write to the same file server.
    first = f"{job_id}.node_{nodes.rank}" if nodes.count > 1 else job_id
    name, number = first, 1
    while os.path.lexists(os.path.join(logs, name)):
        number += 1
        name = f"{first}.{number}"  # no JOB_ID has a dot in it
    return name


def check_ranks(backend: Type[Backend], ranks: Sequence[LaunchRank]) -> None:
    """Refuse what a rank would refuse, before anything is started."""
    first, last = ranks[0], ranks[-1]
    job = Job.detect(last.environment)
    if job.identity.scheduler is not None:
        # Its variables are the same for all ranks, so they can fit one by chance, but not two.
        Job.detect(first.environment)
    if backend.needs_rank_table:
        from ascend_session.backends.npu_job import check_job

        check_job(job, last.environment)


def check_attached(config: LaunchConfig, own: range, size: int) -> None:
    """Refuse to attach a rank that the job does not have on this node (ConfigError).

    Args:
        config: The options of the launch.
        own: The ranks of this node.
        size: Number of ranks on all nodes.
    """
    rank = config.attach
    if rank is None or rank in own:
        return
    flag = option("attach", rank)
    problem = Finding(
        ERROR,
        f"{flag}: there is no rank {rank}, the job has {size}.",
        f"Its ranks are 0 to {size - 1}.",
        option="attach",
    )
    if rank < size:
        message = f"{flag}: rank {rank} runs on another node; this one has {own[0]} to {own[-1]}."
        problem = Finding(ERROR, message, f"Give {option('attach')} there.", option="attach")
    raise ConfigError.from_problems([problem])


def decide_shown(config: LaunchConfig, size: int) -> FrozenSet[int]:
    """Decide whose output is shown, as in ``--show 0,4-7``.

    Blanks around commas and repeated ranks do not matter. A text of another kind is refused, and a
    rank that the job does not have (ConfigError).

    Args:
        config: The options of the launch; a rank that is attached shows itself.
        size: Number of ranks in the job.
    """
    text = config.show if config.attach is None else "none"
    if text in ("all", "none"):
        return frozenset(range(size if text == "all" else 0))
    try:
        spans = parse_spans(text, "a rank", digits=7)
        for _, last in spans:
            if last >= size:
                fault = f"there is no rank {last}, the job has {size}"
                raise ValueError(fault, f"Its ranks are 0 to {size - 1}.")
    except ValueError as error:
        fault, hint = error.args
        hint = hint or 'Write all, none, or ranks from 0 as in "0,4-7".'
        problem = Finding(ERROR, f"{option('show', text)}: {fault}.", hint, option="show")
        raise ConfigError.from_problems([problem]) from None
    return frozenset(rank for first, last in spans for rank in range(first, last + 1))
