"""What a launch is asked, and what is wrong with that: one small check per kind of value."""

import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from ascend_session.cluster.coordinator import is_address
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.launcher.binding import BINDINGS
from ascend_session.launcher.environment import HIGHEST_PORT, OWNED, job_id_fault


@dataclass(frozen=True)
class LaunchConfig:
    """One job, or its part on this node: what to start, how often, on what, and how to end it.

    Exactly one of ``script``, ``module`` and ``program`` is given.

    Attributes:
        script: A Python script, as after ``python``.
        module: A Python module, as after ``python -m``.
        program: Any other program, a path or a name on ``PATH``.
        args: What the script, module or program gets.
        processes: Number of ranks here; None means as many as there are devices to use.
        devices: Logical ids, rank 0 on the first: ``"0-3,6"`` or a list of numbers. None means the
            first ``processes`` that are visible, or all.
        backend: ``auto``, ``npu`` or ``stub``; decided once, for all ranks.
        rank_table: File that is passed on as ``RANK_TABLE_FILE``; a relative path, here and in
            ``log_dir``, counts from the launcher's working directory. Without it, and without
            ``no_rank_table``, the launcher's own ``RANK_TABLE_FILE`` counts on devices.
        no_rank_table: The ranks find each other at a chief (``CM_*``) instead of by a table.
        chief_ip: The chief's address on this server; None means that of the way out.
        chief_port: The chief's port; None means a free one.
        nnodes: Number of nodes, each with a launcher of its own; None means what the scheduler says
            that has started this one, else 1. All need the same ``processes``, unless the rank
            table says otherwise.
        node_rank: Number of this node, from 0, whose ranks come after those of the nodes before.
        coordinator: Where the ranks of several nodes meet on the stub, ``HOST:PORT``: an address
            of node 0 and a port that is free there.
        job_id: ``JOB_ID``, letters, digits, ``-`` and ``_``; None means a new one.
        env: Variables to add to each rank's environment.
        cwd: Working directory of the ranks; None means the launcher's.
        python: The interpreter; None means the one that runs the launcher.
        log_dir: Below it each launch makes a folder of its own; None means ``ascend-logs`` in the
            ranks' working directory.
        grace: Seconds from SIGTERM to SIGKILL.
        stall_timeout: Seconds without output and CPU use after which the job counts as stalled;
            None means never.
        max_restarts: How often the whole job may be tried again after a transient failure.
        bind: Which CPUs a rank may use: ``auto``, those near its device, as far as the launcher may
            use them, on the stub all; ``even``, an equal part of the launcher's; ``none``, all.
        show: Whose output is shown: ``all``, ``none`` or ranks as in ``0,4-7``.
        timestamps: Whether shown lines begin with the time.
        events: File for one JSON line per event; None means no such file.
        preflight: Whether to check first what the job needs, and to start nothing if it would fail.
        wait_for_devices: How many seconds to wait until no other process holds the devices; with 0
            a device that is held is in the way.
        wait_for_table: How many seconds to wait for a rank table at "initializing"; with 0 it is in
            the way. HCCL itself would wait half an hour, in silence.

    Raises:
        ConfigError: With everything that is wrong.
    """

    script: Optional[str] = None
    module: Optional[str] = None
    program: Optional[str] = None
    args: Sequence[str] = ()
    processes: Optional[int] = None
    devices: Union[str, Sequence[int], None] = None
    backend: str = "auto"
    rank_table: Optional[str] = None
    no_rank_table: bool = False
    chief_ip: Optional[str] = None
    chief_port: Optional[int] = None
    nnodes: Optional[int] = None
    node_rank: Optional[int] = None
    coordinator: Optional[str] = None
    job_id: Optional[str] = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Optional[str] = None
    python: Optional[str] = None
    log_dir: Optional[str] = None
    grace: float = 10
    stall_timeout: Optional[float] = None
    max_restarts: int = 0
    bind: str = "auto"
    show: str = "all"
    timestamps: bool = False
    events: Optional[str] = None
    preflight: bool = True
    wait_for_devices: float = 0
    wait_for_table: float = 300

    def __post_init__(self) -> None:
        # Copies, so that what was checked cannot be changed from outside.
        for name in ("args", "devices"):
            value: Any = getattr(self, name)
            if isinstance(value, (list, range)):
                object.__setattr__(self, name, tuple(value))
        if isinstance(self.env, Mapping):
            object.__setattr__(self, "env", dict(self.env))
        problems = list(problems_of(self))
        if problems:
            raise ConfigError.of(problems, "the launch")


_TEXTS = (
    "script",
    "module",
    "program",
    "rank_table",
    "chief_ip",
    "coordinator",
    "job_id",
    "cwd",
    "python",
    "log_dir",
    "events",
)
_MOST = 10000  # processes; a slip of the finger must not fill the memory with plans
_COMMANDS = ("script", "module", "program")


def problems_of(config: Any) -> Iterator[Finding]:
    """Yield the problems of a config, in the order of its attributes' kinds."""
    wrong = [*_texts(config), *_numbers(config), *_switches(config)]
    yield from wrong
    yield from _args(config.args)
    yield from _env(config.env)
    if not wrong:
        yield from _command(config)
        yield from _meeting(config)
        yield from _nodes(config)


