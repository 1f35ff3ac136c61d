"""The plan of a launch: what would be started, decided without starting any of it.

Nothing is written and no rank is started. ``npu-smi`` runs only where ranks are to be near their
devices or a rule depends on the product, and a port is bound for a moment where a free one is
needed for a chief.
"""

import os
import shlex
import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
)

from ascend_session.backends import backend_class, choose
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import check_stall_note
from ascend_session.errors import AscendError, ConfigError, JobError
from ascend_session.findings import ERROR, Finding
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import RankDevice, bind_ranks, choose_devices, parse_spans
from ascend_session.launcher.environment import (
    PLOG_FOLDER,
    WORK_FOLDER,
    rank_environments,
    refuse_task,
)
from ascend_session.launcher.nodes import (
    Nodes,
    await_table,
    find_nodes,
)
from ascend_session.launcher.rank_main import RUNNER
from ascend_session.spelling import option

_T = TypeVar("_T")

LOGS = "ascend-logs"
"""The folder for logs, where no other is given."""


class RankPlan(NamedTuple):
    """What is started as one rank of a job, and where it runs.

    Attributes:
        rank: Its number in the job, from 0.
        command: The program, by its absolute path, and its arguments.
        cwd: Working directory, absolute.
        device_id: Logical id of its device.
        physical_id: The N of its ``/dev/davinci<N>``; None for a device of another kind.
        cpus: The CPUs that it may use; None means those of the launcher.
        folder: Its own folder, absolute. It, ``plog`` and ``work`` are made before the start.
        stdout: File for its standard output.
        stderr: File for its standard error.
        plog: Folder for the vendor's logs.
        work: Folder for what the vendor's stack leaves behind.
        changed: The part of the environment that differs from the launcher's.
        environment: The complete environment, which may hold secrets.
    """

    rank: int
    command: Tuple[str, ...]
    cwd: str
    device_id: LogicalDeviceId
    physical_id: Optional[PhysicalDeviceId]
    cpus: Optional[Tuple[int, ...]]
    folder: str
    stdout: str
    stderr: str
    plog: str
    work: str
    changed: Mapping[str, str]
    environment: Mapping[str, str]

    def as_dict(self) -> Dict[str, Any]:
        """Convert the rank to plain values, without its whole environment."""
        values = dict(self._asdict())
        del values["environment"]
        return values


@dataclass
class Plan:
    """One attempt at a job, or as much of it as can be decided.

    With `problems`, what depends on them is empty, and there are no `ranks`.

    Attributes:
        config: The options of the launch.
        environ: The launcher's environment.
        problems: Why the job cannot be started, in the order in which a user would mend it.
        backend: ``npu`` or ``stub``, for all ranks; empty if it is not known.
        reason: Why it is that one, in a few words.
        job_id: ``JOB_ID`` of this attempt.
        run: Name of the launch and of its folder, the same for all its attempts.
        attempt: Number of the attempt, from 1.
        nodes: This node among those of the job.
        devices: The device of each rank of this node, in order; empty if they are not known.
        first_rank: The first rank of this node.
        size: Number of ranks on all nodes; 0 if it is not known.
        rank_table: Absolute path of the job's rank table, or None.
        chief: Variables of ranks that meet on devices without a table; empty for all others.
        rendezvous: Name under which this node's ranks meet on the stub; None for a job of one rank.
        cwd: The ranks' working directory, absolute; None if there is none.
        logs: The folder for the logs of all launches, absolute; None if it is not known.
        folder: The attempt's own folder, below it; the ranks' are below that.
        environment: That of the first rank; with problems, the launcher's and what the user adds.
        ranks: The ranks of this node, in order.
        shown: Those whose output is shown.
        removed: Variables that the ranks do not inherit, each with the reason.
        notes: What the user should know, in sentences.
        bound: Where the ranks' CPUs come from, or why they have none of their own, in a few words.
    """

    config: LaunchConfig
    environ: Mapping[str, str]
    problems: List[AscendError] = field(default_factory=list)
    backend: str = ""
    reason: str = ""
    job_id: str = ""
    run: str = ""
    attempt: int = 1
    nodes: Nodes = field(default_factory=Nodes)
    devices: Tuple[RankDevice, ...] = ()
    first_rank: int = 0
    size: int = 0
    rank_table: Optional[str] = None
    chief: Mapping[str, str] = field(default_factory=dict)
    rendezvous: Optional[str] = None
    cwd: Optional[str] = None
    logs: Optional[str] = None
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    ranks: Tuple[RankPlan, ...] = ()
    shown: Tuple[int, ...] = ()
    removed: Mapping[str, str] = field(default_factory=dict)
    notes: Tuple[str, ...] = ()
    bound: str = ""

    @property
    def physical(self) -> Tuple[PhysicalDeviceId, ...]:
        """The physical ids of the devices, without devices of another kind."""
        ids = (device.physical for device in self.devices)
        return tuple(number for number in ids if number is not None)

    def of(self, rank: int) -> RankPlan:
        """Return a rank of this node, by its number in the job."""
        return self.ranks[rank - self.first_rank]

    def collect(self, decide: Callable[..., _T], *arguments: Any) -> Optional[_T]:
        """Decide on a part of the plan; add what refuses it to the problems, and return None."""
        try:
            return decide(*arguments)
        except AscendError as problem:
            self.problems.append(problem)
            return None

    def as_dict(self) -> Dict[str, Any]:
        """Convert the plan to plain values, which JSON can hold."""
        return {
            "backend": self.backend,
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
            "ranks": [rank.as_dict() for rank in self.ranks],
        }


