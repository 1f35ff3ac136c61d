"""``ascend-session aoe``: what tuning needs, the tuning run, and what came of it."""

import os
from typing import List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import exit_on_error, show_json
from ascend_session.cli._parameters import (
    OPTIONS,
    OUTPUT,
    Arguments,
    Force,
    Json,
    LogDir,
    Module,
    OptionalNumber,
    OptionalSeconds,
    OptionalText,
    OptionGroup,
    Script,
    ScriptCommand,
    argument,
    exit_on_signals,
    new_group,
    parse_duration,
    parse_size,
)

_FACTS = OptionGroup("Facts that cannot be measured")
_SORTS = "saved, improvement, before, after, name or type"

# Options of both `preflight` and `run`.
_Mode = Annotated[
    OptionalText,
    OPTIONS.value(
        "WHAT",
        "operator, subgraph or gradient.  [default: that of CONFIG or AOE_MODE, or operator]",
    ),
]
_Processes = Annotated[
    OptionalNumber, _FACTS.value("N", "Processes of the training.  [default: 1]")
]
_TrainingMemory = Annotated[
    OptionalNumber,
    _FACTS.value("SIZE", "Host memory that the training needs, such as 12GiB.", parser=parse_size),
]
_TuningParallelNum = Annotated[
    OptionalNumber, _FACTS.value("N", "AOE's TUNING_PARALLEL_NUM.  [default: as in aoe.ini]")
]
_DeviceCores = Annotated[OptionalNumber, _FACTS.value("N", "AI cores of the device.")]
_OperatorCores = Annotated[
    OptionalNumber,
    _FACTS.value("N", "Largest number of AI cores that an operator of the model uses."),
]
_DeviceMemory = Annotated[
    OptionalNumber,
    _FACTS.value(
        "SIZE", "Device memory that the training needs, such as 20GiB.", parser=parse_size
    ),
]
_StaticOperators = Annotated[
    Optional[bool],
    _FACTS.flag("--static-operators", "State that all operators of the model have static shapes."),
]

_HELP = """Tune operators or subgraphs with AOE, the vendor's tuner.

Examples:
    ascend-session aoe preflight train.yaml
    ascend-session aoe run train.py
"""

app = new_group(help=_HELP)


@app.command()
def preflight(
    context: typer.Context,
    config: Annotated[OptionalText, argument("[CONFIG]")] = None,
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
    """Check whether this machine has what a tuning run needs.

    CONFIG is the configuration file that the training script uses. If a condition cannot be
    measured, it is "not checked", and the output names the option that states it.

    Exit code: 0 if no condition fails, 1 if one does, 2 for a usage error.

    Examples:
        ascend-session aoe preflight train.yaml
        ascend-session aoe preflight --mode subgraph --training-memory 12GiB
    """
    from ascend_session.cli._aoe_run import measure_conditions, read_config, show_conditions

    with exit_on_error(2, as_json), exit_on_signals():
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
        OptionalText, OPTIONS.value("FILE", "Configuration file that SCRIPT uses.")
    ] = None,
    mode: _Mode = None,
    work_path: Annotated[
        OptionalText,
        OUTPUT.value("FOLDER", "Folder for result files (ASCEND_WORK_PATH); made if missing."),
    ] = None,
    bank: Annotated[
        OptionalText, OUTPUT.value("FOLDER", "Tuned repository (TUNE_BANK_PATH); made if missing.")
    ] = None,
    device: Annotated[
        OptionalNumber,
        OPTIONS.value("ID", "Logical device id.  [default: ASCEND_DEVICE_ID, or the first]"),
    ] = None,
    backend: Annotated[OptionalText, OPTIONS.value("NAME", "auto (the default) or npu.")] = None,
    as_module: Module = False,
    python: Annotated[OptionalText, OPTIONS.value("PROGRAM", "Python that runs SCRIPT.")] = None,
    log_dir: LogDir = None,
    wait_for_devices: Annotated[
        OptionalSeconds,
        OPTIONS.value(
            "TIME",
            "Wait up to this long, such as 10m, for a device that is in use.",
            parser=parse_duration,
        ),
    ] = None,
    no_preflight: Annotated[
        bool, OPTIONS.flag("--no-preflight", "Start even if conditions fail.")
    ] = False,
    processes: _Processes = None,
    training_memory: _TrainingMemory = None,
    tuning_parallel_num: _TuningParallelNum = None,
    device_cores: _DeviceCores = None,
    operator_cores: _OperatorCores = None,
    device_memory: _DeviceMemory = None,
    static_operators: _StaticOperators = None,
) -> None:
    """Run a training script on a device while AOE tunes it.

    Sets AOE_MODE, ASCEND_WORK_PATH and, with --bank, TUNE_BANK_PATH. If the script sets aoe_mode
    itself, that takes precedence. Arguments after SCRIPT are passed on to it.

    Exit code: that of the script, or 128+n for signal n. 1 if a condition fails (then nothing was
    started), if there is no result file, or if a tuning failed. 2 for a usage error, or if there
    is no device.

    Examples:
        ascend-session aoe run train.py --steps 20
        ascend-session aoe run --mode subgraph --work-path tuning -m my_package.train
    """
    from ascend_session.cli import _aoe_run
    from ascend_session.cli.launch import exit_on_refusal
    from ascend_session.launcher.process import standard_streams

    with standard_streams(), exit_on_refusal():
        raise typer.Exit(_aoe_run.run_tuning(context.params))


