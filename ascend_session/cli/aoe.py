"""``ascend-session aoe``: what tuning needs, the tuning run, and what came of it."""

import os
from typing import Any, Optional, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import exit_on_error, show_json
from ascend_session.cli._parameters import (
    ARGUMENTS,
    LOG_DIR,
    MODULE,
    OPTIONS,
    OUTPUT,
    CommandGroup,
    OptionGroup,
    ScriptCommand,
    argument,
    exit_on_signals,
    parse_duration,
    parse_size,
)

_FACTS = OptionGroup("Facts that cannot be measured")

_HELP = """Tune operators or subgraphs with AOE, the vendor's tuner.

Examples:
    ascend-session aoe run --dry-run --config train.yaml
    ascend-session aoe run train.py
"""

aoe = CommandGroup(name="aoe", help=_HELP)


@aoe.command("run", cls=ScriptCommand)
@argument("what", "[SCRIPT]")
@ARGUMENTS
@OPTIONS.value("--config", "FILE", "Configuration file that SCRIPT uses.")
@OPTIONS.value(
    "--mode",
    "WHAT",
    "operator or subgraph; with --dry-run also gradient.  "
    "[default: that of FILE or AOE_MODE, or operator]",
)
@OPTIONS.flag("--dry-run", "Show the conditions and start nothing; needs no device.")
@OPTIONS.flag("--json as_json", "Print one JSON object; only with --dry-run.")
@OUTPUT.value(
    "--work-path", "FOLDER", "Folder for result files (ASCEND_WORK_PATH); created if missing."
)
@OUTPUT.value("--bank", "FOLDER", "Tuned repository (TUNE_BANK_PATH); created if missing.")
@OPTIONS.value(
    "--device",
    "ID",
    "Logical device id.  [default: ASCEND_DEVICE_ID, or the first]",
    type=int,
)
@OPTIONS.value("--backend", "NAME", "auto (the default) or npu.")
@MODULE
@OPTIONS.value("--python", "PROGRAM", "Python that runs SCRIPT.")
@LOG_DIR
@OPTIONS.value(
    "--wait-for-devices",
    "TIME",
    "Wait up to this long, such as 10m, for a device that is in use.",
    type=parse_duration,
)
@OPTIONS.flag("--no-preflight", "Start even if conditions fail.")
@_FACTS.value("--processes", "N", "Processes of the training.  [default: 1]", type=int)
@_FACTS.value(
    "--training-memory",
    "SIZE",
    "Host memory that the training needs, such as 12GiB.",
    type=parse_size,
)
@_FACTS.value(
    "--tuning-parallel-num",
    "N",
    "AOE's TUNING_PARALLEL_NUM.  [default: as in aoe.ini, or 8]",
    type=int,
)
@_FACTS.value("--device-cores", "N", "AI cores of the device.", type=int)
@_FACTS.value(
    "--operator-cores",
    "N",
    "Largest number of AI cores that an operator of the model uses.",
    type=int,
)
@_FACTS.value(
    "--device-memory",
    "SIZE",
    "Device memory that the training needs, such as 20GiB.",
    type=parse_size,
)
@_FACTS.flag(
    "--static-operators",
    "State that all operators of the model have static shapes.",
    default=None,
)
def run(dry_run: bool, as_json: bool, **request: Any) -> None:
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
        ascend-session aoe run --dry-run --config a.yaml --training-memory 12GiB
    """
    if as_json and not dry_run:
        raise click.BadParameter("needs --dry-run.", param_hint="--json")
    file = request["config"]
    if file is not None and not os.path.exists(file):
        raise click.BadParameter(f"there is no file {file}.", param_hint="--config")
    if request["what"] is None and not dry_run:
        click.get_current_context().fail("Missing argument 'SCRIPT'.")
    from ascend_session.cli._aoe_run import check_conditions, run_tuning, show_conditions

    if dry_run:
        with exit_on_error(2, as_json), exit_on_signals():
            plan = check_conditions(request)
        if as_json:
            show_json(plan.as_dict())
        else:
            show_conditions(plan)
        raise Exit(0 if plan.ok else 1)
    from ascend_session.cli.launch import exit_on_refusal

    with exit_on_refusal():
        raise Exit(run_tuning(request))


@aoe.command("report")
@argument("paths", "[PATH]...")
@OPTIONS.flag("--json as_json", "Print one JSON object, with every operator.")
@OPTIONS.value(
    "--top",
    "N",
    "Show at most N operators.  [default: 20, in JSON all]",
    type=click.IntRange(min=1),
)
def report(paths: Tuple[str, ...], as_json: bool, top: Optional[int]) -> None:
    """Show what AOE tuned, the time saved, and what failed; what saves most comes first.

    PATH is a result file, or a folder with result files. The default is ASCEND_WORK_PATH, or the
    working directory.

    Exit code: 1 if a tuning failed or is incomplete, or a file is damaged or missing, otherwise 0.

    Examples:
        ascend-session aoe report --top 10
        ascend-session aoe report tuning --json
    """
    from ascend_session.cli._aoe_report import View, read_run, show_view

    with exit_on_error():
        results = read_run(paths, as_json)
    show_view(View.choose(results, top), as_json)
    raise Exit(0 if results.ok else 1)
