"""``ascend-session launch``: one process per device, which end as one job."""

import contextlib
import dataclasses
import os
import shlex
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Tuple

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import complain, finding_as_dict, show_json, spell_options
from ascend_session.cli._parameters import (
    Arguments,
    Backend,
    LogDir,
    Module,
    Script,
    ScriptCommand,
    new_group,
    parse_duration,
)
from ascend_session.errors import AscendError, DeviceTimeoutError, PreflightError
from ascend_session.text import format_ranges

if TYPE_CHECKING:
    from ascend_session.launcher.config import LaunchConfig
    from ascend_session.launcher.plan import Plan, RankPlan

_Text = Optional[str]
_Number = Optional[int]
_Seconds = Optional[float]
_Processes = Annotated[
    _Number,
    typer.Option("-n", "--processes", metavar="N", help="Ranks; as many as devices if not given."),
]
_Devices = Annotated[
    _Text, typer.Option(metavar="LIST", help="Logical ids, as in 0-3,6; all visible if not given.")
]
_NoPython = Annotated[bool, typer.Option("--no-python", help="SCRIPT is any program.")]
_Table = Annotated[
    _Text, typer.Option(metavar="FILE", help="The job's rank table, which is passed on.")
]
_NoTable = Annotated[
    bool, typer.Option("--no-rank-table", help="Ranks meet at a chief instead (CM_* variables).")
]
_ChiefIp = Annotated[_Text, typer.Option(metavar="ADDRESS", help="The chief's address.")]
_ChiefPort = Annotated[
    _Number, typer.Option(metavar="PORT", help="The chief's port; a free one if not given.")
]
_Nnodes = Annotated[
    _Number, typer.Option(metavar="N", help="Nodes; what the scheduler says, or 1, if not given.")
]
_NodeRank = Annotated[_Number, typer.Option(metavar="K", help="Number of this node, from 0.")]
_Coordinator = Annotated[
    _Text,
    typer.Option(metavar="HOST:PORT", help="On node 0, where ranks of several nodes meet (stub)."),
]
_JobId = Annotated[_Text, typer.Option(metavar="ID", help="JOB_ID; new if not given.")]
_Env = Annotated[
    Optional[List[str]],
    typer.Option("--env", metavar="NAME=VALUE", help="Set a variable in the ranks; repeatable."),
]
_Cwd = Annotated[_Text, typer.Option(metavar="FOLDER", help="The ranks' folder to run in.")]
_Python = Annotated[_Text, typer.Option(metavar="PROGRAM", help="The Python that runs the ranks.")]
_Grace = Annotated[
    _Seconds, typer.Option(metavar="SECONDS", help="Time from SIGTERM to SIGKILL; 10 if not given.")
]
_Stall = Annotated[
    _Seconds,
    typer.Option(metavar="SECONDS", help="End a job that neither writes nor computes so long."),
]
_Restarts = Annotated[
    _Number,
    typer.Option(metavar="N", help="Try again so often, after failures that are known to pass."),
]
_Bind = Annotated[
    _Text, typer.Option(metavar="HOW", help="CPUs of a rank: auto (near its device), even or none.")
]
_Show = Annotated[
    _Text, typer.Option(metavar="LIST", help="Ranks to show: all, none or as in 0,4-7.")
]
_Timestamps = Annotated[bool, typer.Option("--timestamps", help="Begin lines with the time.")]
_Events = Annotated[_Text, typer.Option(metavar="FILE", help="Write what happens as JSON lines.")]
_NoPreflight = Annotated[
    bool, typer.Option("--no-preflight", help="Start without checking what the job needs.")
]
_WaitForDevices = Annotated[
    _Seconds,
    typer.Option(
        metavar="TIME",
        parser=parse_duration,
        help="Wait so long, as in 10m, until nobody holds the devices.",
    ),
]
_WaitForTable = Annotated[
    _Seconds,
    typer.Option(
        metavar="TIME",
        parser=parse_duration,
        help='Wait so long, 5m if not given, for a rank table at "initializing".',
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, and start nothing.")]

app = new_group()


@app.command("launch", cls=ScriptCommand)
def launch(
    context: typer.Context,
    what: Script,
    arguments: Arguments = None,
    processes: _Processes = None,
    devices: _Devices = None,
    backend: Backend = None,
    as_module: Module = False,
    no_python: _NoPython = False,
    rank_table: _Table = None,
    no_rank_table: _NoTable = False,
    chief_ip: _ChiefIp = None,
    chief_port: _ChiefPort = None,
    nnodes: _Nnodes = None,
    node_rank: _NodeRank = None,
    coordinator: _Coordinator = None,
    job_id: _JobId = None,
    env: _Env = None,
    cwd: _Cwd = None,
    python: _Python = None,
    log_dir: LogDir = None,
    grace: _Grace = None,
    stall_timeout: _Stall = None,
    max_restarts: _Restarts = None,
    bind: _Bind = None,
    show: _Show = None,
    timestamps: _Timestamps = False,
    events: _Events = None,
    no_preflight: _NoPreflight = False,
    wait_for_devices: _WaitForDevices = None,
    wait_for_table: _WaitForTable = None,
    as_json: _Json = False,
    dry_run: _DryRun = False,
) -> None:
    """Start a script once per device, show what all say, and end as the job ends.

    SCRIPT is a Python script; with -m it is a module, with --no-python any program. What follows
    it belongs to it, options too.

    Exit code 0 if every rank ended with 0, else that of the rank whose failure explains the
    others', 128+n for a signal; 2 for a wrong call, and 1 if host or rank table are not in
    order, with which nothing is started. With --json, the ranks' lines go to stderr.
    """
    if as_module and no_python:
        raise typer.BadParameter("it is given, and so is -m.", param_hint="--no-python")
    kind = "module" if as_module else "program" if no_python else "script"
    request = {
        **context.params,
        kind: what,
        "args": arguments or [],
        "env": _parse_variables(env or []),
        "preflight": not no_preflight,
    }
    from ascend_session.launcher.process import standard_streams

    with standard_streams(), exit_on_refusal(as_json):
        from ascend_session.launcher.config import LaunchConfig

        names = {field.name for field in dataclasses.fields(LaunchConfig)}
        config = LaunchConfig(
            **{
                name: value
                for name, value in request.items()
                if name in names and value is not None
            }
        )
        if dry_run:
            _show_plan(config, as_json)
            raise typer.Exit(0)
        from ascend_session.cli._launch_run import run_job

        raise typer.Exit(run_job(config, as_json))


def _parse_variables(words: List[str]) -> Dict[str, str]:
    variables: Dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            message = f'{word!r} has no =; to pass on a variable, write {word}="${word}".'
            raise typer.BadParameter(message, param_hint="--env")
        variables[name] = value
    return variables


@contextlib.contextmanager
def exit_on_refusal(as_json: bool = False) -> Iterator[None]:
    """Say why a job is not started, and end the program; nothing is left of the job then.

    The exit code is 2 for a wrong call, and 1 if the host is not in order.
    """
    try:
        yield
    except AscendError as error:
        complain(error.message, error.hint)
        is_host = isinstance(error, DeviceTimeoutError) or (
            isinstance(error, PreflightError) and not error.is_wrong_call
        )
        code = 1 if is_host else 2
        if as_json:
            findings = error.findings if isinstance(error, PreflightError) else ()
            show_json(
                {
                    "code": code,
                    "refused": error.message,
                    "hint": error.hint,
                    "findings": [finding_as_dict(finding) for finding in findings],
                }
            )
        raise typer.Exit(code) from None


def _show_plan(config: "LaunchConfig", as_json: bool) -> None:
    from ascend_session.launcher.preflight import planned_or_refused

    plan = planned_or_refused(config, os.environ)
    plan.held_port.close()
    for note in plan.notes:
        complain(note)
    if as_json:
        show_json(plan.as_dict())
    else:
        typer.echo("\n".join(_plan_lines(plan)))


def _plan_lines(plan: "Plan") -> Iterator[str]:
    """Draw what all ranks share, then a block for each; variables and commands as a shell's."""
    for label, text in _plan_facts(plan):
        yield f"{label:<10}{text}"
    first, *others = plan.ranks
    shared = {
        name: value
        for name, value in first.changed.items()
        if others and all(rank.changed.get(name) == value for rank in others)
    }
    if shared:
        yield "\nIn every rank's environment"
        yield from _assignments(shared)
    for rank in plan.ranks:
        yield f"\n{_rank_headline(rank)}"
        yield from _assignments({k: v for k, v in rank.changed.items() if k not in shared})
        yield f"  > {rank.stdout}"
        yield f"  2> {rank.stderr}"
    if plan.removed:
        yield "\nNot inherited by the ranks"
        for name, why in plan.removed.items():
            yield f"  {name}: {why}"


def _plan_facts(plan: "Plan") -> Iterator[Tuple[str, str]]:
    first = plan.ranks[0]
    count = len(plan.ranks)
    yield "Ranks", f"{count} on {plan.backend}: {plan.reason}"
    # All ranks of a job run the same.
    yield "Command", " ".join(map(shlex.quote, first.command))
    yield "Folder", first.cwd
    yield "JOB_ID", plan.job_id
    yield "CPUs", spell_options(plan.bound)
    if plan.nodes.count > 1:
        yield "Node", f"{plan.nodes.rank} of {plan.nodes.count}; {plan.size} ranks in all"
    yield "Logs", plan.folder
    if len(plan.shown) == count:
        yield "Shown", "all"
    else:
        ranks = format_ranges(plan.shown, ",")
        yield "Shown", f"{ranks} of 0-{count - 1}" if ranks else "none"


def _rank_headline(rank: "RankPlan") -> str:
    node = "" if rank.physical is None else f" (/dev/davinci{int(rank.physical)})"
    cpus = "" if rank.cpus is None else f", CPUs {format_ranges(rank.cpus, ',')}"
    return f"Rank {rank.rank} on device {int(rank.device)}{node}{cpus}"


def _assignments(variables: Dict[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        yield f"  {name}={shlex.quote(value)}"
