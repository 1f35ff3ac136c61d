"""``ascend-session launch``: one process per device, which end as one job."""

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._durations import parse_duration
from ascend_session.cli._groups import ScriptCommand, group
from ascend_session.cli._output import complain, show_json
from ascend_session.errors import AscendError, DeviceTimeoutError, PreflightError

if TYPE_CHECKING:
    from ascend_session.launcher.config import LaunchConfig

__all__ = ["app", "wrong_calls_said"]

_Seconds = Optional[float]
# Hidden from the list of arguments; the usage names them.
_What = Annotated[str, typer.Argument(metavar="SCRIPT", hidden=True)]
_Arguments = Annotated[Optional[List[str]], typer.Argument(metavar="ARGS", hidden=True)]
_Processes = Annotated[
    Optional[int],
    typer.Option("-n", "--processes", metavar="N", help="Ranks; as many as devices if not given."),
]
_Devices = Annotated[
    Optional[str],
    typer.Option(metavar="LIST", help="Logical ids, as in 0-3,6; all visible if not given."),
]
_Backend = Annotated[Optional[str], typer.Option(metavar="NAME", help="auto, npu or stub.")]
_Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a Python module.")]
_NoPython = Annotated[bool, typer.Option("--no-python", help="SCRIPT is any program.")]
_Table = Annotated[
    Optional[str], typer.Option(metavar="FILE", help="The job's rank table, which is passed on.")
]
_NoTable = Annotated[
    bool, typer.Option("--no-rank-table", help="Ranks meet at a chief instead (CM_* variables).")
]
_ChiefIp = Annotated[Optional[str], typer.Option(metavar="ADDRESS", help="The chief's address.")]
_ChiefPort = Annotated[
    Optional[int], typer.Option(metavar="PORT", help="The chief's port; a free one if not given.")
]
_Nnodes = Annotated[
    Optional[int],
    typer.Option(metavar="N", help="Nodes; what the scheduler says, or 1, if not given."),
]
_NodeRank = Annotated[Optional[int], typer.Option(metavar="K", help="Number of this node, from 0.")]
_Coordinator = Annotated[
    Optional[str],
    typer.Option(metavar="HOST:PORT", help="On node 0, where ranks of several nodes meet (stub)."),
]
_JobId = Annotated[Optional[str], typer.Option(metavar="ID", help="JOB_ID; new if not given.")]
_Env = Annotated[
    Optional[List[str]],
    typer.Option("--env", metavar="NAME=VALUE", help="Set a variable in the ranks; repeatable."),
]
_Cwd = Annotated[Optional[str], typer.Option(metavar="FOLDER", help="The ranks' folder to run in.")]
_Python = Annotated[
    Optional[str], typer.Option(metavar="PROGRAM", help="The Python that runs the ranks.")
]
_LogDir = Annotated[
    Optional[str], typer.Option(metavar="FOLDER", help="Where logs go; ascend-logs if not given.")
]
_Grace = Annotated[
    _Seconds,
    typer.Option(metavar="SECONDS", help="Time from SIGTERM to SIGKILL; 10 if not given."),
]
_Stall = Annotated[
    _Seconds,
    typer.Option(metavar="SECONDS", help="End a job that neither writes nor computes so long."),
]
_Restarts = Annotated[
    Optional[int],
    typer.Option(metavar="N", help="Try again so often, after failures that are known to pass."),
]
_Bind = Annotated[
    Optional[str],
    typer.Option(metavar="HOW", help="CPUs of a rank: auto (near its device), even or none."),
]
_Show = Annotated[
    Optional[str], typer.Option(metavar="LIST", help="Ranks to show: all, none or as in 0,4-7.")
]
_Timestamps = Annotated[bool, typer.Option("--timestamps", help="Begin lines with the time.")]
_Events = Annotated[
    Optional[str], typer.Option(metavar="FILE", help="Write what happens as JSON lines.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]
_NoPreflight = Annotated[
    bool, typer.Option("--no-preflight", help="Start without checking what the job needs.")
]
_WaitForTable = Annotated[
    _Seconds,
    typer.Option(
        metavar="TIME",
        parser=parse_duration,
        help='Wait so long, 5m if not given, for a rank table at "initializing".',
    ),
]
_Wait = Annotated[
    _Seconds,
    typer.Option(
        metavar="TIME",
        parser=parse_duration,
        help="Wait so long, as in 10m, until nobody holds the devices.",
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, and start nothing.")]


app = group()


# What follows the script is the script's own.
@app.command("launch", cls=ScriptCommand, context_settings={"allow_interspersed_args": False})
def launch(
    context: typer.Context,
    what: _What,
    arguments: _Arguments = None,
    processes: _Processes = None,
    devices: _Devices = None,
    backend: _Backend = None,
    as_module: _Module = False,
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
    log_dir: _LogDir = None,
    grace: _Grace = None,
    stall_timeout: _Stall = None,
    max_restarts: _Restarts = None,
    bind: _Bind = None,
    show: _Show = None,
    timestamps: _Timestamps = False,
    events: _Events = None,
    no_preflight: _NoPreflight = False,
    wait_for_devices: _Wait = None,
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
    _launch(context.params)


def _launch(asked: Dict[str, Any]) -> None:
    if asked["as_module"] and asked["no_python"]:
        raise typer.BadParameter("it is given, and so is -m.", param_hint="--no-python")
    kind = "module" if asked["as_module"] else "program" if asked["no_python"] else "script"
    program: Dict[str, Any] = {kind: asked["what"], "args": asked["arguments"] or []}
    program["preflight"] = not asked["no_preflight"]
    variables = _variables(asked["env"] or [])
    as_json = asked["as_json"]
    from ascend_session.launcher.process import standard_streams

    with standard_streams(), wrong_calls_said(as_json):
        config = _config({**asked, **program, "env": variables})
        show_or_run = _show_plan if asked["dry_run"] else _run
        raise typer.Exit(show_or_run(config, as_json))


def _variables(given: List[str]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            said = f'{text!r} has no =; to pass on a variable, write {text}="${text}".'
            raise typer.BadParameter(said, param_hint="--env")
        found[name] = value
    return found


def _config(asked: Dict[str, Any]) -> "LaunchConfig":
    from ascend_session.launcher.config import LaunchConfig

    names = {field.name for field in dataclasses.fields(LaunchConfig)}
    given = {name: value for name, value in asked.items() if name in names and value is not None}
    return LaunchConfig(**given)


def _run(config: "LaunchConfig", as_json: bool) -> int:
    from ascend_session.cli._launch_run import run

    return run(config, as_json)


def _show_plan(config: "LaunchConfig", as_json: bool) -> int:
    from ascend_session.cli._flags import with_flags
    from ascend_session.launcher.preflight import planned_or_refused

    planned = planned_or_refused(config, os.environ)
    planned.held_port.close()
    for note in planned.notes:
        complain(with_flags(note))
    if as_json:
        show_json(planned.as_dict())
    else:
        from ascend_session.cli._launch_plan import plan_text

        typer.echo(plan_text(planned))
    return 0


@contextlib.contextmanager
def wrong_calls_said(as_json: bool) -> Iterator[None]:
    """Says why what was asked cannot be; nothing was started then, and nothing is left."""
    try:
        yield
    except AscendError as error:
        from ascend_session.cli._flags import with_flags

        complain(with_flags(error.message), error.hint and with_flags(error.hint))
        is_the_hosts = isinstance(error, DeviceTimeoutError) or (
            isinstance(error, PreflightError) and not error.is_wrong_call
        )
        code = 1 if is_the_hosts else 2
        if as_json:
            show_json(_refusal(error, code))
        raise typer.Exit(code) from None


def _refusal(error: AscendError, code: int) -> Dict[str, Any]:
    """Why nothing was started, as plain values."""
    found = error.findings if isinstance(error, PreflightError) else ()
    return {
        "code": code,
        "refused": error.message,
        "hint": error.hint,
        "findings": [
            {"check": f.rule, "severity": f.severity, "said": f.message, "hint": f.hint}
            for f in found
        ],
    }