def _texts(config: Any) -> Iterator[Finding]:
    for name in _TEXTS:
        value = getattr(config, name)
        if value is not None and not _is_text(value):
            hint = "Write str(path) for a path." if isinstance(value, os.PathLike) else None
            yield _problem(name, value, "a text that is not empty", hint)
    if config.bind not in BINDINGS:
        yield _problem("bind", config.bind, " or ".join(map(repr, BINDINGS)))
    for name in ("backend", "show"):
        if not _is_text(getattr(config, name)):
            yield _problem(name, getattr(config, name), "a text that is not empty")


def _numbers(config: Any) -> Iterator[Finding]:
    if config.processes is not None and not _is_whole(config.processes, 1, _MOST):
        yield _problem("processes", config.processes, f"a number of processes, 1 to {_MOST}")
    if config.chief_port is not None and not _is_whole(config.chief_port, 1, HIGHEST_PORT):
        yield _problem("chief_port", config.chief_port, f"a port, 1 to {HIGHEST_PORT}")
    if config.nnodes is not None and not _is_whole(config.nnodes, 1, _MOST):
        yield _problem("nnodes", config.nnodes, f"a number of nodes, 1 to {_MOST}")
    if config.node_rank is not None and not _is_whole(config.node_rank, 0):
        yield _problem("node_rank", config.node_rank, "the number of a node, 0 or more")
    if not _is_whole(config.max_restarts, 0):
        yield _problem("max_restarts", config.max_restarts, "a number of restarts, 0 or more")
    if not _is_seconds(config.grace):
        yield _problem("grace", config.grace, "a number of seconds, 0 or more")
    for name in ("wait_for_devices", "wait_for_table"):
        if not _is_seconds(getattr(config, name)):
            yield _problem(name, getattr(config, name), "a number of seconds, 0 or more")
    stall = config.stall_timeout
    if stall is not None and not (_is_seconds(stall) and stall > 0):
        yield _problem("stall_timeout", stall, "a number of seconds above 0", "None means never.")


def _switches(config: Any) -> Iterator[Finding]:
    for name in ("no_rank_table", "timestamps", "preflight"):
        if not isinstance(getattr(config, name), bool):
            yield _problem(name, getattr(config, name), "True or False")


def _args(args: Any) -> Iterator[Finding]:
    if not isinstance(args, tuple):
        yield _problem("args", args, "a list of texts", 'Write ["--epochs", "3"].')
        return
    for value in args:
        if not isinstance(value, str) or "\0" in value:
            yield _problem("args", value, "a text without NUL characters in each place")


def _env(env: Any) -> Iterator[Finding]:
    if not isinstance(env, Mapping):
        yield _problem("env", env, "a mapping of names to values", 'Write {"NAME": "value"}.')
        return
    for name, value in env.items():
        if not _is_text(name) or "=" in name:
            yield _problem("env", name, "a variable's name without = in each place")
        elif not isinstance(value, str) or "\0" in value:
            yield _problem("env", value, f"a text as the value of {name}")
        elif name in OWNED:
            message = f"env gives {name}, which the launcher itself sets or goes by."
            yield Finding(ERROR, message, OWNED[name], option="env")


def _command(config: Any) -> Iterator[Finding]:
    given = [name for name in _COMMANDS if getattr(config, name) is not None]
    if len(given) != 1:
        names = " and ".join(given) if given else "none"
        message = f"A launch takes exactly one of script, module and program; given: {names}."
        yield Finding(ERROR, message, 'Write LaunchConfig(script="train.py").', option="script")
    if config.module is not None and not all(
        part.isidentifier() for part in config.module.split(".")
    ):
        hint = "Give a path as script." if re.search(r"/|\.py$", config.module) else None
        yield _problem("module", config.module, "a module's name, such as package.module", hint)
    if config.python is not None and config.program is not None:
        message = f"python={config.python!r} is given, but a program is started without Python."
        yield Finding(
            ERROR, message, "Leave python out, or give script or module.", option="python"
        )


def _meeting(config: Any) -> Iterator[Finding]:
    if config.rank_table is not None and config.no_rank_table:
        message = f"rank_table={config.rank_table!r} and no_rank_table are both given."
        yield Finding(ERROR, message, "Give one of them.", option="rank_table")
    for name in ("chief_ip", "chief_port"):
        value = getattr(config, name)
        if value is not None and not config.no_rank_table:
            message = (
                f"{name}={value!r} is given, but the job has a chief only without a rank table."
            )
            yield Finding(ERROR, message, "Give no_rank_table too.", option=name)
    if config.chief_ip is not None and not is_address(config.chief_ip):
        yield _problem("chief_ip", config.chief_ip, "an IPv4 or IPv6 address")
    fault = "" if config.job_id is None else job_id_fault(config.job_id)
    if fault:
        yield Finding(
            ERROR, f"job_id={config.job_id!r} {fault}.", "Leave it out to get one.", option="job_id"
        )


def _nodes(config: Any) -> Iterator[Finding]:
    if config.node_rank is not None and config.nnodes is None:
        message = f"node_rank={config.node_rank} is given, but not how many nodes there are."
        yield Finding(ERROR, message, "Give nnodes too.", option="node_rank")
    elif config.node_rank is not None and config.node_rank >= config.nnodes:
        message = f"node_rank={config.node_rank} is none of {config.nnodes} nodes, which are "
        yield Finding(
            ERROR, f"{message}0 to {config.nnodes - 1}.", "Nodes count from 0.", option="node_rank"
        )


def _problem(name: str, value: Any, expected: str, hint: Any = None) -> Finding:
    return Finding(ERROR, f"{name} takes {expected}, not {value!r}.", hint, option=name)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_whole(value: Any, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_seconds(value: Any) -> bool:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return good and math.isfinite(value) and value >= 0
