"""How AOE tunes: the conditions of a run, the process in which it tunes, progress and results."""

import dataclasses
import os
import shlex
import signal
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import typer

from ascend_session.aoe import (
    AoePlan,
    TuningCondition,
    TuningProgress,
    find_earlier_results,
    find_new_results,
    find_repository,
    make_variables,
)
from ascend_session.aoe.conditions import (
    DEVICE_MEMORY,
    ELSEWHERE,
    FAILS,
    ONE_USER,
    KnownFacts,
    format_value,
)
from ascend_session.aoe.plan import ADVICE, choose_mode
from ascend_session.backends import backend_class, choose
from ascend_session.cli._output import complain, show_table, show_text, spell_options
from ascend_session.cli._parameters import exit_on_signals
from ascend_session.cluster.variables import read_number
from ascend_session.config.tuning import MODES, mode_number, mode_word
from ascend_session.errors import BackendError
from ascend_session.findings import ERROR, NOT_CHECKED, OK
from ascend_session.launcher.events import Event, Finished, Planned, Started

if TYPE_CHECKING:
    from ascend_session.aoe.run import FileState
    from ascend_session.config.ascend_config import AscendConfig
    from ascend_session.launcher.config import LaunchConfig

# The worst comes last, for that is what stands on the screen then.
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
_LOOK_EVERY_S = 1.0  # between two looks how far the run is


def _read_config(
    file: Optional[str],
) -> "Tuple[Optional[AscendConfig], Optional[TuningCondition]]":
    """Read a configuration, and what refuses it, as a condition that fails; None for none.

    Raises:
        typer.BadParameter: If there is no such file.
    """
    if file is None:
        return None, None
    from ascend_session.config.files import report_file

    if not os.path.exists(file):
        raise typer.BadParameter(f"there is no file {file}.", param_hint="--config")
    report = report_file(file)
    if report.ok:
        return report.config, None
    messages = [f"{report.place_of(problem)}: {problem.message}" for problem in report.problems]
    hints = [problem.hint for problem in report.problems if problem.hint]
    count = f"{len(messages)} wrong"
    hint = " ".join(hints) or None
    return report.config, TuningCondition(
        "configuration", FAILS, count, "valid", " ".join(messages), hint
    )


class _Tuning(NamedTuple):
    """A tuning run as it is asked for, before anything is measured or made.

    Attributes:
        mode: What is tuned: ``"1"``, ``"2"`` or ``"4"``.
        config: The configuration of the script; None if that is not known.
        refusal: What refuses it, as a condition that fails; None if nothing does.
        added: Variables that the run gets.
        device: Logical id of the device; None for the first.
        environ: The environment of the run, as far as conditions look at it.
    """

    mode: str
    config: "Optional[AscendConfig]"
    refusal: Optional[TuningCondition]
    added: Dict[str, str]
    device: Optional[int]
    environ: Dict[str, str]


def _describe_run(request: Mapping[str, Any]) -> _Tuning:
    """Describe the run that the parameters of ``ascend-session aoe run`` ask for.

    Raises:
        ConfigError: For a mode that is none.
        typer.BadParameter: If there is no such configuration file.
    """
    config, refusal = _read_config(request["config"])
    mode = mode_number(request["mode"] or choose_mode(config, os.environ))
    work_path = request["work_path"]
    if work_path is None and config is not None and not os.environ.get("ASCEND_WORK_PATH"):
        # AOE's own place for result files, if no variable names another.
        work_path = None if config.work_path is None else os.fspath(config.work_path)
    added = make_variables(mode, os.environ, work_path, request["bank"])
    device = request["device"]
    if device is None:  # that of the environment, which a launch would number itself
        number = read_number(os.environ, "ASCEND_DEVICE_ID")
        device = number if number is not None and number >= 0 else None
    environ = {**os.environ, **added}
    if mode != MODES["gradient"]:  # which is tuned in a job of several ranks
        environ["RANK_SIZE"] = "1"
        environ.pop("CM_WORKER_SIZE", None)
    if device is not None:
        environ["ASCEND_DEVICE_ID"] = str(device)
    return _Tuning(mode, config, refusal, added, device, environ)


