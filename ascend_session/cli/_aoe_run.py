"""Print the conditions, progress and results of a tuning run."""

import os
import shlex
import signal
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
)

import click

from ascend_session.aoe import AoePlan
from ascend_session.aoe.conditions import (
    DEVICE_MEMORY,
    ELSEWHERE,
    FAILS,
    ONE_USER,
    TuningCondition,
    format_value,
)
from ascend_session.aoe.plan import ADVICE
from ascend_session.aoe.request import (
    ProgressWatch,
    make_folders,
    make_launch_config,
    measure_conditions,
    read_request,
    require_device_backend,
)
from ascend_session.aoe.run import find_earlier_results, find_new_results, find_repository
from ascend_session.cli._output import complain, in_command, show_table, show_text
from ascend_session.cli._parameters import exit_on_signals
from ascend_session.config.tuning import MODES, mode_word
from ascend_session.findings import ERROR, NOT_CHECKED, OK

if TYPE_CHECKING:
    from ascend_session.aoe.run import FileState

# The worst comes last, so that it is still on the screen.
_ORDER = (OK, NOT_CHECKED, FAILS)
_STYLES: Dict[str, str] = {OK: "green", NOT_CHECKED: "yellow", FAILS: "bold red"}
_LABELS = {"devices": "job size"}  # on the screen: what is measured are processes
# What a person can correct on any machine, with a device or without.
_IN_CONFIGURATION = (
    "aoe_config_file",
    "configuration",
    "mode",
    "operators",
    "options",
    "profiling",
    "static memory",
    "work_path",
)


def check_conditions(request: Mapping[str, Any]) -> AoePlan:
    """Measure the conditions of the run that ``ascend-session aoe run --dry-run`` is about.

    Nothing is made or started, and there need be neither a device nor a script.

    Raises:
        AscendError: For a mode that is none, and if the run would not use the device that is here.
    """
    tuning = read_request(request)
    named = [request[name] for name in ("work_path", "bank") if request[name] is not None]
    plan = measure_conditions(tuning, request, list(map(os.path.abspath, named)))
    if plan.has_device:
        require_device_backend(request["backend"])
    return plan


def show_conditions(plan: AoePlan) -> None:
    """Print the conditions, what to do about those that are not fulfilled, and a verdict.

    Without a device there is nothing to measure: then only conditions to correct are printed.
    """
    if not plan.has_device:
        _show_without_device(plan)
        return
    rows = [
        (
            _LABELS.get(condition.name, condition.name),
            [(condition.verdict, _STYLES[condition.verdict])],
            format_value(condition.measured, condition.unit),
            format_value(condition.needed, condition.unit),
        )
        for verdict in _ORDER
        for condition in plan.select_conditions(verdict)
    ]
    lines = [
        *_describe(plan.select_conditions(NOT_CHECKED)),
        *_describe(plan.select_conditions(FAILS)),
        "\nBefore you tune:",
    ]
    lines += [f"  {advice}" for advice in ADVICE]
    counts = [f"{len(plan.select_conditions(verdict))} {verdict}" for verdict in (OK, NOT_CHECKED)]
    count = len(plan.select_conditions(FAILS))
    counts.append(f"{count} {'fails' if count == 1 else 'fail'}")
    lines.append(f"\n{len(plan.conditions)} conditions: {', '.join(counts)}.")
    click.echo(f"{plan.mode} tuning\n")
    show_table(("CONDITION", "VERDICT", "MEASURED", "NEEDED"), rows)
    show_text("\n".join(lines))


def _show_without_device(plan: AoePlan) -> None:
    """Say that there is no device, and which conditions fail besides."""
    failing = plan.select_conditions(FAILS)
    others = [condition.name for condition in failing if condition.name not in _IN_CONFIGURATION]
    lines = [f"{plan.mode} tuning needs an Ascend device, and this machine has none."]
    if others:
        lines.append(f"Other conditions that fail on this machine: {', '.join(others)}.")
    lines.append(f"  hint: {ELSEWHERE}")
    lines += _describe(condition for condition in failing if condition.name in _IN_CONFIGURATION)
    show_text("\n".join(lines))