def make_plan(
    config: LaunchConfig,
    environ: Mapping[str, str],
    *,
    attempt: int = 1,
    run: Optional[str] = None,
) -> Plan:
    """Plan one attempt.

    Args:
        config: The options of the launch.
        environ: The launcher's environment.
        attempt: Number of the attempt, from 1; each has a ``JOB_ID`` and a folder of its own.
        run: `Plan.run` of the first attempt; None for the first.

    Raises:
        BackendError: If the backend is not known, or ASCEND_SESSION_STUB_DEVICES is not a number.
        ConfigError: If output of ranks is to be shown that there are not.
        DeviceError: If the devices are not there, or cannot be one job on this product.
        JobError: If the ranks could not be one job, or there is nothing to start.
    """
    plan = draft_plan(config, environ, attempt=attempt, run=run)
    if plan.problems:
        raise plan.problems[0]
    return plan


def draft_plan(
    config: LaunchConfig,
    environ: Mapping[str, str],
    *,
    attempt: int = 1,
    run: Optional[str] = None,
    on_wait: Optional[Callable[[str], None]] = None,
) -> Plan:
    """Plan one attempt as far as that is possible, and collect all problems instead of the first.

    The arguments are those of `make_plan`, and ``on_wait``, which takes a sentence about a rank
    table that is waited for; None means not to wait.

    Raises:
        PreflightError: If the rank table is not completed in time.
    """
    plan = Plan(config, environ, attempt=attempt, environment={**environ, **config.env})
    choice = plan.collect(choose, config.backend, environ)
    if choice is not None:
        plan.backend, plan.reason = choice.name, choice.reason
        if on_wait is not None:
            await_table(plan, on_wait)
        _draft_job(plan)
    plan.collect(check_stall_note, plan.environment)
    plan.cwd = plan.collect(_find_working_directory, config)
    if config.log_dir is not None:
        plan.logs = os.path.abspath(config.log_dir)
    elif plan.cwd is not None:
        plan.logs = os.path.join(plan.cwd, LOGS)
    command = shown = None
    if plan.cwd is not None:
        command = plan.collect(_find_command, config, plan.cwd, plan.environment)
    if plan.devices:
        shown = plan.collect(parse_show, config.show, plan.size or len(plan.devices))
    if not plan.problems:
        assert command is not None
        assert shown is not None
        plan.collect(_complete, plan, command, run)
        plan.shown = tuple(rank.rank for rank in plan.ranks if rank.rank in shown)
    return plan


def _draft_job(plan: Plan) -> None:
    """Decide on nodes, devices, and how the ranks find each other."""
    nodes = plan.collect(find_nodes, plan)
    plan.nodes = nodes or plan.nodes
    plan.devices = plan.collect(choose_devices, plan) or ()
    local_size = len(plan.devices)
    plan.first_rank = plan.nodes.first_rank(local_size)
    size = plan.nodes.size(local_size)
    if nodes is not None:
        plan.size = size
    if plan.devices:
        plan.collect(refuse_task, plan.environment, size)
    config = plan.config
    needs_rank_table = backend_class(plan.backend).needs_rank_table
    has_to_meet = config.no_rank_table or (needs_rank_table and size > 1)
    if config.rank_table is not None or (plan.devices and has_to_meet):
        from ascend_session.launcher.rendezvous import find_rendezvous  # the stub needs none

        plan.collect(find_rendezvous, plan)


def _complete(plan: Plan, command: Tuple[str, ...], run: Optional[str]) -> None:
    """Decide what is left of a plan without problems: what each rank gets."""
    config, environ, nodes = plan.config, plan.environ, plan.nodes
    local_size = len(plan.devices)
    cpus = bind_ranks(plan)
    plan.job_id = config.job_id or nodes.job_id or _make_job_id()
    if config.job_id and plan.attempt > 1:
        plan.job_id = f"{config.job_id}_{plan.attempt}"
    if backend_class(plan.backend).needs_rendezvous:
        # Launchers on several nodes know nothing of each other but the job.
        name = f"nodes_of_{plan.job_id}" if nodes.count > 1 else os.urandom(16).hex()
        plan.rendezvous = name if plan.size > 1 else None
    assert plan.logs is not None
    assert plan.cwd is not None
    # Launchers on several nodes may write to the same file server.
    node = f".node_{nodes.rank}" if nodes.count > 1 else ""
    plan.run = run or _find_new_name(plan.logs, plan.job_id + node)
    plan.folder = os.path.join(plan.logs, plan.run, f"attempt_{plan.attempt}")
    numbers = range(plan.first_rank, plan.first_rank + local_size)
    folders = [os.path.join(plan.folder, f"rank_{rank}") for rank in numbers]
    environments = rank_environments(plan, folders, cpus)
    plan.ranks = tuple(
        RankPlan(
            rank=rank,
            command=command,
            cwd=plan.cwd,
            device_id=device.logical,
            physical_id=device.physical,
            cpus=own_cpus,
            folder=folder,
            stdout=os.path.join(folder, "stdout.log"),
            stderr=os.path.join(folder, "stderr.log"),
            plog=os.path.join(folder, PLOG_FOLDER),
            work=os.path.join(folder, WORK_FOLDER),
            changed={n: v for n, v in sorted(environment.items()) if environ.get(n) != v},
            environment=environment,
        )
        for rank, device, own_cpus, folder, environment in zip(
            numbers, plan.devices, cpus, folders, environments
        )
    )
    plan.environment = environments[0]
    _check_ranks(plan)
    place = [nodes.describe(local_size)] if nodes.count > 1 else []
    plan.notes = tuple(dict.fromkeys([*place, *plan.notes]))
    if config.stall_timeout is not None:
        from ascend_session.launcher.stall import note_short_timeout

        plan.notes += tuple(note_short_timeout(config.stall_timeout, plan))


