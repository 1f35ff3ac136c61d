"""The plan of a launch: what would be started, decided without starting any of it.

Nothing is written and no rank is started. ``npu-smi`` runs only where ranks are to be near their
devices or a rule depends on the product, and a port is bound for a moment where a free one is
needed for a chief.
"""

import os
import shlex
import sys
import time
from dataclasses import replace
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
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
from ascend_session.errors import AscendError, ConfigError, JobError
from ascend_session.findings import ERROR, Finding
from ascend_session.ids import PhysicalDeviceId
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.decided import (
    UNDECIDED,
    AssumedDevices,
    Decided,
    Request,
    collect_problems,
    make_absolute,
)
from ascend_session.launcher.plan.devices import (
    RankDevice,
    decide_cpus,
    decide_devices,
    list_physical,
    parse_spans,
)
from ascend_session.launcher.plan.environment import JobFacts, check_task, decide_environments
from ascend_session.launcher.plan.nodes import Nodes, await_table, decide_nodes
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.plan.rendezvous import decide_rendezvous
from ascend_session.rank_folder import (
    LOGS_FOLDER,
    PLOG_FOLDER,
    STDERR_NAME,
    STDOUT_NAME,
    WORK_FOLDER,
)
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
    decisions = decide_job(config, environ, attempt=attempt, run=run)
    if decisions.plan is None:
        raise decisions.problems[0]
    return decisions.plan


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
    chosen = decide_backend(request)
    backend = None if chosen.value is None else chosen.value.kind
    if backend is not None and on_wait is not None:
        await_table(request, backend, on_wait)
    nodes = decide_nodes(request, backend)
    node = nodes.value or Nodes()
    job_id = make_job_id(config, node, attempt)
    local = decide_devices(request, backend, node)
    devices = local.value or ()
    size = node.size(len(devices))
    task = check_task(request.job_environ, size) if devices else UNDECIDED
    rendezvous = decide_rendezvous(request, backend, node, devices, job_id)
    stall_note = _check_stall_note(request.job_environ)
    cwd = decide_working_directory(config)
    folders = decide_folders(config, cwd.value, node, job_id, attempt, run)
    command = decide_command(request, cwd.value)
    known_size = 0 if nodes.value is None else size
    attached = check_attached(config, node, len(devices), known_size)
    show = config.show if config.attach is None else "none"
    shown = decide_shown(show, (known_size or len(devices)) if devices else 0)
    decisions: List[Decided[Any]] = [chosen, nodes, local, task, rendezvous, stall_note]
    decisions += [cwd, folders, command, shown, attached]
    ranks: Tuple[LaunchRank, ...] = ()
    plan = None
    if not list_problems(decisions):
        job = JobFacts(chosen.required.kind, node, devices, job_id, rendezvous.required)
        local_ranks = decide_ranks(request, job, command.required, cwd.required, folders.required)
        decisions.append(local_ranks)
        if local_ranks.value is not None:
            ranks = local_ranks.value.ranks
            decisions.append(check_ranks(job.backend, ranks))
    problems = list_problems(decisions)
    if not problems:
        plan = Plan(
            config=config,
            environ=environ,
            backend=chosen.required.kind,
            reason=chosen.required.reason,
            nodes=node,
            size=size,
            job_id=job_id,
            run=folders.required.run,
            attempt=attempt,
            folder=folders.required.attempt,
            ranks=ranks,
            shown=tuple(rank.rank for rank in ranks if rank.rank in shown.required),
            removed=local_ranks.required.removed,
            notes=_list_notes(config, node, job.backend, ranks, decisions),
            bound=local_ranks.required.bound,
        )
    return JobDraft(
        request=request,
        backend=backend,
        devices=devices,
        first_rank=node.first_rank(len(devices)),
        size=known_size,
        rank_table=None if rendezvous.value is None else rendezvous.value.rank_table,
        cwd=cwd.value,
        logs=None if folders.value is None else folders.value.logs,
        ranks=ranks,
        problems=problems,
        plan=plan,
    )


class LocalRanks(NamedTuple):
    """What is started on this node; the attributes are those of `Plan`."""

    ranks: Tuple[LaunchRank, ...]
    removed: Mapping[str, str]
    bound: str


