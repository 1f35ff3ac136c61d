"""Runs one process in which AOE tunes: checks first, shows how far it is, and says what came."""

import os
import shlex
import signal
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Tuple

import typer

from ascend_session.aoe.conditions import FAILS
from ascend_session.aoe.host_conditions import DEVICE_MEMORY, ONE_USER
from ascend_session.aoe.plan import AoePlan, choose_mode
from ascend_session.aoe.run import (
    TuningProgress,
    find_earlier_results,
    find_new_results,
    find_repository,
    make_variables,
)
from ascend_session.backends import choose
from ascend_session.cli._aoe_preflight import measured, read_config, show
from ascend_session.cli._ending import programs_ended_with_this
from ascend_session.cli._output import complain
from ascend_session.cluster.variables import read_number as number_of
from ascend_session.config.tuning import MODES, mode_number, mode_word
from ascend_session.errors import BackendError
from ascend_session.findings import NOT_CHECKED
from ascend_session.launcher.events import Event, Finished, Planned, Started

if TYPE_CHECKING:
    from ascend_session.aoe.run import FileState
    from ascend_session.config.ascend_config import AscendConfig
    from ascend_session.launcher.config import LaunchConfig

__all__ = ["tuned"]

_LOOK = 1.0  # seconds between two looks how far the run is


def tuned(asked: Mapping[str, Any]) -> int:
    """Does what ``ascend-session aoe run`` is asked; returns its exit code.

    Args:
        asked: The parameters of the command.

    Raises:
        AscendError: If what was asked cannot be; nothing was started then.
        typer.BadParameter: For a mode that one process cannot tune.
    """
    config, refused = read_config(asked["config"], "--config")
    number = mode_number(asked["mode"] or choose_mode(config, os.environ))
    if number == MODES["gradient"]:
        said = (
            "gradient splitting is tuned in a job of several ranks, and this runs one process; "
            "`ascend-session launch --env AOE_MODE=4` runs several."
        )
        raise typer.BadParameter(said, param_hint="--mode")
    _refuse_the_stub(asked["backend"])
    _make_folders(asked)
    folder = asked["work_path"] or _work_path_of(config, os.environ)
    added = make_variables(number, os.environ, folder, asked["bank"])
    device = asked["device"] if asked["device"] is not None else _device_of(os.environ)
    environ = _environment(os.environ, added, device)
    if not asked["no_preflight"]:
        try:
            with programs_ended_with_this():
                plan = measured(config, refused, {**asked, "mode": number}, environ)
        except KeyboardInterrupt:
            complain("Interrupted before anything was started.")
            return 128 + signal.SIGINT
        if not _may_start(plan, bool(asked["wait_for_devices"])):
            return 1
    before = find_earlier_results(environ)
    code, was_begun = _run(_launch_config(asked, added, device), environ, before)
    if not was_begun:
        return code
    is_well = _report(environ, before)
    if is_well and code == 0:
        _what_now(number, environ)
    return code if code or is_well else 1


def _refuse_the_stub(backend: Optional[str]) -> None:
    choice = choose(backend or "auto", os.environ)
    if choice.name == "stub":
        raise BackendError(
            f"AOE tunes on a device only, and this would run on the stub: {choice.reason}.",
            hint="Run it where an Ascend processor is; `ascend-session aoe preflight` and "
            "`ascend-session launch` run anywhere.",
        )


def _may_start(plan: AoePlan, waits: bool) -> bool:
    """Whether nothing stands in the way but, perhaps, who will be waited for; says so."""
    failing = {one.name for one in plan.of(FAILS)}
    is_held = waits and ONE_USER in failing
    if failing - ({ONE_USER, DEVICE_MEMORY} if is_held else set()):
        show(plan)
        complain("Nothing was started.", "With --no-preflight it starts all the same.")
        return False
    held = "The device is held, which is waited for. " if is_held else ""
    unknown = len(plan.of(NOT_CHECKED))
    complain(f"{held}No {'other ' * is_held}condition fails; {unknown} could not be checked.")
    return True


def _make_folders(asked: Mapping[str, Any]) -> None:
    """Makes the folders that were named here; those in variables are somebody else's."""
    for flag, name in (("--work-path", "work_path"), ("--bank", "bank")):
        if asked[name] is not None:
            try:
                os.makedirs(asked[name], exist_ok=True)
            except OSError as failure:
                said = f"{asked[name]} cannot be made: {failure.strerror}."
                raise typer.BadParameter(said, param_hint=flag) from None


