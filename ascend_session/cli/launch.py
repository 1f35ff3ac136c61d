"""``ascend-session launch``: one process per device, which end as one job."""

import contextlib
import os
import shlex
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._other_launchers import LaunchCommand, parse_nodes
from ascend_session.cli._output import (
    CHECKED,
    complain,
    finding_as_dict,
    in_command,
    show_json,
)
from ascend_session.cli._parameters import (
    ARGUMENTS,
    BACKEND,
    DEVICES,
    LOG_DIR,
    MODULE,
    OPTIONS,
    OUTPUT,
    RECORD,
    SCRIPT,
    SET,
    OptionGroup,
    command,
    parse_duration,
)
from ascend_session.errors import AscendError, DeviceTimeoutError, PreflightError
from ascend_session.findings import ERROR, INFO
from ascend_session.text import fold_counting, format_ranges, split_counting

if TYPE_CHECKING:
    from ascend_session.launcher.plan.config import LaunchConfig
    from ascend_session.launcher.plan.decided import AssumedDevices
    from ascend_session.launcher.plan.plan import Plan
    from ascend_session.launcher.plan.rank import LaunchRank


def parse_assumed(text: str) -> "AssumedDevices":
    """Read the devices of another machine, as in ``A2:8``."""
    from ascend_session.launcher.plan.decided import AssumedDevices

    assumed = AssumedDevices.parse(text)
    if assumed is None:
        raise click.BadParameter(
            f"{text!r} is not a product and a number of devices that its servers may have; write "
            "910A:8, A2:8, A3:16 or 310P:4."
        )
    return assumed


# Options below a title of the help.
_PROCESSES = OptionGroup("Ranks as processes")
_TABLE = OptionGroup("Rank table and chief")
_NODES = OptionGroup("Several nodes")
_CHECKS = OptionGroup("Checks, waits and failures")


@command("launch", cls=LaunchCommand)
@SCRIPT
@ARGUMENTS
@OPTIONS.value(
    "-n --processes", "N", "Number of ranks on this node.  [default: one per device]", type=int
)
@DEVICES
@BACKEND
@MODULE
@OPTIONS.flag("--no-python", "Run SCRIPT as a program of any kind.")
@_TABLE.value("--rank-table", "FILE", "Rank table of the job.")
@_TABLE.flag(
    "--no-rank-table",
    "One server only: no rank table; ranks find each other through the chief (CM_* variables).",
)
@_TABLE.value("--chief-ip", "ADDRESS", "Address of the chief.")
@_TABLE.value("--chief-port", "PORT", "Port of the chief.  [default: a free one]", type=int)
@_NODES.value(
    "--nnodes", "N", "Number of nodes.  [default: by scheduler or table, or 1]", type=parse_nodes
)
@_NODES.value("--node-rank", "K", "Rank of this node, from 0.", type=int)
@_TABLE.value("--job-id", "ID", "JOB_ID of the job.  [default: a new one]")
@_PROCESSES.value(
    "--env", "NAME=VALUE", "Set a variable in all ranks; can be repeated.", multiple=True
)
@_PROCESSES.value("--cwd", "FOLDER", "Working directory of the ranks.")
@_PROCESSES.value("--python", "PROGRAM", "Python that runs the ranks.")
@LOG_DIR
@_CHECKS.value("--grace", "SECONDS", "Time between SIGTERM and SIGKILL.  [default: 10]", type=float)
@_CHECKS.value(
    "--stall-timeout",
    "SECONDS",
    "Stop a job that has written nothing and used no CPU for this long.",
    type=float,
)
@_CHECKS.value(
    "--max-restarts",
    "N",
    "Restart up to N times after a temporary failure or a killed rank.",
    type=int,
)
@_PROCESSES.value("--bind", "HOW", "Pin ranks to CPUs: auto (near the device), even or none.")
@OUTPUT.value(
    "--show", "LIST", "Show the output of these ranks: all, none, or a list such as 0,4-7."
)
@_CHECKS.flag("--independent", "Let each rank train a model of its own; do not compare them.")
@_PROCESSES.value(
    "--attach",
    "K",
    "Give rank K the terminal, for a debugger; the others write to files only.",
    type=int,
)
@OUTPUT.flag("--timestamps", "Start each line with the time.")
@OUTPUT.value("--events", "FILE", "Write the job's events as JSON lines.")
@_CHECKS.flag("--no-preflight", "Start without checking the host first.")
@_CHECKS.value(
    "--wait-for-devices",
    "TIME",
    "Wait up to this long, such as 10m, for devices that are in use.",
    type=parse_duration,
)
@_TABLE.value(
    "--wait-for-table",
    "TIME",
    'Wait up to this long for a table that is "initializing".  [default: 5m]',
    type=parse_duration,
)
@OUTPUT.flag("--json as_json", "Print the result as one JSON object; ranks then write to stderr.")
@SET
@RECORD
@OPTIONS.flag("--dry-run", "Print what would be started, and start nothing.")
@OPTIONS.value(
    "--assume",
    "PRODUCT:N",
    "With --dry-run: plan for another machine with N devices, as in A2:8.",
    type=parse_assumed,
)
def launch(
    what: str,
    arguments: Tuple[str, ...],
    as_module: bool,
    no_python: bool,
    env: Tuple[str, ...],
    no_preflight: bool,
    as_json: bool,
    dry_run: bool,
    assume: "Optional[AssumedDevices]",
    **settings: Any,
) -> None:
    """Start a script on every device, as one job.

    Each rank is a process of its own, with one device. The output of all ranks is shown, and kept
    in files. When a rank fails, the others are stopped, and the first failure is explained.

    SCRIPT is a Python script, a module (-m) or any program (--no-python). Arguments after SCRIPT
    are passed on to it.

    Exit code: 0 if every rank succeeded, otherwise that of the rank that failed first, or 128+n
    for signal n; 1 if the ranks hold different models. If nothing was started: 1 if this host or
    the rank table has errors, 2 for a usage error.

    Examples:
        ascend-session launch -n 8 train.py --epochs 90
        ascend-session launch --dry-run -n 8 -m my_package.train
    """
    if as_module and no_python:
        raise click.BadParameter("cannot be combined with -m.", param_hint="--no-python")
    if assume is not None and not dry_run:
        message = "is for a plan on another machine; add --dry-run, or leave it out to launch here."
        raise click.BadParameter(message, param_hint="--assume")
    if assume is not None and settings["backend"] not in (None, "auto", "npu"):
        raise click.BadParameter("is for devices; give --backend npu.", param_hint="--assume")
    if as_json and settings["attach"] is not None:
        message = "prints the result to stdout, which --attach gives to a rank."
        raise click.BadParameter(message, param_hint="--json")
    kind = "module" if as_module else "program" if no_python else "script"
    given: Dict[str, Any] = {kind: what}
    typed = settings.pop("set")
    given.update((name, value) for name, value in settings.items() if value is not None)
    variables = _parse_variables(env)
    with exit_on_refusal(as_json):
        from ascend_session.launcher.plan.config import LaunchConfig

        if typed:
            from ascend_session.config.overlay import parse_settings

            given["set"] = parse_settings(typed)
        config = LaunchConfig(**given, args=arguments, env=variables, preflight=not no_preflight)
        if dry_run:
            _show_plan(config, as_json, assume)
            raise Exit(0)
        options = {
            option: not getattr(parameter, "is_flag", False)
            for parameter in click.get_current_context().command.params
            for option in parameter.opts
        }
        from ascend_session.launcher.job.guardian_process import GuardianProcess

        with GuardianProcess(config) as guardian:  # it starts while the rest of this is loaded
            from ascend_session.cli._launch_run import run_job

            code = run_job(config, guardian, as_json, None, options)
        raise Exit(code)


