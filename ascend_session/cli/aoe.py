"""``ascend-session aoe``: what tuning needs, the tuning run, and what came of it."""

import os
from typing import List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import exit_on_error, show_json
from ascend_session.cli._parameters import (
    Arguments,
    Force,
    Json,
    LogDir,
    Module,
    Script,
    ScriptCommand,
    exit_on_signals,
    new_group,
    parse_duration,
    parse_size,
    show_help_without_command,
)

_Text = Optional[str]
_Number = Optional[int]
_SORTS = "saved, improvement, before, after, name or type"

# What cannot be measured, or only of this machine; for the conditions and a run.
_Mode = Annotated[
    _Text,
    typer.Option(
        metavar="WHAT",
        help="operator, subgraph or gradient; as the configuration or AOE_MODE says, or operator.",
    ),
]
_Processes = Annotated[
    _Number, typer.Option(metavar="N", help="Processes of the training script; 1 if not given.")
]
_TrainingMemory = Annotated[
    _Number,
    typer.Option(
        metavar="SIZE", parser=parse_size, help="Host memory the training needs, as in 12GiB."
    ),
]
_TuningParallelNum = Annotated[
    _Number,
    typer.Option(metavar="N", help="AOE's TUNING_PARALLEL_NUM; as in aoe.ini if not given."),
]
_DeviceCores = Annotated[_Number, typer.Option(metavar="N", help="AI cores of the device.")]
_OperatorCores = Annotated[
    _Number, typer.Option(metavar="N", help="The most cores that an operator of the model uses.")
]
_DeviceMemory = Annotated[
    _Number,
    typer.Option(
        metavar="SIZE", parser=parse_size, help="Device memory the training needs, as in 20GiB."
    ),
]
_StaticOperators = Annotated[
    Optional[bool],
    typer.Option("--static-operators", help="All operators of the model have static shapes."),
]

app = new_group(help="Tune operators or subgraphs with AOE.")
app.callback()(show_help_without_command)


@app.command()
def preflight(
    context: typer.Context,
    config: Annotated[_Text, typer.Argument(metavar="[CONFIG]", hidden=True)] = None,
    mode: _Mode = None,
    processes: _Processes = None,
    training_memory: _TrainingMemory = None,
    tuning_parallel_num: _TuningParallelNum = None,
    device_cores: _DeviceCores = None,
    operator_cores: _OperatorCores = None,
    device_memory: _DeviceMemory = None,
    static_operators: _StaticOperators = None,
    as_json: Json = False,
) -> None:
    """Measure what a tuning run needs; CONFIG is what the training script opens its session with.

    Exit code 0 if no condition fails, 1 if one does, 2 for a wrong call. What cannot be measured
    is "not checked", and names the option that supplies it.
    """
    from ascend_session.cli._aoe_conditions import measure_conditions, read_config, show_conditions

    with exit_on_error(2), exit_on_signals():
        plan = measure_conditions(*read_config(config), mode, context.params, os.environ)
    if as_json:
        show_json(plan.as_dict())
    else:
        show_conditions(plan)
    raise typer.Exit(0 if plan.ok else 1)


