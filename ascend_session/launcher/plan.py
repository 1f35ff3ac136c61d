"""The plan of a launch: what would be started, decided without starting any of it.

Nothing is written and no rank is started. ``npu-smi`` runs only where ranks are to be near their
devices or a rule depends on the product, and a port is bound for a moment where a free one is
needed for a chief. On node 0 of several on the stub, the plan holds the coordinator's port until
`Plan.held_port` is closed.
"""

import contextlib
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ascend_session.backends import backend_class, choose
from ascend_session.cluster.job import Job
from ascend_session.errors import AscendError, ConfigError, JobError
from ascend_session.findings import ERROR, Finding
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.launcher.binding import bind
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import RankDevice, stub_device_count
from ascend_session.launcher.environment import (
    PLOG_FOLDER,
    WORK_FOLDER,
    defaults,
    for_children,
    id_of_attempt,
    new_job_id,
    own_variables,
    refuse_task,
    removed_variables,
    replaced_folders,
)
from ascend_session.launcher.nodes import Nodes, choose_devices, nodes_of
from ascend_session.launcher.rank_main import RUNNER
from ascend_session.launcher.rendezvous import Chief, find_rendezvous, hold_coordinator_port

LOGS = "ascend-logs"
"""The folder for logs, where no other is given."""


class RankPlan(NamedTuple):
    """What is started as one rank of a job, and where it runs.

    Attributes:
        rank: Its number in the job, from 0.
        local: Its number on this node, from 0.
        command: The program, by its absolute path, and its arguments.
        cwd: Working directory, absolute.
        environment: The complete environment.
        changed: The part of it that differs from the launcher's environment.
        device: Logical id of its device.
        physical: Physical id of its device; None on the stub.
        cpus: The CPUs that it may use; None means those of the launcher.
        folder: Its own folder, absolute. It, ``plog`` and ``work`` are made before the start.
        stdout: File for what it writes to standard output.
        stderr: File for what it writes to standard error.
        plog: Folder for the vendor's logs.
        work: Folder for what the vendor's stack leaves behind.
    """

    rank: int
    local: int
    command: Tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    changed: Mapping[str, str]
    device: LogicalDeviceId
    physical: Optional[PhysicalDeviceId]
    cpus: Optional[Tuple[int, ...]]
    folder: str
    stdout: str
    stderr: str
    plog: str
    work: str

    def as_dict(self, complete: bool = False) -> Dict[str, Any]:
        """Give the rank as plain values.

        Args:
            complete: Whether to add the whole environment, which may hold secrets.
        """
        values: Dict[str, Any] = {
            "rank": self.rank,
            "command": list(self.command),
            "cwd": self.cwd,
            "device_id": int(self.device),
            "physical_id": None if self.physical is None else int(self.physical),
            "cpus": None if self.cpus is None else list(self.cpus),
            "folder": self.folder,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "plog": self.plog,
            "work": self.work,
            "changed": dict(self.changed),
        }
        return {**values, "environment": dict(self.environment)} if complete else values