def _parse_variables(words: Iterable[str]) -> Dict[str, str]:
    variables: Dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            message = f'{word!r} has no =; to pass on a variable, write {word}="${word}".'
            raise click.BadParameter(message, param_hint="--env")
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
        raise Exit(code) from None


def _show_plan(config: "LaunchConfig", as_json: bool, assumed: "Optional[AssumedDevices]") -> None:
    from ascend_session.launcher.plan.preflight import planned_or_refused

    plan = planned_or_refused(config, os.environ, assumed)
    for note in plan.notes:
        complain(note, severity=INFO)
    if as_json:
        show_json(plan.as_dict())
    else:
        click.echo("\n".join(_plan_lines(plan)))


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
    blocks = [_rank_lines(rank, shared) for rank in plan.ranks]
    for start, end in split_counting(blocks):
        head, *lines = map(fold_counting, zip(*blocks[start:end]))
        cpus = [(each.rank, format_ranges(each.cpus or (), ",")) for each in plan.ranks[start:end]]
        is_bound = any(listed for _, listed in cpus)
        yield f"\n{head}, CPUs {cpus[0][1]}" if is_bound and len(cpus) == 1 else f"\n{head}"
        yield from lines
        if is_bound and len(cpus) > 1:
            yield from (f"  rank {rank}: CPUs {listed}" for rank, listed in cpus)
    if plan.removed:
        yield "\nNot inherited by the ranks"
        for name, why in plan.removed.items():
            yield f"  {name}: {why}"


def _rank_lines(rank: "LaunchRank", shared: Mapping[str, str]) -> List[str]:
    """Draw what a rank has of its own, without CPUs."""
    node = "" if rank.physical_id is None else f" (/dev/davinci{int(rank.physical_id)})"
    streams = [f"  > {rank.stdout}", f"  2> {rank.stderr}"]
    return [
        f"Rank {rank.rank} on device {int(rank.device_id)}{node}",
        *_assignments({k: v for k, v in rank.changed.items() if k not in shared}),
        *(["  on the terminal"] if rank.is_attached else streams),
    ]


def _plan_facts(plan: "Plan") -> Iterator[Tuple[str, str]]:
    from ascend_session.cluster.records import name_record
    from ascend_session.config.overlay import describe_setting

    first = plan.ranks[0]
    count = len(plan.ranks)
    yield "Ranks", f"{count} on {plan.backend.name}: {in_command(plan.reason)}"
    # All ranks of a job run the same.
    yield "Command", " ".join(map(shlex.quote, first.command))
    yield "Folder", first.cwd
    yield "JOB_ID", plan.job_id
    yield "CPUs", in_command(plan.bound)
    if plan.nodes.count > 1:
        yield "Node", f"{plan.nodes.place}; {plan.size} ranks in all"
    yield "Logs", plan.folder
    for path, value in plan.config.set.items():
        yield "Set", describe_setting(path, value)
    if plan.config.record is not None:
        yield "Record", " ".join(name_record(plan.config.record, r.rank) for r in plan.ranks)
    if plan.config.attach is not None:
        yield "Terminal", f"rank {plan.config.attach}"
    if len(plan.shown) == count:
        yield "Shown", "all"
    else:
        ranks = format_ranges(plan.shown, ",")
        yield "Shown", f"{ranks} of 0-{count - 1}" if ranks else "none"


def _assignments(variables: Dict[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        yield f"  {name}={shlex.quote(value)}"