@app.command("run", cls=ScriptCommand)
def run_tuning(
    context: typer.Context,
    what: Script,
    arguments: Arguments = None,
    config: Annotated[
        _Text,
        typer.Option(
            metavar="FILE", help="What SCRIPT opens its session with, for the conditions."
        ),
    ] = None,
    mode: _Mode = None,
    work_path: Annotated[
        _Text,
        typer.Option(
            metavar="FOLDER", help="Where result files go (ASCEND_WORK_PATH); it is made."
        ),
    ] = None,
    bank: Annotated[
        _Text,
        typer.Option(metavar="FOLDER", help="The tuned repository (TUNE_BANK_PATH); it is made."),
    ] = None,
    device: Annotated[
        _Number,
        typer.Option(
            metavar="ID", help="Logical id; ASCEND_DEVICE_ID, or the first, if not given."
        ),
    ] = None,
    backend: Annotated[
        _Text, typer.Option(metavar="NAME", help="auto or npu; AOE tunes on a device only.")
    ] = None,
    as_module: Module = False,
    python: Annotated[
        _Text, typer.Option(metavar="PROGRAM", help="The Python that runs SCRIPT.")
    ] = None,
    log_dir: LogDir = None,
    wait_for_devices: Annotated[
        Optional[float],
        typer.Option(
            metavar="TIME",
            parser=parse_duration,
            help="Wait so long, as in 10m, until nobody holds the device.",
        ),
    ] = None,
    no_preflight: Annotated[
        bool, typer.Option("--no-preflight", help="Start although conditions fail.")
    ] = False,
    processes: _Processes = None,
    training_memory: _TrainingMemory = None,
    tuning_parallel_num: _TuningParallelNum = None,
    device_cores: _DeviceCores = None,
    operator_cores: _OperatorCores = None,
    device_memory: _DeviceMemory = None,
    static_operators: _StaticOperators = None,
) -> None:
    """Run a training script on a device, in one process in which AOE tunes; say what came of it.

    AOE_MODE, ASCEND_WORK_PATH and, with --bank, TUNE_BANK_PATH are set for it. A script that sets
    aoe_mode itself keeps that. What follows SCRIPT belongs to it, options too.

    Exit code that of the script, 128+n for a signal; 1 if a condition fails, with which nothing is
    started, if no result file came, or if a tuning failed; 2 for a wrong call, or without a device.
    """
    from ascend_session.cli import _aoe_run
    from ascend_session.cli.launch import exit_on_refusal
    from ascend_session.launcher.process import standard_streams

    with standard_streams(), exit_on_refusal():
        raise typer.Exit(_aoe_run.run_tuning(context.params))


@app.command()
def report(
    paths: Annotated[Optional[List[str]], typer.Argument(metavar="[PATH]...", hidden=True)] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with every operator.")
    ] = False,
    html: Annotated[
        _Text, typer.Option("--html", metavar="FILE", help="Write a page with a picture as well.")
    ] = None,
    force: Force = False,
    sort: Annotated[str, typer.Option("--sort", metavar="KEY", help=f"By {_SORTS}.")] = "saved",
    top: Annotated[
        _Number,
        typer.Option(
            "--top", metavar="N", min=1, help="Show so many; 20 if not given, in JSON all."
        ),
    ] = None,
    filters: Annotated[
        Optional[List[str]],
        typer.Option(
            "--filter",
            metavar="PATTERN",
            help="Only those with this in their name, or name=, type=, way= or update= and a "
            "pattern with * and ?. Given several times, all must fit.",
        ),
    ] = None,
    against: Annotated[
        _Text,
        typer.Option(
            "--against",
            metavar="PATH",
            help="Compare with another run: a result file, or its folder.",
        ),
    ] = None,
) -> None:
    """Show what AOE tuned: time saved, what became of the policies, what failed.

    PATH is a result file or a folder of them. Without one, those that AOE left in ASCEND_WORK_PATH
    are read, else those here.

    Exit code 1 if a tuning failed or is incomplete, or a file is damaged or missing.
    """
    from ascend_session.aoe.results import SORTS, Filter
    from ascend_session.cli._aoe_report import find_and_read_results, show_view, write_page
    from ascend_session.cli._aoe_view import View

    if sort not in SORTS:
        raise typer.BadParameter(f"{sort!r} is none of {_SORTS}.", param_hint="--sort")
    try:
        patterns = tuple(Filter.parse(text) for text in filters or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--filter") from None
    with exit_on_error():
        results = find_and_read_results(paths or [])
        other = None if against is None else find_and_read_results([against])
        view = View.of(results, sort, top, patterns, other)
        if html is not None:
            write_page(html, force, view)
    show_view(view, as_json)
    raise typer.Exit(0 if results.ok and (other is None or other.whole) else 1)