def check_conditions(request: Mapping[str, Any]) -> AoePlan:
    """Measure the conditions of the run that ``ascend-session aoe run --dry-run`` is about.

    Nothing is made or started, and there need be neither a device nor a script.

    Raises:
        AscendError: For a mode that is none, and if the run would not use the device that is here.
        typer.BadParameter: If there is no such configuration file.
    """
    tuning = _describe_run(request)
    named = [request[name] for name in ("work_path", "bank") if request[name] is not None]
    plan = _measure_conditions(tuning, request, list(map(os.path.abspath, named)))
    if plan.has_device:
        _require_device_backend(request["backend"])
    return plan


def _measure_conditions(
    tuning: _Tuning, known: Mapping[str, Any], new_folders: Sequence[str] = ()
) -> AoePlan:
    """Measure the conditions of a tuning run.

    Args:
        tuning: The run.
        known: Options by name, among them those of `KnownFacts`.
        new_folders: Folders that the run would make.
    """
    names = [field.name for field in dataclasses.fields(KnownFacts)]
    facts = {name: known[name] for name in names if known[name] is not None}
    plan = AoePlan.measure(
        tuning.config, tuning.mode, tuning.environ, new_folders=new_folders, **facts
    )
    if tuning.refusal is None:
        return plan
    # It was given, so that it is not to be asked for.
    hint = "Correct the configuration first."
    conditions = [
        condition._replace(hint=hint, asks=()) if "config" in condition.asks else condition
        for condition in plan.conditions
    ]
    return dataclasses.replace(plan, conditions=(*conditions, tuning.refusal))


def show_conditions(plan: AoePlan) -> None:
    """Print the conditions, what to do about those that are not fulfilled, and a verdict.

    Without a device a table would tell nothing: then only what has to be corrected is printed.
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
        for condition in plan.of(verdict)
    ]
    lines = [*_describe(plan.of(NOT_CHECKED)), *_describe(plan.of(FAILS)), "\nBefore you tune:"]
    lines += [f"  {advice}" for advice in ADVICE]
    counts = [f"{len(plan.of(verdict))} {verdict}" for verdict in (OK, NOT_CHECKED)]
    count = len(plan.of(FAILS))
    counts.append(f"{count} {'fails' if count == 1 else 'fail'}")
    lines.append(f"\n{len(plan.conditions)} conditions: {', '.join(counts)}.")
    typer.echo(f"{plan.mode} tuning\n")
    show_table(("CONDITION", "VERDICT", "MEASURED", "NEEDED"), rows)
    show_text("\n".join(lines))


def _show_without_device(plan: AoePlan) -> None:
    """Say that there is no device, and which conditions fail besides."""
    failing = plan.of(FAILS)
    others = [condition.name for condition in failing if condition.name not in _IN_CONFIGURATION]
    lines = [f"{plan.mode} tuning needs an Ascend device, and this machine has none."]
    if others:
        lines.append(f"Other conditions that fail on this machine: {', '.join(others)}.")
    lines.append(f"  hint: {ELSEWHERE}")
    lines += _describe(condition for condition in failing if condition.name in _IN_CONFIGURATION)
    show_text("\n".join(lines))


def _describe(conditions: Iterable[TuningCondition]) -> Iterator[str]:
    """Say what is not fulfilled; conditions with the same hint stand together above it."""
    by_hint: Dict[str, List[TuningCondition]] = {}
    for condition in conditions:
        by_hint.setdefault(condition.hint or "", []).append(condition)
    for hint, alike in by_hint.items():
        yield ""
        for condition in alike:
            yield f"{condition.name}, {condition.verdict}: {spell_options(condition.message)}"
        if hint:
            yield f"  hint: {spell_options(hint)}"


def run_tuning(request: Mapping[str, Any]) -> int:
    """Do what ``ascend-session aoe run`` is asked by its parameters; return its exit code.

    Raises:
        AscendError: If that is not possible; nothing was started then.
        typer.BadParameter: For a mode that one process cannot tune.
    """
    tuning = _describe_run(request)
    if tuning.mode == MODES["gradient"]:
        message = (
            "gradient tuning needs several ranks; run `ascend-session launch --env AOE_MODE=4`."
        )
        raise typer.BadParameter(message, param_hint="--mode")
    _require_device_backend(request["backend"])
    _make_folders(request)
    if not request["no_preflight"]:
        try:
            with exit_on_signals():
                plan = _measure_conditions(tuning, request)
        except KeyboardInterrupt:
            complain("Interrupted before anything was started.")
            return 128 + signal.SIGINT
        if not _may_start(plan, bool(request["wait_for_devices"])):
            return 1
    environ = tuning.environ
    before = find_earlier_results(environ)
    from ascend_session.cli._launch_run import run_job

    with _ProgressWatch(environ, before) as watch:
        code = run_job(_launch_config(request, tuning), False, watch.note, {})
    if not watch.has_begun:
        return code
    is_tuned = _report(environ, before)
    if is_tuned and code == 0:
        _suggest_verification(tuning.mode, environ)
    return code if code or is_tuned else 1


def _require_device_backend(name: Optional[str]) -> None:
    choice = choose(name or "auto", os.environ)
    if backend_class(choice.name).capabilities["AOE tuning"] is not True:
        raise BackendError(
            f"AOE tunes only on a device, but this would run on the {choice.name}: "
            f"{choice.reason}.",
            hint="Run it on a machine with a device.",
        )


def _make_folders(request: Mapping[str, Any]) -> None:
    """Make the folders that were named here; those in variables are somebody else's."""
    for flag, folder in (("--work-path", request["work_path"]), ("--bank", request["bank"])):
        if folder is not None:
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as failure:
                message = f"{folder} cannot be made: {failure.strerror}."
                raise typer.BadParameter(message, param_hint=flag) from None


