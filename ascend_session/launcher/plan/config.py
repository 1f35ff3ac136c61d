"""The options of a launch, and what is wrong with them."""

import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ascend_session.backends import BACKEND_VARIABLE, STUB_DEVICES_VARIABLE
from ascend_session.cluster.variables import GRACE, INDEPENDENT, RENDEZVOUS
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.rank_folder import LAUNCHED, RANK_FOLDER
from ascend_session.spelling import as_message, option
from ascend_session.witness import RECORD_VARIABLE, SET_VARIABLE

_HIGHEST_PORT = 65520  # that CM_CHIEF_PORT may have
_LONGEST_GIVEN_ID = 128 - 8  # a later attempt adds its number

CHIEF_FAMILY = (
    "CM_CHIEF_IP",
    "CM_CHIEF_PORT",
    "CM_CHIEF_DEVICE",
    "CM_WORKER_SIZE",
    "CM_WORKER_IP",
)

_BY_RANK = f"A rank's number and device follow from {option('processes')} and {option('devices')}."
_BY_TABLE = (
    f"Give {option('rank_table')}, or {option('no_rank_table')} with {option('chief_ip')} and "
    f"{option('chief_port')}."
)

# Inherited as they are, for the launcher itself goes by them.
_KEPT = {
    "ASCEND_RT_VISIBLE_DEVICES": f"Give {option('devices')}, or export it before the launch.",
    INDEPENDENT: f"Give {option('independent')}, or export it before the launch.",
    SET_VARIABLE: f"Give {option('set')}, or export it before the launch.",
    "ASCEND_SESSION_HOST_ROOT": "Export it before the launch.",
    STUB_DEVICES_VARIABLE: f"Give {option('processes')}, or export it before the launch.",
}
SET_IN_RANKS = {
    "RANK_ID": _BY_RANK,
    "RANK_SIZE": _BY_RANK,
    "LOCAL_RANK": _BY_RANK,
    "LOCAL_SIZE": _BY_RANK,
    "ASCEND_DEVICE_ID": _BY_RANK,
    "DEVICE_ID": _BY_RANK,
    "RANK_TABLE_FILE": _BY_TABLE,
    **dict.fromkeys(CHIEF_FAMILY, _BY_TABLE),
    "JOB_ID": f"Give {option('job_id')}.",
    BACKEND_VARIABLE: f"Give {option('backend')}.",
    RANK_FOLDER: f"Give {option('log_dir')}.",
    GRACE: f"Give {option('grace')}.",
    RENDEZVOUS: "The launcher makes up a new one for each attempt.",
    LAUNCHED: _BY_RANK,
    RECORD_VARIABLE: f"Give {option('record')}.",
}
"""Those that the launcher sets itself, which ranks do not inherit."""

OWNED: Dict[str, str] = {name: as_message(hint) for name, hint in {**SET_IN_RANKS, **_KEPT}.items()}
"""Variables that nobody may give in ``env``, and what to do instead."""