def _make_job_id() -> str:
    """Make up a legal ``JOB_ID`` that begins with the local time and that no other launch has."""
    return f"job_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}"


def _check_ranks(plan: Plan) -> None:
    """Refuse what a rank would refuse, before anything is started."""
    first, last = plan.ranks[0], plan.ranks[-1]
    job = Job.detect(last.environment)
    if job.identity.scheduler is not None:
        # It says the same to all ranks, which can agree with one of them by chance, not with two.
        Job.detect(first.environment)
    if backend_class(plan.backend).needs_rank_table:
        from ascend_session.backends.npu_job import check_job

        check_job(job, last.environment)


def _find_new_name(logs: str, job_id: str) -> str:
    """Find a name that no earlier launch with this ``JOB_ID`` has taken.

    What such a launch left would be lost, and its failure be taken for one of this launch.
    """
    name, number = job_id, 1
    while os.path.lexists(os.path.join(logs, name)):
        number += 1
        name = f"{job_id}.{number}"  # no JOB_ID has a dot in it
    return name


def _find_working_directory(config: LaunchConfig) -> str:
    try:
        folder = os.path.abspath(config.cwd or os.curdir)
    except FileNotFoundError:
        raise JobError(
            "The working directory has been removed.",
            hint="Change to another one, and launch again.",
        ) from None
    if not os.path.isdir(folder):
        message = f"{option('cwd', config.cwd)}: there is no folder {folder}."
        raise JobError(message, hint="Make it first.")
    return folder


def _find_command(config: LaunchConfig, folder: str, environ: Mapping[str, str]) -> Tuple[str, ...]:
    """Put the command together; its first word is the absolute path of a program.

    Relative paths count from ``folder``, the working directory of the ranks.
    """
    if config.program is not None:
        return (_find_program("program", config.program, folder, environ), *config.args)
    if config.python is not None:
        python = _find_program("python", config.python, folder, environ)
    elif sys.executable:
        python = sys.executable
    else:
        raise JobError(
            "This Python does not know its own program.", hint=f"Give {option('python')}."
        )
    if config.module is not None:
        return (python, RUNNER, "-m", config.module, *config.args)
    script = str(config.script)
    path = os.path.join(folder, script)
    if not os.path.exists(path):
        raise JobError(
            f"There is no script {path}.",
            hint="Give its path from the ranks' working directory, or an absolute one.",
        )
    if script.endswith((".sh", ".bash")):
        raise JobError(
            f"{script} is a shell script, and no Python script.",
            hint=f"Write ascend-session launch -n 1 --no-python bash {shlex.quote(script)}, if it "
            "starts the ranks itself, or -n 8, if it is one of eight; in Python, give program.",
        )
    if script.startswith("-"):  # one called -m would be taken for a module
        script = os.path.join(os.curdir, script)
    return (python, RUNNER, script, *config.args)


def _find_program(role: str, name: str, folder: str, environ: Mapping[str, str]) -> str:
    """Find the absolute path of a program that is named as in a shell."""
    if os.path.dirname(name):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        reason = f"{path} does not exist or is not executable"
    else:
        searched = environ.get("PATH") or os.defpath
        places = os.pathsep.join(os.path.join(folder, place) for place in searched.split(":"))
        path = shutil.which(name, path=places) or ""
        if path:
            return path
        reason = f"no folder of PATH={searched!r} has it"
    message = f"{option(role, name)}: {reason}."
    raise JobError(message, hint="Give the path of an executable file.")


def parse_show(text: str, size: int) -> FrozenSet[int]:
    """Parse which ranks are shown, as in ``--show 0,4-7``.

    Blanks around commas and repeated ranks do not matter.

    Args:
        text: ``all``, ``none``, or ranks and ranges of them.
        size: Number of ranks in the job.

    Raises:
        ConfigError: If it is none of these, or names a rank that the job does not have.
    """
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
        raise ConfigError.of([problem]) from None
    return frozenset(rank for first, last in spans for rank in range(first, last + 1))