@collect_problems
def decide_ranks(
    request: Request, job: JobFacts, command: Tuple[str, ...], cwd: str, folders: "Folders"
) -> Decided[LocalRanks]:
    """Decide what each rank of this node gets: its CPUs, its environment and its files."""
    cpus = decide_cpus(request, job.backend, job.devices)
    own_folders = [folders.of_rank(rank) for rank in job.ranks]
    environments = decide_environments(request, job, cpus.required, own_folders)
    ranks = []
    for rank, device, folder, own_cpus, variables in zip(
        job.ranks, job.devices, own_folders, cpus.required.of_ranks, environments.required.of_ranks
    ):
        is_attached = rank == request.config.attach
        changed = {n: v for n, v in sorted(variables.items()) if request.environ.get(n) != v}
        ranks.append(
            LaunchRank(
                rank=rank,
                command=command,
                cwd=cwd,
                device_id=device.logical,
                physical_id=device.physical,
                cpus=own_cpus,
                folder=folder,
                stdout="" if is_attached else os.path.join(folder, STDOUT_NAME),
                stderr="" if is_attached else os.path.join(folder, STDERR_NAME),
                plog=os.path.join(folder, PLOG_FOLDER),
                work=os.path.join(folder, WORK_FOLDER),
                changed=changed,
                environment=variables,
                is_attached=is_attached,
            )
        )
    local = LocalRanks(tuple(ranks), environments.required.removed, cpus.required.bound)
    return Decided(local, (*cpus.notes, *environments.notes))


def _list_notes(
    config: LaunchConfig,
    nodes: Nodes,
    backend: Type[Backend],
    ranks: Sequence[LaunchRank],
    decided: Iterable[Decided[Any]],
) -> Tuple[str, ...]:
    """List what the user should know: the place among nodes, then what the decisions noted."""
    place = [nodes.describe(len(ranks))] if nodes.count > 1 else []
    notes = [*place, *(note for each in decided for note in each.notes)]
    if config.stall_timeout is not None:
        from ascend_session.launcher.plan.stall_limits import note_short_timeout

        notes += note_short_timeout(config.stall_timeout, backend, ranks)
    return tuple(dict.fromkeys(notes))


def list_problems(decided: Iterable[Decided[Any]]) -> Tuple[AscendError, ...]:
    """List why these decisions cannot be met, in their order."""
    return tuple(problem for each in decided for problem in each.problems)


class ChosenBackend(NamedTuple):
    """The backend of a job.

    Attributes:
        kind: Its class.
        reason: Why it is that one, in a few words.
    """

    kind: Type[Backend]
    reason: str


@collect_problems
def decide_backend(request: Request) -> Decided[ChosenBackend]:
    """Decide on the backend of all ranks; one that is not known is refused (BackendError)."""
    if request.assumed is not None and request.config.backend == "auto":
        return Decided(ChosenBackend(backend_class("npu"), f"{request.assumed} are assumed"))
    choice = choose(request.config.backend, request.environ)
    return Decided(ChosenBackend(backend_class(choice.name), choice.reason))


def make_job_id(config: LaunchConfig, nodes: Nodes, attempt: int) -> str:
    """Give the ``JOB_ID`` of an attempt, which begins with the time if nobody else names it."""
    if config.job_id:
        return config.job_id if attempt == 1 else f"{config.job_id}_{attempt}"
    made_up = f"job_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}"
    return nodes.job_id or made_up


@collect_problems
def _check_stall_note(environ: Mapping[str, str]) -> Decided[None]:
    check_stall_note(environ)
    return Decided()


@collect_problems
def check_ranks(backend: Type[Backend], ranks: Sequence[LaunchRank]) -> Decided[None]:
    """Refuse what a rank would refuse, before anything is started."""
    first, last = ranks[0], ranks[-1]
    job = Job.detect(last.environment)
    if job.identity.scheduler is not None:
        # Its variables are the same for all ranks, so they can fit one by chance, but not two.
        Job.detect(first.environment)
    if backend.needs_rank_table:
        from ascend_session.backends.npu_job import check_job

        check_job(job, last.environment)
    return Decided()


class Folders(NamedTuple):
    """Where an attempt writes; nothing of it is made before the start.

    Attributes:
        logs: The folder for the logs of all launches, absolute.
        run: Name of the launch's own folder, below it.
        attempt: The attempt's own folder, absolute.
    """

    logs: str
    run: str
    attempt: str

    def of_rank(self, rank: int) -> str:
        """Return a rank's own folder."""
        return os.path.join(self.attempt, f"rank_{rank}")


