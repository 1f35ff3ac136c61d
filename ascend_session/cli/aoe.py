"""``ascend-session aoe``: what tuning needs, the tuning run, and what came of it."""

from typing import List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._output import exit_on_error, show_json
from ascend_session.cli._parameters import (
    OPTIONS,
    OUTPUT,
    Arguments,
    LogDir,
    Module,
    OptionalNumber,
    OptionalSeconds,
    OptionalText,
    OptionGroup,
    ScriptCommand,
    argument,
    exit_on_signals,
    new_group,
    parse_duration,
    parse_size,
)

_FACTS = OptionGroup("Facts that cannot be measured")
_SORTS = "saved, improvement, before, after, name or type"


_HELP = """Tune operators or subgraphs with AOE, the vendor's tuner.

Examples:
    ascend-session aoe run --dry-run --config train.yaml
    ascend-session aoe run train.py
"""

app = new_group(help=_HELP)


@app.command("run", cls=ScriptCommand)
def run(
    context: typer.Context,
    what: Annotated[OptionalText, argument("[SCRIPT]")] = None,
    arguments: Arguments = None,
    config: Annotated[
        OptionalText, OPTIONS.value("FILE", "Configuration file that SCRIPT uses.")
    ] = None,
    mode: Annotated[
        OptionalText,
        OPTIONS.value(
            "WHAT",
            "operator or subgraph; with --dry-run also gradient.  "
            "[default: that of FILE or AOE_MODE, or operator]",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        OPTIONS.flag("--dry-run", "Show the conditions and start nothing; needs no device."),
    ] = False,
    as_json: Annotated[
        bool, OPTIONS.flag("--json", "Print one JSON object; only with --dry-run.")
    ] = False,
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
    processes: Annotated[
        OptionalNumber, _FACTS.value("N", "Processes of the training.  [default: 1]")
    ] = None,
    training_memory: Annotated[
        OptionalNumber,
        _FACTS.value(
            "SIZE", "Host memory that the training needs, such as 12GiB.", parser=parse_size
        ),
    ] = None,
    tuning_parallel_num: Annotated[
        OptionalNumber,
        _FACTS.value("N", "AOE's TUNING_PARALLEL_NUM.  [default: as in aoe.ini, or 8]"),
    ] = None,
    device_cores: Annotated[OptionalNumber, _FACTS.value("N", "AI cores of the device.")] = None,
    operator_cores: Annotated[
        OptionalNumber,
        _FACTS.value("N", "Largest number of AI cores that an operator of the model uses."),
    ] = None,
    device_memory: Annotated[
        OptionalNumber,
        _FACTS.value(
            "SIZE", "Device memory that the training needs, such as 20GiB.", parser=parse_size
        ),
    ] = None,
    static_operators: Annotated[
        Optional[bool],
        _FACTS.flag(
            "--static-operators", "State that all operators of the model have static shapes."
        ),
    ] = None,
) -> None:
    """Run a training script on a device while AOE tunes it.

    Sets AOE_MODE, ASCEND_WORK_PATH and, with --bank, TUNE_BANK_PATH. If the script sets aoe_mode
    itself, that takes precedence. Arguments after SCRIPT are passed on to it.

    With --dry-run, only checks whether this machine has what the run needs. If a condition cannot
    be measured, it is "not checked", and the output names the option that states it.

    Exit code: that of the script, or 128+n for signal n. 1 if a condition fails (then nothing was
    started), if there is no result file, or if a tuning failed. 2 for a usage error, or if there
    is no device. With --dry-run, 0 if no condition fails and 1 if one does.

    Examples:
        ascend-session aoe run train.py --steps 20
        ascend-session aoe run --dry-run --config train.yaml --training-memory 12GiB
    """
    if as_json and not dry_run:
        raise typer.BadParameter("needs --dry-run.", param_hint="--json")
    if what is None and not dry_run:
        context.fail("Missing argument 'SCRIPT'.")
    from ascend_session.cli._aoe_run import check_conditions, run_tuning, show_conditions

    if dry_run:
        with exit_on_error(2, as_json), exit_on_signals():
            plan = check_conditions(context.params)
        if as_json:
            show_json(plan.as_dict())
        else:
            show_conditions(plan)
        raise typer.Exit(0 if plan.ok else 1)
    from ascend_session.cli.launch import exit_on_refusal
    from ascend_session.launcher.process import standard_streams

    with standard_streams(), exit_on_refusal():
        raise typer.Exit(run_tuning(context.params))


@app.command()
def report(
    paths: Annotated[Optional[List[str]], argument("[PATH]...")] = None,
    as_json: Annotated[
        bool, OPTIONS.flag("--json", "Print one JSON object, with every operator.")
    ] = False,
    sort: Annotated[str, OPTIONS.value("KEY", f"Sort by {_SORTS}.")] = "saved",
    top: Annotated[
        OptionalNumber,
        OPTIONS.value("N", "Show at most N operators.  [default: 20, in JSON all]", min=1),
    ] = None,
) -> None:
    """Show what AOE tuned, the time saved, and what failed.

    PATH is a result file, or a folder with result files. The default is ASCEND_WORK_PATH, or the
    working directory.

    Exit code: 1 if a tuning failed or is incomplete, or a file is damaged or missing, otherwise 0.

    Examples:
        ascend-session aoe report --top 10
        ascend-session aoe report tuning --json
    """
    from ascend_session.aoe.results import SORTS
    from ascend_session.cli._aoe_report import View, read_run, show_view

    if sort not in SORTS:
        raise typer.BadParameter(f"{sort!r} is not one of {_SORTS}.", param_hint="--sort")
    with exit_on_error():
        results = read_run(paths or [], as_json)
    show_view(View.of(results, sort, top), as_json)
    raise typer.Exit(0 if results.ok else 1)