def _may_start(plan: AoePlan, waits: bool) -> bool:
    """Tell, and say, whether nothing is in the way but, perhaps, who will be waited for."""
    failing = {condition.name for condition in plan.of(FAILS)}
    is_held = waits and ONE_USER in failing
    if failing - ({ONE_USER, DEVICE_MEMORY} if is_held else set()):
        show_conditions(plan)
        complain("Nothing was started.", "To start anyway, give --no-preflight.", ERROR)
        return False
    unknown = f"{len(plan.of(NOT_CHECKED))} could not be checked"
    if is_held:
        complain(f"Waiting for the device, which is in use. No other condition fails; {unknown}.")
    else:
        complain(f"No condition fails; {unknown}.")
    return True


def _launch_config(request: Mapping[str, Any], tuning: _Tuning) -> "LaunchConfig":
    from ascend_session.launcher.config import LaunchConfig

    settings = {
        "module" if request["as_module"] else "script": request["what"],
        "args": request["arguments"] or [],
        "devices": None if tuning.device is None else [tuning.device],
        **{name: request[name] for name in ("backend", "python", "log_dir", "wait_for_devices")},
    }
    return LaunchConfig(
        processes=1,
        nnodes=1,
        env=tuning.added,
        bind="none",  # the manual of AOE advises against binding
        preflight=not request["no_preflight"],
        **{name: value for name, value in settings.items() if value is not None},
    )


class _ProgressWatch:
    """Looks how far the run is, in a thread of its own, from its start to its end."""

    def __init__(self, environ: Mapping[str, str], before: "Mapping[str, FileState]") -> None:
        self.has_begun = False
        self._environ = environ
        self._before = before
        self._progress: Optional[TuningProgress] = None
        self._say: Callable[[str], None] = complain
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="aoe progress", daemon=True)

    def __enter__(self) -> "_ProgressWatch":
        return self

    def __exit__(self, *failed: object) -> None:
        self._end()

    def note(self, event: Event, say: Callable[[str], None]) -> None:
        """Take an event of the launch."""
        if isinstance(event, Planned):
            rank = event.plan.ranks[0]
            self._say, self.has_begun = say, True
            logs = [rank.stdout, rank.stderr, rank.plog]
            self._progress = TuningProgress(logs, self._environ, self._before)
        elif isinstance(event, Started):
            self._thread.start()
        elif isinstance(event, Finished):
            self._end()
            self._look()  # what came since the last look

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        for sentence in [] if self._progress is None else self._progress.look():
            self._say(sentence)

    def _end(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()


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
    show_view(View.of(results))
    return results.ok


def _suggest_verification(mode: str, environ: Mapping[str, str]) -> None:
    """Say how to see whether tuning has helped (manual of AOE, performance verification)."""
    repository = find_repository(mode, environ)
    where = "HOME as it is now"
    if repository.variable:
        where = f"{repository.variable}={shlex.quote(repository.base)}"
    complain(
        f"To measure the gain, run the script once with cfg.for_verifying({mode_word(mode)!r}) "
        f"and {where}: the tuned repository is {repository.path}."
    )