def _environment(
    environ: Mapping[str, str], added: Mapping[str, str], device: Optional[int]
) -> Dict[str, str]:
    """The environment of the run as far as conditions look at it: a launch of one rank."""
    found = {**environ, **added, "RANK_SIZE": "1"}
    found.pop("CM_WORKER_SIZE", None)
    if device is not None:
        found["ASCEND_DEVICE_ID"] = str(device)
    return found


def _work_path_of(config: "Optional[AscendConfig]", environ: Mapping[str, str]) -> Optional[str]:
    """AOE's own place for result files, the option work_path, if no variable says another."""
    if config is None or config.work_path is None or environ.get("ASCEND_WORK_PATH"):
        return None
    return os.fspath(config.work_path)


def _launch_config(
    asked: Mapping[str, Any], added: Dict[str, str], device: Optional[int]
) -> "LaunchConfig":
    from ascend_session.launcher.config import LaunchConfig

    kind = "module" if asked["as_module"] else "script"
    given = {
        kind: asked["what"],
        "args": asked["arguments"] or [],
        "devices": None if device is None else [device],
        "backend": asked["backend"],
        "python": asked["python"],
        "log_dir": asked["log_dir"],
        "wait_for_devices": asked["wait_for_devices"],
    }
    return LaunchConfig(
        processes=1,
        nnodes=1,
        env=added,
        bind="none",  # the manual of AOE advises against binding
        preflight=not asked["no_preflight"],
        **{name: value for name, value in given.items() if value is not None},
    )


def _device_of(environ: Mapping[str, str]) -> Optional[int]:
    """The device that the environment names, which a launch would number itself."""
    found = number_of(environ, "ASCEND_DEVICE_ID")
    return found if found is not None and found >= 0 else None


def _run(
    config: "LaunchConfig", environ: Mapping[str, str], before: "Mapping[str, FileState]"
) -> Tuple[int, bool]:
    """The exit code, and whether anything was begun."""
    from ascend_session.cli._launch_run import run

    with _Watch(environ, before) as watch:
        code = run(config, False, watch.note)
    return code, watch.was_begun


class _Watch:
    """Looks how far the run is, in a thread of its own, from its start to its end."""

    def __init__(self, environ: Mapping[str, str], before: "Mapping[str, FileState]") -> None:
        self.was_begun = False
        self._environ = environ
        self._before = before
        self._progress: Optional[TuningProgress] = None
        self._say: Callable[[str], None] = complain
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="aoe progress", daemon=True)

    def __enter__(self) -> "_Watch":
        return self

    def __exit__(self, *failed: object) -> None:
        self._end()

    def note(self, event: Event, say: Callable[[str], None]) -> None:
        """Takes an event of the launch."""
        if isinstance(event, Planned):
            rank = event.plan.ranks[0]
            self._say, self.was_begun = say, True
            logs = [rank.stdout, rank.stderr, rank.plog]
            self._progress = TuningProgress(logs, self._environ, self._before)
        elif isinstance(event, Started):
            self._thread.start()
        elif isinstance(event, Finished):
            self._end()
            self._look()  # what came since the last look

    def _watch(self) -> None:
        while not self._over.wait(_LOOK):
            self._look()

    def _look(self) -> None:
        for sentence in [] if self._progress is None else self._progress.look():
            self._say(sentence)

    def _end(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()


def _report(environ: Mapping[str, str], before: "Mapping[str, FileState]") -> bool:
    """Shows what the result files of the run say; whether there are any, and no tuning failed."""
    from ascend_session.aoe.result_files import result_folders
    from ascend_session.aoe.results import read_results
    from ascend_session.cli.aoe_report import show_results

    found = list(find_new_results(environ, before))
    if not found:
        folders = " or ".join(map(os.path.abspath, result_folders(environ)))
        said = f"No result file of AOE came into {folders}: nothing was tuned."
        complain(said, "The log says what AOE did; the script has to open its session on a device.")
        return False
    for path in found:
        complain(f"result file: {path}", f"ascend-session aoe report {shlex.quote(path)}")
    results = read_results(found)
    show_results(results)
    return results.ok


def _what_now(number: str, environ: Mapping[str, str]) -> None:
    """Say how to see whether tuning has helped (manual of AOE, performance verification)."""
    found = find_repository(number, environ)
    where = f"{found.variable}={shlex.quote(found.base)}" if found.variable else "HOME as it is now"
    complain(
        f"To see what it brings, run the script once with cfg.for_verifying({mode_word(number)!r}) "
        f"and {where}: the tuned repository is {found.path}."
    )