@app.command()
def report(
    paths: Annotated[Optional[List[str]], argument("[PATH]...")] = None,
    as_json: Annotated[
        bool, OPTIONS.flag("--json", "Print one JSON object, with every operator.")
    ] = False,
    html: Annotated[
        OptionalText, OPTIONS.value("FILE", "Also write a page with a picture to FILE.")
    ] = None,
    force: Force = False,
    sort: Annotated[str, OPTIONS.value("KEY", f"Sort by {_SORTS}.")] = "saved",
    top: Annotated[
        OptionalNumber,
        OPTIONS.value("N", "Show at most N operators.  [default: 20, in JSON all]", min=1),
    ] = None,
    filters: Annotated[
        Optional[List[str]],
        OPTIONS.value(
            "PATTERN",
            "Show only operators with PATTERN in their name. Or match a column: name=, "
            "type=, way= or update= and a pattern with * and ?. If repeated, all must match.",
            "--filter",
        ),
    ] = None,
    against: Annotated[
        OptionalText,
        OPTIONS.value("PATH", "Compare with the result file or folder of another run."),
    ] = None,
) -> None:
    """Show what AOE tuned, the time saved, and what failed.

    PATH is a result file, or a folder with result files. The default is ASCEND_WORK_PATH, or the
    working directory.

    Exit code: 1 if a tuning failed or is incomplete, or a file is damaged or missing, otherwise 0.

    Examples:
        ascend-session aoe report --top 10
        ascend-session aoe report tuning --against tuning-before --html report.html
    """
    from ascend_session.aoe.results import SORTS, Filter
    from ascend_session.cli._aoe_report import View, read_run, show_view

    if sort not in SORTS:
        raise typer.BadParameter(f"{sort!r} is not one of {_SORTS}.", param_hint="--sort")
    try:
        patterns = tuple(Filter.parse(text) for text in filters or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--filter") from None
    with exit_on_error(as_json=as_json):
        results = read_run(paths or [], as_json)
        other = None if against is None else read_run([against], as_json)
        view = View.of(results, sort, top, patterns, other)
        if html is not None and all(run.files for run in view.runs):
            from ascend_session.cli._aoe_page import write_page

            write_page(html, force, view)
    show_view(view, as_json)
    raise typer.Exit(0 if results.ok and (other is None or other.whole) else 1)
