"""``ascend-session aoe``: what tuning needs, the tuning run, and what came of it."""

import os
from typing import Any, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli import _aoe_flags as flags
from ascend_session.cli._ending import programs_ended_with_this
from ascend_session.cli._groups import ScriptCommand, group, help_without_command
from ascend_session.cli._output import complain, show_json
from ascend_session.cli.aoe_report import report
from ascend_session.errors import ConfigError

__all__ = ["app"]

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


app = group(help="Tune operators or subgraphs with AOE.")
app.callback()(help_without_command)


@app.command()
def preflight(
    context: typer.Context,
    config: Annotated[Optional[str], typer.Argument(metavar="[CONFIG]", hidden=True)] = None,
    mode: flags.Mode = None,
    processes: flags.Processes = None,
    training_memory: flags.TrainingMemory = None,
    tuning_parallel_num: flags.TuningParallelNum = None,
    device_cores: flags.DeviceCores = None,
    operator_cores: flags.OperatorCores = None,
    device_memory: flags.DeviceMemory = None,
    static_operators: flags.StaticOperators = None,
    as_json: _Json = False,
) -> None:
    """Measure what a tuning run needs; CONFIG is what the training script opens its session with.

    Exit code 0 if no condition fails, 1 if one does, 2 for a wrong call. What cannot be measured
    is "not checked", and names the option that supplies it.
    """
    from ascend_session.cli._aoe_preflight import measured, read_config, show

    try:
        with programs_ended_with_this():
            plan = measured(*read_config(config), context.params, os.environ)
    except ConfigError as error:
        raise _wrong(error) from None
    if as_json:
        show_json(plan.as_dict())
    else:
        show(plan)
    raise typer.Exit(0 if plan.ok else 1)


# What follows the script is the script's own.
@app.command("run", cls=ScriptCommand, context_settings={"allow_interspersed_args": False})
def run_tuning(
    context: typer.Context,
    what: flags.Script,
    arguments: flags.Arguments = None,
    config: flags.Config = None,
    mode: flags.Mode = None,
    work_path: flags.WorkPath = None,
    bank: flags.Bank = None,
    device: flags.Device = None,
    backend: flags.Backend = None,
    as_module: flags.Module = False,
    python: flags.Python = None,
    log_dir: flags.LogDir = None,
    wait_for_devices: flags.Wait = None,
    no_preflight: flags.NoPreflight = False,
    processes: flags.Processes = None,
    training_memory: flags.TrainingMemory = None,
    tuning_parallel_num: flags.TuningParallelNum = None,
    device_cores: flags.DeviceCores = None,
    operator_cores: flags.OperatorCores = None,
    device_memory: flags.DeviceMemory = None,
    static_operators: flags.StaticOperators = None,
) -> None:
    """Run a training script on a device, in one process in which AOE tunes; say what came of it.

    AOE_MODE, ASCEND_WORK_PATH and, with --bank, TUNE_BANK_PATH are set for it. A script that sets
    aoe_mode itself keeps that. What follows SCRIPT belongs to it, options too.

    Exit code that of the script, 128+n for a signal; 1 if a condition fails, with which nothing is
    started, if no result file came, or if a tuning failed; 2 for a wrong call, or without a device.
    """
    from ascend_session.cli._aoe_run import tuned
    from ascend_session.cli.launch import wrong_calls_said
    from ascend_session.launcher.process import standard_streams

    with standard_streams(), wrong_calls_said(as_json=False):
        raise typer.Exit(tuned(context.params))


app.command()(report)


def _wrong(error: ConfigError) -> Any:
    from ascend_session.cli._flags import with_flags

    complain(with_flags(error.message), error.hint and with_flags(error.hint))
    return typer.Exit(2)