@dataclass(frozen=True)
class LaunchConfig:
    """One job, or its part on this node: what to start, how often, on what, and how to end it.

    Exactly one of ``script``, ``module`` and ``program`` is given.

    Attributes:
        script: A Python script, as after ``python``.
        module: A Python module, as after ``python -m``.
        program: Any other program, a path or a name on ``PATH``.
        args: Arguments of the script, module or program.
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
        nnodes: Number of nodes, each with a launcher of its own; None means as many as the
            scheduler says that has started this launcher, else 1. All need the same ``processes``,
            unless the rank table says otherwise.
        node_rank: Number of this node, from 0, whose ranks come after those of the nodes before.
        job_id: ``JOB_ID``, letters, digits, ``-`` and ``_``; None means a new one.
        env: Variables to add to each rank's environment.
        cwd: Working directory of the ranks; None means the launcher's.
        python: The interpreter; None means the one that runs the launcher.
        log_dir: Below it each launch makes a folder of its own; None means ``ascend-logs`` in the
            ranks' working directory.
        grace: Seconds from SIGTERM to SIGKILL.
        stall_timeout: Seconds without output and CPU use after which the job counts as stalled;
            None means never.
        max_restarts: How often the whole job may be tried again, after a transient failure, an
            ambiguous one that ended the first attempt, or the death of a process that was killed by
            SIGKILL or SIGTERM.
        bind: Which CPUs a rank may use: ``auto``, those near its device, as far as the launcher may
            use them, on the stub all; ``even``, an equal part of the launcher's; ``none``, all.
        show: Whose output is shown: ``all``, ``none`` or ranks as in ``0,4-7``.
        independent: Whether each rank trains a model of its own, as in a sweep: then nothing is
            reported about models that differ.
        set: Options that all ranks get in place of what the script sets: by their paths such as
            ``"dump_config.dump_step"``, or by their keys in the NpuOptimizer entry. None leaves an
            option out.
        record: File for one JSON line per training run of rank 0, for ``ascend-session compare``;
            the other ranks write files of their own beside it, as in ``run.rank1.jsonl``. What an
            earlier launch left in them is gone. None means no such file.
        attach: The rank of this node that gets the launcher's standard streams, for a debugger or
            ``input()``. What the others write goes to their files only, Ctrl-C goes to this rank
            first, and no time limit counts as a stall. Standard input must be a terminal.
        timestamps: Whether shown lines begin with the time.
        events: File for one JSON line per event; None means no such file.
        preflight: Whether to check first what the job needs, and to start nothing if it would fail.
        wait_for_devices: Seconds to wait until no other process holds the devices; with 0 a device
            that is held is in the way.
        wait_for_table: Seconds to wait for a rank table at "initializing"; with 0 it is in the way.
            HCCL itself would wait half an hour, in silence.

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
    independent: bool = False
    set: Mapping[str, Any] = field(default_factory=dict)
    record: Optional[str] = None
    attach: Optional[int] = None
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
        problems = _find_wrong_values(self)
        is_complete = not problems
        problems += _check_args(self.args)
        problems += _check_env(self.env)
        if self.set != {}:
            from ascend_session.config.overlay import check_overlay

            try:
                object.__setattr__(self, "set", check_overlay(self.set))
            except ConfigError as error:
                problems += error.problems
        if is_complete:
            problems += _check_together(self)
        if problems:
            raise ConfigError.from_problems(problems, "the launch")


def _is_passable(value: Any) -> bool:
    """Tell whether it is a text that can be part of a path, an argument or a variable."""
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return False


def _is_text(value: Any) -> bool:
    return value != "" and _is_passable(value)


def _is_whole(least: int, most: float = math.inf) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return check


def _is_seconds(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0


_MOST = 10000  # processes; a slip of the finger must not fill the memory with plans
_TEXT = "a text that is not empty"
_SECONDS = "a number of seconds, 0 or more"
_UNPASSABLE = "Leave out NUL characters, and what the encoding of file names does not have."

# Names of options, what they may be, and that in words; None is allowed where it is the default.
_VALUES: Tuple[Tuple[Tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (
        (
            *("script", "module", "program", "rank_table", "chief_ip", "job_id"),
            *("cwd", "python", "log_dir", "events", "record"),
        ),
        _is_text,
        _TEXT,
    ),
    (("bind",), ("auto", "even", "none").__contains__, "'auto', 'even' or 'none'"),
    (("backend", "show"), _is_text, _TEXT),
    (("processes",), _is_whole(1, _MOST), f"a number of processes, 1 to {_MOST}"),
    (("chief_port",), _is_whole(1, _HIGHEST_PORT), f"a port, 1 to {_HIGHEST_PORT}"),
    (("nnodes",), _is_whole(1, _MOST), f"a number of nodes, 1 to {_MOST}"),
    (("node_rank",), _is_whole(0), "the number of a node, 0 or more"),
    (("attach",), _is_whole(0), "the number of a rank, 0 or more"),
    (("max_restarts",), _is_whole(0), "a number of restarts, 0 or more"),
    (("grace", "wait_for_devices", "wait_for_table"), _is_seconds, _SECONDS),
    (
        ("stall_timeout",),
        lambda value: _is_seconds(value) and value > 0,
        "a number of seconds above 0",
    ),
    (
        ("no_rank_table", "independent", "timestamps", "preflight"),
        lambda value: isinstance(value, bool),
        "True or False",
    ),
)


def _find_wrong_values(config: LaunchConfig) -> List[Finding]:
    problems = []
    for names, is_right, expected in _VALUES:
        for name in names:
            value = getattr(config, name)
            if value is None and getattr(LaunchConfig, name) is None:
                continue
            if not is_right(value):
                hint = (
                    f"Leave {option(name)} out for no limit." if name == "stall_timeout" else None
                )
                if is_right is _is_text and isinstance(value, str) and value:
                    hint = _UNPASSABLE
                if isinstance(value, os.PathLike):
                    hint = "Write str(path) for a path."
                problems.append(_wrong_value(name, value, expected, hint))
    return problems


def _check_args(args: Any) -> Iterator[Finding]:
    if not isinstance(args, tuple):
        yield _wrong_value("args", args, "a list of texts", 'Write ["--epochs", "3"].')
        return
    for value in args:
        if not _is_passable(value):
            hint = _UNPASSABLE if isinstance(value, str) else None
            yield _wrong_value("args", value, "a text without NUL characters in each place", hint)


def _check_env(env: Any) -> Iterator[Finding]:
    if not isinstance(env, Mapping):
        yield _wrong_value("env", env, "a mapping of names to values", 'Write {"NAME": "value"}.')
        return
    for name, value in env.items():
        if not _is_text(name) or "=" in name:
            yield _wrong_value("env", name, "a variable's name without = in each place")
        elif not _is_passable(value):
            hint = _UNPASSABLE if isinstance(value, str) else None
            yield _wrong_value("env", value, f"a text as the value of {name}", hint)
        elif name in OWNED:
            message = f"{option('env')} sets {name}, which the launcher sets or reads itself."
            yield Finding(ERROR, message, OWNED[name], option="env")


def _check_together(config: LaunchConfig) -> Iterator[Finding]:
    """Find the options that do not go together, or that say something impossible."""
    commands = [
        name for name in ("script", "module", "program") if getattr(config, name) is not None
    ]
    if len(commands) != 1:
        given = " and ".join(map(option, commands)) if commands else "none"
        names = f"{option('script')}, {option('module')} and {option('program')}"
        message = f"A launch takes exactly one of {names}; given: {given}."
        yield Finding(ERROR, message, 'Write LaunchConfig(script="train.py").', option="script")
    module = config.module
    is_path = module is not None and bool(re.search(r"/|\.py$", module))
    if module is not None and (is_path or not all(map(str.isidentifier, module.split(".")))):
        hint = f"Give a path as {option('script')}." if is_path else None
        yield _wrong_value("module", module, "a module's name, such as package.module", hint)
    if config.python is not None and config.program is not None:
        message = (
            f"{option('python', config.python)} is given, but a program is started without Python."
        )
        hint = f"Leave {option('python')} or {option('program')} out."
        yield Finding(ERROR, message, hint, option="python")
    if config.rank_table is not None and config.no_rank_table:
        table = option("rank_table", config.rank_table)
        message = f"{table} and {option('no_rank_table')} are both given."
        yield Finding(ERROR, message, "Give one of them.", option="rank_table")
    if config.attach is not None and config.show not in ("all", "none"):
        message = (
            f"{option('show', config.show)} has no effect: with {option('attach', config.attach)} "
            "only that rank is shown."
        )
        yield Finding(ERROR, message, f"Leave {option('show')} out.", option="show")
    for name in ("chief_ip", "chief_port"):
        value = getattr(config, name)
        if value is not None and not config.no_rank_table:
            message = (
                f"{option(name, value)} has no effect: only a job without a rank table has a chief."
            )
            yield Finding(ERROR, message, f"Give {option('no_rank_table')} too.", option=name)
    if config.chief_ip is not None:
        from ascend_session.cluster.machine import is_address

        if not is_address(config.chief_ip):
            yield _wrong_value("chief_ip", config.chief_ip, "an IPv4 or IPv6 address")
    fault = "" if config.job_id is None else _job_id_fault(config.job_id)
    if fault:
        message = f"{option('job_id', config.job_id)} {fault}."
        yield Finding(ERROR, message, "Leave it out to get one.", option="job_id")


def _wrong_value(name: str, value: Any, expected: str, hint: Optional[str] = None) -> Finding:
    return Finding(ERROR, f"{option(name)} takes {expected}, not {value!r}.", hint, option=name)


def _job_id_fault(text: str) -> str:
    """Say why ``text`` is no ``JOB_ID``, as the end of a sentence; empty if it is one."""
    if not re.fullmatch("[A-Za-z0-9_-]+", text):
        return "has characters other than letters, digits, - and _"
    if re.fullmatch("0[0-9]*", text):
        return "is a number that begins with 0"
    if len(text) > _LONGEST_GIVEN_ID:
        return f"has {len(text)} characters; it may have {_LONGEST_GIVEN_ID}"
    return ""
