"""The request for a tuning run: its conditions, its launch, and its progress."""

import dataclasses
import os
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ascend_session.aoe.conditions import FAILS, TuningCondition, TuningFacts
from ascend_session.aoe.plan import AoePlan, choose_mode
from ascend_session.aoe.run import TuningProgress, make_variables
from ascend_session.backends import backend_class, choose
from ascend_session.cluster.variables import read_number
from ascend_session.config.tuning import MODES, mode_number
from ascend_session.errors import BackendError, ConfigError
from ascend_session.launcher.events import Event, Finished, Planned
from ascend_session.launcher.job.events import Started
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.spelling import option, template_of

if TYPE_CHECKING:
    from ascend_session.aoe.run import FileState
    from ascend_session.config.ascend_config import AscendConfig

_LOOK_EVERY_S = 1.0  # between two readings of the progress


class TuningRequest(NamedTuple):
    """A tuning run that ``ascend-session aoe run`` was asked for.

    Attributes:
        mode: What is tuned: ``"1"`` (subgraphs), ``"2"`` (operators) or ``"4"`` (gradients).
        config: The configuration of the script; None if not known.
        refusal: A failed condition if the configuration is invalid; else None.
        added: Variables that are added for the run.
        device: Logical id of the device; None for the first.
        environ: The environment in which the conditions are checked.
    """

    mode: str
    config: "Optional[AscendConfig]"
    refusal: Optional[TuningCondition]
    added: Dict[str, str]
    device: Optional[int]
    environ: Dict[str, str]


def read_request(request: Mapping[str, Any]) -> TuningRequest:
    """Read the parameters of ``ascend-session aoe run``.

    Raises:
        ConfigError: If the mode is not one of AOE's.
    """
    config, refusal = _read_config(request["config"])
    mode = mode_number(request["mode"] or choose_mode(config, os.environ))
    work_path = request["work_path"]
    if work_path is None and config is not None and not os.environ.get("ASCEND_WORK_PATH"):
        # AOE writes result files there, unless a variable names another folder.
        work_path = None if config.work_path is None else os.fspath(config.work_path)
    added = make_variables(mode, os.environ, work_path, request["bank"])
    device = request["device"]
    if device is None:  # keep the device of the environment: a launch would choose one itself
        number = read_number(os.environ, "ASCEND_DEVICE_ID")
        device = number if number is not None and number >= 0 else None
    environ = {**os.environ, **added}
    if mode != MODES["gradient"]:  # which is tuned in a job of several ranks
        environ["RANK_SIZE"] = "1"
        environ.pop("CM_WORKER_SIZE", None)
    if device is not None:
        environ["ASCEND_DEVICE_ID"] = str(device)
    return TuningRequest(mode, config, refusal, added, device, environ)


def _read_config(
    file: Optional[str],
) -> "Tuple[Optional[AscendConfig], Optional[TuningCondition]]":
    """Read a configuration file; return the configuration, and a failed condition if invalid."""
    if file is None:
        return None, None
    from ascend_session.config.file_report import report_file
    from ascend_session.config.files import spell_as_in_file

    report = report_file(file)
    if report.ok:
        return report.config, None
    problems = list(map(spell_as_in_file, report.problems))
    messages = [f"{report.place_of(problem)}: {problem.message}" for problem in problems]
    hints = [problem.hint for problem in problems if problem.hint]
    count = f"{len(messages)} wrong"
    hint = " ".join(hints) or None
    return report.config, TuningCondition(
        "configuration", FAILS, count, "valid", " ".join(messages), hint
    )


def measure_conditions(
    tuning: TuningRequest, parameters: Mapping[str, Any], new_folders: Sequence[str] = ()
) -> AoePlan:
    """Measure the conditions of a tuning run.

    Args:
        tuning: The run.
        parameters: Parameters of the command by name; those of `TuningFacts` are used.
        new_folders: Folders that the command would create.
    """
    names = [field.name for field in dataclasses.fields(TuningFacts)]
    facts = {name: parameters[name] for name in names if parameters[name] is not None}
    plan = AoePlan.measure(
        tuning.config, tuning.mode, tuning.environ, new_folders=new_folders, **facts
    )
    if tuning.refusal is None:
        return plan
    # A configuration was given, so no condition has to ask for one.
    hint = "Correct the configuration first."
    conditions = [
        condition._replace(hint=hint, asks=()) if "config" in condition.asks else condition
        for condition in plan.conditions
    ]
    return dataclasses.replace(plan, conditions=(*conditions, tuning.refusal))


def require_device_backend(name: Optional[str]) -> None:
    """Check that a run would use a device.

    Raises:
        BackendError: If it would run on a backend that cannot tune.
    """
    choice = choose(name or "auto", os.environ)
    if backend_class(choice.name).capabilities["AOE tuning"] is not True:
        raise BackendError(
            f"AOE tunes only on a device, but this would run on the {choice.name}: "
            f"{template_of(choice.reason)}.",
            hint="Run it on a machine with a device.",
        )


def make_folders(request: Mapping[str, Any]) -> None:
    """Create the folders that options name; folders that variables name have to exist.

    Raises:
        ConfigError: If a folder cannot be created.
    """
    for name in ("work_path", "bank"):
        folder = request[name]
        if folder is not None:
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as failure:
                message = f"{option(name, folder)} cannot be created: {failure.strerror}."
                raise ConfigError(message) from None


def make_launch_config(request: Mapping[str, Any], tuning: TuningRequest) -> LaunchConfig:
    """Make the launch options of a run: one rank, which is not bound to CPUs."""
    settings = {
        "module" if request["as_module"] else "script": request["what"],
        "args": request["arguments"],
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


class ProgressWatch:
    """Reports the progress of a run, from a thread."""

    def __init__(self, environ: Mapping[str, str], before: "Mapping[str, FileState]") -> None:
        self.has_begun = False
        self._environ = environ
        self._before = before
        self._progress: Optional[TuningProgress] = None
        self._say: Optional[Callable[[str], None]] = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="aoe progress", daemon=True)

    def __enter__(self) -> "ProgressWatch":
        return self

    def __exit__(self, *failed: object) -> None:
        self._end()

    def note(self, event: Event, say: Callable[[str], None]) -> None:
        """Handle an event of the launch; ``say`` prints a sentence."""
        if isinstance(event, Planned):
            rank = event.plan.ranks[0]
            self._say, self.has_begun = say, True
            logs = [rank.stdout, rank.stderr, rank.plog]
            self._progress = TuningProgress(logs, self._environ, self._before)
        elif isinstance(event, Started):
            self._thread.start()
        elif isinstance(event, Finished):
            self._end()
            self._look()  # what happened since the last reading

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        if self._progress is not None and self._say is not None:
            for sentence in self._progress.look():
                self._say(sentence)

    def _end(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