@dataclass
class Plan:
    """One attempt at a job, or as much of it as can be decided.

    With `problems`, what depends on them is empty, and there are no `ranks`.

    Attributes:
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
        chief: Where ranks without a table meet on devices, or None.
        rendezvous: Name under which this node's ranks meet on the stub; None for a job of one rank.
        stub_devices: How many devices the stub is to have; None on devices.
        cwd: The ranks' working directory, absolute; None if there is none.
        logs: The folder for the logs of all launches, absolute; None if it is not known.
        folder: The attempt's own folder, below it; the ranks' are below that.
        environment: That of the first rank; with problems, the launcher's and what the user adds.
        ranks: The ranks of this node, in order.
        shown: Those whose output is shown.
        removed: What the ranks do not inherit, each with the reason.
        notes: What the user should know, in sentences.
        bound: Where the ranks' CPUs come from, or why they have none of their own, in a few words.
        held_port: What holds the coordinator's port on node 0 of several, on the stub; to be closed
            when the job is over.
    """

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
    chief: Optional[Chief] = None
    rendezvous: Optional[str] = None
    stub_devices: Optional[int] = None
    cwd: Optional[str] = None
    logs: Optional[str] = None
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    ranks: Tuple[RankPlan, ...] = ()
    shown: Tuple[int, ...] = ()
    removed: Mapping[str, str] = field(default_factory=dict)
    notes: Tuple[str, ...] = ()
    bound: str = ""
    held_port: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def of(self, rank: int) -> RankPlan:
        """Give a rank of this node, by its number in the job."""
        return self.ranks[rank - self.first_rank]

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Add to the problems what a part of the plan refuses."""
        try:
            yield
        except AscendError as problem:
            self.problems.append(problem)

    def as_dict(self, complete: bool = False) -> Dict[str, Any]:
        """Give the plan as plain values, which JSON can hold.

        Args:
            complete: Whether each rank shows its whole environment, which may hold secrets, and
                not only what differs from the launcher's.
        """
        return {
            "backend": self.backend,
            "reason": self.reason,
            "job_id": self.job_id,
            "run": self.run,
            "attempt": self.attempt,
            "folder": self.folder,
            "size": self.size,
            "nodes": self.nodes.of,
            "node": self.nodes.number,
            "shown": list(self.shown),
            "removed": dict(self.removed),
            "notes": list(self.notes),
            "bound": self.bound,
            "coordinator": self.nodes.coordinator,
            "ports": [],  # there are none any more; the key stays for those who read it
            "ranks": [rank.as_dict(complete) for rank in self.ranks],
        }


def plan(
    config: LaunchConfig,
    environ: Mapping[str, str],
    *,
    attempt: int = 1,
    run: Optional[str] = None,
) -> Plan:
    """Make the plan of one attempt.

    Args:
        config: What the launch is asked.
        environ: The launcher's environment.
        attempt: Number of the attempt, from 1; each has a ``JOB_ID`` and a folder of its own.
        run: `Plan.run` of the first attempt; None for the first.

    Raises:
        BackendError: If the backend is not known.
        ConfigError: If output of ranks is to be shown that there are not.
        DeviceError: If the devices asked for are not there, or are no job on this product.
        JobError: If the ranks could not be one job, there is nothing to start, or the port of the
            coordinator is taken.
    """
    drafted = draft(config, environ, attempt=attempt, run=run)
    if drafted.problems:
        raise drafted.problems[0]
    return drafted


def draft(
    config: LaunchConfig,
    environ: Mapping[str, str],
    *,
    attempt: int = 1,
    run: Optional[str] = None,
) -> Plan:
    """Plan one attempt as far as that is possible, and collect all problems instead of the first.

    The arguments are those of `plan`.
    """
    drafted = Plan(attempt=attempt, environment={**environ, **config.env})
    notes: List[str] = []
    with drafted.collecting():
        drafted.backend, drafted.reason = choose(config.backend, environ)
    if drafted.backend:
        _draft_job(drafted, config, environ, notes)
    command: Tuple[str, ...] = ()
    shown: FrozenSet[int] = frozenset()
    with drafted.collecting():
        drafted.cwd = working_directory(config)
    if config.log_dir is not None:
        drafted.logs = os.path.abspath(config.log_dir)
    elif drafted.cwd is not None:
        drafted.logs = os.path.join(drafted.cwd, LOGS)
    if drafted.cwd is not None:
        with drafted.collecting():
            command = command_of(config, drafted.cwd, drafted.environment)
    if drafted.devices:
        with drafted.collecting():
            shown = parse_show(config.show, drafted.nodes.size(len(drafted.devices)))
    if not drafted.problems:
        with drafted.collecting():
            _complete(drafted, config, environ, command, run, notes)
            here = {rank.rank for rank in drafted.ranks}
            drafted.shown = tuple(sorted(shown & here))
    return drafted


def _draft_job(
    drafted: Plan, config: LaunchConfig, environ: Mapping[str, str], notes: List[str]
) -> None:
    """Decide on nodes, devices, and how the ranks find each other."""
    backend, together = drafted.backend, drafted.environment
    is_node_known = False
    with drafted.collecting():
        drafted.nodes = nodes_of(config, backend, together)
        is_node_known = True
    nodes = drafted.nodes
    notes += nodes.notes
    with drafted.collecting():
        drafted.devices = choose_devices(config, backend, nodes, environ, notes)
    here = len(drafted.devices)
    drafted.first_rank = nodes.first_rank(here)
    if is_node_known:
        drafted.size = nodes.size(here)
    if drafted.devices:
        with drafted.collecting():
            refuse_task(together, nodes.size(here))
    if drafted.devices or config.rank_table is not None:
        with drafted.collecting():
            drafted.rank_table, drafted.chief = find_rendezvous(
                config, backend, drafted.devices, together, nodes, notes
            )


def _complete(
    drafted: Plan,
    config: LaunchConfig,
    environ: Mapping[str, str],
    command: Tuple[str, ...],
    run: Optional[str],
    notes: Sequence[str],
) -> None:
    """Decide what is left of a plan without problems: what each rank gets."""
    nodes, here = drafted.nodes, len(drafted.devices)
    bound = bind(config.bind, [device.physical for device in drafted.devices], environ)
    drafted.bound = bound.said
    given = config.job_id
    id_of_job = id_of_attempt(given, drafted.attempt) if given else nodes.job_id
    drafted.job_id = id_of_job or new_job_id()
    if backend_class(drafted.backend).needs_rendezvous:
        drafted.stub_devices = stub_device_count(environ, here)
        drafted.rendezvous = os.urandom(16).hex() if drafted.size > 1 else None
        drafted.held_port = hold_coordinator_port(nodes)
    try:
        _add_ranks(drafted, config, environ, command, bound.cpus, run)
        place = [nodes.described(here)] if nodes.of > 1 else []
        folders = replaced_folders(environ, config.env)
        drafted.notes = tuple(dict.fromkeys([*place, *notes, *bound.notes, *folders]))
        if config.stall_timeout is not None:
            from ascend_session.launcher.stall import stall_notes

            drafted.notes += tuple(stall_notes(config.stall_timeout, drafted))
    except BaseException:
        drafted.held_port.close()
        raise


def _add_ranks(
    drafted: Plan,
    config: LaunchConfig,
    environ: Mapping[str, str],
    command: Tuple[str, ...],
    cpus: Sequence[Optional[Tuple[int, ...]]],
    run: Optional[str],
) -> None:
    assert drafted.cwd is not None
    assert drafted.logs is not None
    # Launchers on several nodes may write to the same file server.
    node = f".node_{drafted.nodes.number}" if drafted.nodes.of > 1 else ""
    drafted.run = run or _new_folder(drafted.logs, drafted.job_id + node)
    drafted.folder = os.path.join(drafted.logs, drafted.run, f"attempt_{drafted.attempt}")
    first_own = own_variables(drafted, 0)
    drafted.removed = removed_variables(environ, first_own, config.env)
    kept = {name: value for name, value in environ.items() if name not in drafted.removed}
    ranks = []
    for local, device in enumerate(drafted.devices):
        number = drafted.first_rank + local
        folder = os.path.join(drafted.folder, f"rank_{number}")
        own = own_variables(drafted, local)
        environment = {**kept, **defaults(folder), **config.env, **own}
        if config.program is not None and backend_class(drafted.backend).replaces_vendor:
            environment.update(for_children(environment))
        ranks.append(
            RankPlan(
                rank=number,
                local=local,
                command=command,
                cwd=drafted.cwd,
                environment=environment,
                changed={n: v for n, v in sorted(environment.items()) if environ.get(n) != v},
                device=device.logical,
                physical=device.physical,
                cpus=cpus[local],
                folder=folder,
                stdout=os.path.join(folder, "stdout.log"),
                stderr=os.path.join(folder, "stderr.log"),
                plog=os.path.join(folder, PLOG_FOLDER),
                work=os.path.join(folder, WORK_FOLDER),
            )
        )
    # What all ranks have in their environment can agree with one of them by chance, not with two.
    for rank in (ranks[0], ranks[-1]):
        _check_rank(drafted.backend, rank.environment)
    drafted.ranks = tuple(ranks)
    drafted.environment = ranks[0].environment


def _check_rank(backend: str, environment: Mapping[str, str]) -> None:
    """Refuse what a rank would refuse, before anything is started."""
    job = Job.detect(environment)
    if backend_class(backend).needs_rank_table:
        from ascend_session.backends.npu_job import check_job

        check_job(job, environment)


def _new_folder(logs: str, job_id: str) -> str:
    """Find a name that no earlier launch with this ``JOB_ID`` has taken.

    What such a launch left would be lost, and its failure be taken for one of this launch.
    """
    name, number = job_id, 1
    while os.path.lexists(os.path.join(logs, name)):
        number += 1
        name = f"{job_id}.{number}"  # no JOB_ID has a dot in it
    return name


def working_directory(config: LaunchConfig) -> str:
    """Give the absolute path of the folder in which the ranks run.

    Raises:
        JobError: If there is no such folder.
    """
    try:
        folder = os.path.abspath(config.cwd or os.curdir)
    except FileNotFoundError:
        raise JobError(
            "The folder from which this was launched is not there any more.",
            hint="Go to another one, and launch again.",
        ) from None
    if not os.path.isdir(folder):
        raise JobError(f"cwd={config.cwd!r}: there is no folder {folder}.", hint="Make it first.")
    return folder


def command_of(config: LaunchConfig, folder: str, environ: Mapping[str, str]) -> Tuple[str, ...]:
    """Give the words of the command; the first is the absolute path of a program.

    Args:
        config: What the launch is asked.
        folder: Working directory of the ranks; relative paths count from there.
        environ: The environment of the ranks, for ``PATH``.

    Raises:
        JobError: If the script or the program is not there.
    """
    if config.program is not None:
        return (_program("program", config.program, folder, environ), *config.args)
    python = _python(config, folder, environ)
    if config.module is not None:
        return (python, RUNNER, "-m", config.module, *config.args)
    script = str(config.script)
    path = os.path.join(folder, script)
    if not os.path.exists(path):
        raise JobError(
            f"The script {script!r} was to be launched: there is no file {path}.",
            hint="Give its path from the ranks' working directory, or an absolute one.",
        )
    # A script called -m would be taken for a module.
    path_argument = os.path.join(os.curdir, script) if script.startswith("-") else script
    return (python, RUNNER, path_argument, *config.args)


def _python(config: LaunchConfig, folder: str, environ: Mapping[str, str]) -> str:
    if config.python is not None:
        return _program("python", config.python, folder, environ)
    if not sys.executable:
        raise JobError("This Python does not know its own program.", hint="Give python.")
    return sys.executable


def _program(option: str, name: str, folder: str, environ: Mapping[str, str]) -> str:
    """Find a program that is named as in a shell; give its absolute path."""
    if os.path.dirname(name):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        reason = f"{path} is no file that this user may run"
    else:
        searched = environ.get("PATH") or os.defpath
        places = os.pathsep.join(os.path.join(folder, place) for place in searched.split(":"))
        path = shutil.which(name, path=places) or ""
        if path:
            return path
        reason = f"no folder of PATH={searched!r} has it"
    raise JobError(f"{option}={name!r}: {reason}.", hint="Give an absolute path.")


_SHOW_EXAMPLE = 'Write all, none, or ranks from 0 as in "0,4-7".'
_SHOW_PART = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


def parse_show(text: str, size: int) -> FrozenSet[int]:
    """Parse which ranks are shown, as in ``--show 0,4-7``.

    Blanks around commas and repeated ranks do not matter.

    Args:
        text: ``all``, ``none``, or ranks and ranges of them.
        size: Number of ranks in the job.

    Raises:
        ConfigError: If it is none of these, or names a rank that the job does not have.
    """
    if text == "all":
        return frozenset(range(size))
    if text == "none":
        return frozenset()
    ranks: Set[int] = set()
    for part in text.split(","):
        match = _SHOW_PART.fullmatch(part.strip())
        if match is None:
            raise _refusal(
                text, f"{part.strip()!r} is neither a rank nor a range of them", _SHOW_EXAMPLE
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            reason = f"the range {part.strip()} ends before it begins"
            raise _refusal(text, reason, f"Write {last}-{first}.")
        if last >= size:
            reason = f"there is no rank {last}, the job has {size}"
            raise _refusal(text, reason, f"Its ranks are 0 to {size - 1}.")
        ranks.update(range(first, last + 1))
    return frozenset(ranks)


def _refusal(text: str, reason: str, hint: str) -> ConfigError:
    return ConfigError.of([Finding(ERROR, f"show={text!r}: {reason}.", hint, option="show")])
