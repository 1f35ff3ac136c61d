"""``ascend-session launch``: one process per device, which end as one job."""

import contextlib
import dataclasses
import os
import shlex
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Tuple

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import (
    CHECKED,
    complain,
    finding_as_dict,
    show_json,
    spell_options,
)
from ascend_session.cli._parameters import (
    OPTIONS,
    OUTPUT,
    Arguments,
    Backend,
    Devices,
    LogDir,
    Module,
    OptionalNumber,
    OptionalSeconds,
    OptionalText,
    OptionGroup,
    Script,
    ScriptCommand,
    new_group,
    parse_duration,
)
from ascend_session.errors import AscendError, DeviceTimeoutError, PreflightError
from ascend_session.findings import ERROR, INFO
from ascend_session.text import format_ranges

if TYPE_CHECKING:
    from ascend_session.launcher.config import LaunchConfig
    from ascend_session.launcher.plan import Plan

# Options below a title of the help.
_PROCESSES = OptionGroup("Ranks as processes")
_TABLE = OptionGroup("Rank table and chief")
_NODES = OptionGroup("Several nodes")
_CHECKS = OptionGroup("Checks, waits and failures")

app = new_group()


@app.command("launch", cls=ScriptCommand)
def launch(
    context: typer.Context,
    what: Script,
    arguments: Arguments = None,
    processes: Annotated[
        OptionalNumber,
        OPTIONS.value(
            "N", "Number of ranks on this node.  [default: one per device]", "-n", "--processes"
        ),
    ] = None,
    devices: Devices = None,
    backend: Backend = None,
    as_module: Module = False,
    no_python: Annotated[
        bool, OPTIONS.flag("--no-python", "Run SCRIPT as a program of any kind.")
    ] = False,
    rank_table: Annotated[OptionalText, _TABLE.value("FILE", "Rank table of the job.")] = None,
    no_rank_table: Annotated[
        bool,
        _TABLE.flag(
            "--no-rank-table",
            "Use no table: let ranks meet at one of them, the chief (CM_* variables).",
        ),
    ] = False,
    chief_ip: Annotated[OptionalText, _TABLE.value("ADDRESS", "Address of the chief.")] = None,
    chief_port: Annotated[
        OptionalNumber, _TABLE.value("PORT", "Port of the chief.  [default: a free one]")
    ] = None,
    nnodes: Annotated[
        OptionalNumber, _NODES.value("N", "Number of nodes.  [default: the scheduler's, or 1]")
    ] = None,
    node_rank: Annotated[OptionalNumber, _NODES.value("K", "Rank of this node, from 0.")] = None,
    coordinator: Annotated[
        OptionalText,
        _NODES.value(
            "HOST:PORT", "Address of node 0, at which the nodes meet if they run on the stub."
        ),
    ] = None,
    job_id: Annotated[
        OptionalText, _TABLE.value("ID", "JOB_ID of the job.  [default: a new one]")
    ] = None,
    env: Annotated[
        Optional[List[str]],
        _PROCESSES.value("NAME=VALUE", "Set a variable in all ranks; can be repeated.", "--env"),
    ] = None,
    cwd: Annotated[
        OptionalText, _PROCESSES.value("FOLDER", "Working directory of the ranks.")
    ] = None,
    python: Annotated[
        OptionalText, _PROCESSES.value("PROGRAM", "Python that runs the ranks.")
    ] = None,
    log_dir: LogDir = None,
    grace: Annotated[
        OptionalSeconds,
        _CHECKS.value("SECONDS", "Time between SIGTERM and SIGKILL.  [default: 10]"),
    ] = None,
    stall_timeout: Annotated[
        OptionalSeconds,
        _CHECKS.value(
            "SECONDS", "End a job that has written nothing and used no CPU for this long."
        ),
    ] = None,
    max_restarts: Annotated[
        OptionalNumber,
        _CHECKS.value("N", "Restart up to N times after a temporary failure or a killed rank."),
    ] = None,
    bind: Annotated[
        OptionalText,
        _PROCESSES.value("HOW", "Bind ranks to CPUs: auto (near the device), even or none."),
    ] = None,
    show: Annotated[
        OptionalText,
        OUTPUT.value("LIST", "Show the output of these ranks: all, none, or a list such as 0,4-7."),
    ] = None,
    timestamps: Annotated[
        bool, OUTPUT.flag("--timestamps", "Begin each line with the time.")
    ] = False,
    events: Annotated[
        OptionalText, OUTPUT.value("FILE", "Write the job's events as JSON lines.")
    ] = None,
    no_preflight: Annotated[
        bool, _CHECKS.flag("--no-preflight", "Start without checking the host first.")
    ] = False,
    wait_for_devices: Annotated[
        OptionalSeconds,
        _CHECKS.value(
            "TIME",
            "Wait up to this long, such as 10m, for devices that are in use.",
            parser=parse_duration,
        ),
    ] = None,
    wait_for_table: Annotated[
        OptionalSeconds,
        _TABLE.value(
            "TIME",
            'Wait up to this long for a table that is "initializing".  [default: 5m]',
            parser=parse_duration,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        OUTPUT.flag("--json", "Print the result as one JSON object; ranks then write to stderr."),
    ] = False,
    dry_run: Annotated[
        bool, OPTIONS.flag("--dry-run", "Print what would be started, and start nothing.")
    ] = False,
) -> None:
    """Start a script on every device, as one job.

    Each rank is a process of its own, with one device. The output of all ranks is shown, and kept
    in files. When a rank fails, the others are ended, and the first failure is explained.

    SCRIPT is a Python script, a module (-m) or any program (--no-python). Arguments after SCRIPT
    are passed on to it.

    Exit code: 0 if every rank succeeded, otherwise that of the rank that failed first, or 128+n
    for signal n. If nothing was started: 1 if this host or the rank table has errors, 2 for a
    usage error.

    Examples:
        ascend-session launch -n 8 train.py --epochs 90
        ascend-session launch --dry-run -n 8 -m my_package.train
    """
    if as_module and no_python:
        raise typer.BadParameter("cannot be combined with -m.", param_hint="--no-python")
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

        options = {
            option: not getattr(parameter, "is_flag", False)
            for parameter in context.command.params
            for option in parameter.opts
        }
        raise typer.Exit(run_job(config, as_json, None, options))


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

    The exit code is 2 for a wrong call, and 1 if the host has errors.
    """
    try:
        yield
    except AscendError as error:
        complain(error.message, error.hint, ERROR)
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
                    "findings": [finding_as_dict(finding, CHECKED) for finding in findings],
                }
            )
        raise typer.Exit(code) from None


def _show_plan(config: "LaunchConfig", as_json: bool) -> None:
    from ascend_session.launcher.preflight import planned_or_refused

    plan = planned_or_refused(config, os.environ)
    plan.held_port.close()
    for note in plan.notes:
        complain(note, severity=INFO)
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
        node = "" if rank.physical_id is None else f" (/dev/davinci{int(rank.physical_id)})"
        cpus = "" if rank.cpus is None else f", CPUs {format_ranges(rank.cpus, ',')}"
        yield f"\nRank {rank.rank} on device {int(rank.device_id)}{node}{cpus}"
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


def _assignments(variables: Dict[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        yield f"  {name}={shlex.quote(value)}"