def _describe(conditions: Iterable[TuningCondition]) -> Iterator[str]:
    """Return what is not fulfilled; conditions with the same hint stand together above it."""
    by_hint: Dict[str, List[TuningCondition]] = {}
    for condition in conditions:
        by_hint.setdefault(condition.hint or "", []).append(condition)
    for hint, alike in by_hint.items():
        yield ""
        for condition in alike:
            yield f"{condition.name}, {condition.verdict}: {in_command(condition.message)}"
        if hint:
            yield f"  hint: {in_command(hint)}"


def run_tuning(request: Mapping[str, Any]) -> int:
    """Do what ``ascend-session aoe run`` is asked by its parameters; return its exit code.

    Raises:
        AscendError: If that is not possible; nothing was started then.
        click.BadParameter: For a mode that one process cannot tune.
    """
    tuning = read_request(request)
    if tuning.mode == MODES["gradient"]:
        message = (
            "gradient tuning needs several ranks; run `ascend-session launch --env AOE_MODE=4`."
        )
        raise click.BadParameter(message, param_hint="--mode")
    require_device_backend(request["backend"])
    make_folders(request)
    if not request["no_preflight"]:
        try:
            with exit_on_signals():
                plan = measure_conditions(tuning, request)
        except KeyboardInterrupt:
            complain("Interrupted before anything was started.")
            return 128 + signal.SIGINT
        if not _may_start(plan, bool(request["wait_for_devices"])):
            return 1
    environ = tuning.environ
    before = find_earlier_results(environ)
    from ascend_session.cli._launch_run import run_job
    from ascend_session.launcher.job.guardian_process import GuardianProcess

    config = make_launch_config(request, tuning)
    with ProgressWatch(environ, before) as watch, GuardianProcess(config) as guardian:
        code = run_job(config, guardian, False, watch.note, {})
    if not watch.has_begun:
        return code
    is_tuned = _report(environ, before)
    if is_tuned and code == 0:
        _suggest_verification(tuning.mode, environ)
    return code if code or is_tuned else 1


def _may_start(plan: AoePlan, waits: bool) -> bool:
    """Return, and print, whether the run can start, perhaps after waiting for a holder."""
    failing = {condition.name for condition in plan.select_conditions(FAILS)}
    is_held = waits and ONE_USER in failing
    if failing - ({ONE_USER, DEVICE_MEMORY} if is_held else set()):
        show_conditions(plan)
        complain("Nothing was started.", "To start anyway, give --no-preflight.", ERROR)
        return False
    unknown = f"{len(plan.select_conditions(NOT_CHECKED))} could not be checked"
    if is_held:
        complain(f"Waiting for the device, which is in use. No other condition fails; {unknown}.")
    else:
        complain(f"No condition fails; {unknown}.")
    return True


def _report(environ: Mapping[str, str], before: "Mapping[str, FileState]") -> bool:
    """Show the run's result files; tell whether there are any, and no tuning failed."""
    from ascend_session.aoe import read_results
    from ascend_session.aoe.result_files import result_folders
    from ascend_session.cli._aoe_report import View, show_view

    paths = list(find_new_results(environ, before))
    if not paths:
        folders = " or ".join(map(os.path.abspath, result_folders(environ)))
        complain(
            f"AOE left no result file in {folders}, so nothing was tuned.",
            "Read the script's log, and check that it opens its session on a device.",
            ERROR,
        )
        return False
    for path in paths:
        complain(f"result file: {path}", f"ascend-session aoe report {shlex.quote(path)}")
    results = read_results(paths)
    show_view(View.choose(results))
    return results.ok


def _suggest_verification(mode: str, environ: Mapping[str, str]) -> None:
    """Return how to see whether tuning has helped (manual of AOE, performance verification)."""
    repository = find_repository(mode, environ)
    where = "HOME as it is now"
    if repository.variable:
        where = f"{repository.variable}={shlex.quote(repository.base)}"
    complain(
        f"To measure the gain, run the script once with cfg.for_verifying({mode_word(mode)!r}) "
        f"and {where}: the tuned repository is {repository.path}."
    )