@collect_problems
def decide_folders(
    config: LaunchConfig,
    cwd: Optional[str],
    nodes: Nodes,
    job_id: str,
    attempt: int,
    run: Optional[str],
) -> Decided[Folders]:
    """Decide where an attempt writes.

    Args:
        config: The options of the launch.
        cwd: The ranks' working directory; None if there is none.
        nodes: This node among those of the job.
        job_id: ``JOB_ID`` of the attempt.
        attempt: Its number.
        run: `Folders.run` of the first attempt; None for the first.
    """
    if config.log_dir is not None:
        logs = make_absolute(config.log_dir)
    elif cwd is not None:
        logs = os.path.join(cwd, LOGS_FOLDER)
    else:
        return UNDECIDED
    # Launchers on several nodes may write to the same file server.
    node = f".node_{nodes.rank}" if nodes.count > 1 else ""
    run = run or _find_new_name(logs, job_id + node)
    return Decided(Folders(logs, run, os.path.join(logs, run, f"attempt_{attempt}")))


def _find_new_name(logs: str, job_id: str) -> str:
    """Find a name that no earlier launch with this ``JOB_ID`` has taken.

    What such a launch left would be lost, and its failure be taken for one of this launch.
    """
    name, number = job_id, 1
    while os.path.lexists(os.path.join(logs, name)):
        number += 1
        name = f"{job_id}.{number}"  # no JOB_ID has a dot in it
    return name


@collect_problems
def decide_working_directory(config: LaunchConfig) -> Decided[str]:
    """Decide where the ranks run, as an absolute path; a folder that is not there is refused."""
    folder = make_absolute(config.cwd or os.curdir)
    if not os.path.isdir(folder):
        message = f"{option('cwd', config.cwd)}: there is no folder {folder}."
        raise JobError(message, hint="Make it first.")
    return Decided(folder)


@collect_problems
def decide_command(request: Request, folder: Optional[str]) -> Decided[Tuple[str, ...]]:
    """Put the command of all ranks together; its first word is the absolute path of a program.

    What is not there, or cannot be run as asked, is refused (JobError). Relative paths count from
    ``folder``, the working directory of the ranks.
    """
    if folder is None:
        return UNDECIDED
    config, environ = request.config, request.job_environ
    if config.program is not None:
        return Decided((_find_program("program", config.program, folder, environ), *config.args))
    if config.python is not None:
        python = _find_program("python", config.python, folder, environ)
    elif sys.executable:
        python = sys.executable
    else:
        raise JobError(
            "This Python does not know its own program.", hint=f"Give {option('python')}."
        )
    if config.module is not None:
        return Decided((python, "-m", config.module, *config.args))
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
    return Decided((python, script, *config.args))


def _find_program(role: str, name: str, folder: str, environ: Mapping[str, str]) -> str:
    """Find the absolute path of a program that is named as in a shell."""
    if os.path.dirname(name):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        reason = f"{path} does not exist or is not executable"
    else:
        import shutil

        searched = environ.get("PATH") or os.defpath
        places = os.pathsep.join(os.path.join(folder, place) for place in searched.split(":"))
        path = shutil.which(name, path=places) or ""
        if path:
            return path
        reason = f"no folder of PATH={searched!r} has it"
    message = f"{option(role, name)}: {reason}."
    raise JobError(message, hint="Give the path of an executable file.")


@collect_problems
def check_attached(config: LaunchConfig, nodes: Nodes, local_size: int, size: int) -> Decided[None]:
    """Refuse to attach a rank that the job does not have on this node (ConfigError).

    Args:
        config: The options of the launch.
        nodes: This node among those of the job.
        local_size: Number of ranks on this node; 0 if it is not known.
        size: Number of ranks on all nodes; 0 if it is not known.
    """
    rank = config.attach
    if rank is None or not local_size or not size:
        return Decided()
    first = nodes.first_rank(local_size)
    last = first + local_size - 1
    if first <= rank <= last:
        return Decided()
    flag = option("attach", rank)
    problem = Finding(
        ERROR,
        f"{flag}: there is no rank {rank}, the job has {size}.",
        f"Its ranks are 0 to {size - 1}.",
        option="attach",
    )
    if rank < size:
        message = f"{flag}: rank {rank} runs on another node; this one has {first} to {last}."
        problem = Finding(ERROR, message, f"Give {option('attach')} there.", option="attach")
    raise ConfigError.from_problems([problem])


@collect_problems
def decide_shown(text: str, size: int) -> Decided[FrozenSet[int]]:
    """Decide whose output is shown, as in ``--show 0,4-7``.

    Blanks around commas and repeated ranks do not matter. A text of another kind is refused, and a
    rank that the job does not have (ConfigError).

    Args:
        text: ``all``, ``none``, or ranks and ranges of them.
        size: Number of ranks in the job; 0 if it is not known.
    """
    if not size:
        return UNDECIDED
    if text in ("all", "none"):
        return Decided(frozenset(range(size if text == "all" else 0)))
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
    ranks = frozenset(rank for first, last in spans for rank in range(first, last + 1))
    return Decided(ranks)
