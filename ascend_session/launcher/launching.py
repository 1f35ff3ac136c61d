"""What the command ``launch`` does, from Python."""

import contextlib
import errno
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Callable, List, Mapping, Optional

from ascend_session.errors import AscendError, JobError
from ascend_session.launcher.binding import not_bound
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.events import Event, Finished, Restarting, Waiting
from ascend_session.launcher.open_files import standard_streams
from ascend_session.launcher.output import Output
from ascend_session.launcher.plan import Plan, plan
from ascend_session.launcher.preflight import checked_plan
from ascend_session.launcher.signals import Signals
from ascend_session.launcher.supervisor import supervise

if TYPE_CHECKING:
    from ascend_session.launcher.event_file import EventFile
    from ascend_session.launcher.result import Attempt, LaunchResult

__all__ = ["launch", "launch_within"]

_RELEASE = 5.0  # seconds that a driver may take to let go of what a killed process held


def launch(
    config: LaunchConfig,
    *,
    output: Optional[int] = None,
    on_event: Optional[Callable[[Event], None]] = None,
) -> "LaunchResult":
    """Runs a job on this server, and returns when no process of it lives any more.

    While it runs, SIGINT, SIGTERM, SIGHUP and SIGQUIT end the job, if this is the main thread; the
    signal is sent again when that is done, so that Ctrl-C is a KeyboardInterrupt here too.

    Args:
        config: What is asked.
        output: File descriptor to which the ranks' lines are written; None means that of
            ``sys.stdout``.
        on_event: Is told what happens, in this thread, see ``launcher.events``. What it raises
            ends the job, and comes out here.

    Returns:
        What became of it; a job that failed raises nothing.

    Raises:
        BackendError: If the backend is not known.
        ConfigError: If the config asks for what cannot be.
        DeviceError: If the devices asked for are not there, or are no job on this product.
        DeviceTimeoutError: If devices were waited for and are still held.
        JobError: If the ranks could not be one job, or cannot be started.
        PreflightError: If something else stands in the way, or several things do.
    """
    environ = dict(os.environ)

    def tell(who: str) -> None:
        assert on_event is not None
        on_event(Waiting(who, time.time()))

    with standard_streams():  # before the plan, for it may open sockets
        first = checked_plan(config, environ, None if on_event is None else tell)
        with first.reserved, Signals() as signals:
            if output is None:  # Python has no sys.stdout if it was started with none
                output = int(getattr(sys.stdout, "fileno", lambda: 1)())
            result = launch_within(signals, config, environ, first, output, on_event or _ignore)
    signals.raise_again()
    return result


def launch_within(
    signals: Signals,
    config: LaunchConfig,
    environ: Mapping[str, str],
    first: Plan,
    output: int,
    on_event: Callable[[Event], None],
    words: Optional[int] = None,
    on_output: Optional[Callable[[Output], None]] = None,
) -> "LaunchResult":
    """Runs a job as `launch` does, for one who has taken over the signals.

    Args:
        signals: The signals that end it.
        config: What is asked.
        environ: The launcher's environment.
        first: The plan of the first attempt. It is made before the signals are taken over, for
            that may wait for others and nothing is to be ended yet. Whoever made it lets go of
            its ports if the attempt does not begin.
        output: File descriptor to which the ranks' lines are written.
        on_event: Is told what happens.
        words: File descriptor to which the launcher's own lines are written; None means
            ``output``.
        on_output: Is told where lines go, before anything happens.
    """
    colour = os.isatty(output) and not environ.get("NO_COLOR")
    at_the_end = contextlib.ExitStack()
    try:
        events = None if config.events is None else at_the_end.enter_context(_file(config.events))
        _make_folder(config, first)
        shown = Output(output, first.size, first.shown, config.timestamps, colour, words)
        at_the_end.callback(shown.close, signals)
        if on_output is not None:
            on_output(shown)

        def tell(event: Event) -> None:
            if events is not None:
                events.write(event, shown.notices)
            on_event(event)

        return _Launch(signals, config, environ, shown, tell).run(first)
    finally:
        at_the_end.close()


def _make_folder(config: LaunchConfig, first: Plan) -> None:
    try:
        os.makedirs(first.folder, exist_ok=True)
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            return  # the job can go on without logs, and will say so
        asked = "" if config.log_dir is None else f"log_dir={config.log_dir!r}: "
        raise JobError(
            f"{asked}the folder {first.folder} cannot be made: {failure.strerror}.",
            hint="Give log_dir, a folder in which this user may write.",
        ) from None


def _file(path: str) -> "EventFile":
    from ascend_session.launcher.event_file import EventFile

    return EventFile(path)


class _ToldError(Exception):
    """A signal came while no rank ran."""


class _Launch:
    def __init__(
        self,
        signals: Signals,
        config: LaunchConfig,
        environ: Mapping[str, str],
        output: Output,
        on_event: Callable[[Event], None],
    ) -> None:
        self._signals = signals
        self._config = config
        self._environ = environ
        self._output = output
        self._on_event = on_event
        self._attempts: List[Attempt] = []
        self._notes: List[str] = []
        self._is_told = False  # while no rank ran

    def run(self, first: Plan) -> "LaunchResult":
        self._notes += first.notes
        last = self._attempt(first)
        from ascend_session.launcher.result import LaunchResult

        if last.cause is not None and self._config.max_restarts:
            last = self._again(first, last)
        code = 0 if last.cause is None else last.cause.exit_code
        if code and self._is_told:
            code = 128 + self._signals.noted[0]
        result = LaunchResult(
            code=code,
            run=first.run,
            backend=first.backend,
            attempts=tuple(self._attempts),
            notes=tuple(dict.fromkeys([*self._notes, *self._output.troubles])),
        )
        self._on_event(Finished(result, time.time()))
        return result

    def _attempt(self, planned: Plan) -> "Attempt":
        with planned.reserved:
            noticed = supervise(
                planned,
                self._config.grace,
                self._output,
                self._signals,
                self._on_event,
                self._config.stall_timeout,
            )
        self._signals.take()  # what came meanwhile is noted, and came while ranks ran
        from ascend_session.launcher.why import judged

        attempt = judged(planned, noticed, self._config.stall_timeout)
        self._attempts.append(attempt)
        self._notes += [not_bound(one.rank, one.text) for one in noticed.not_bound]
        if planned.backend == "npu":
            from ascend_session.launcher.release import still_held

            self._notes += still_held(planned, self._environ, _RELEASE)
        return attempt

    def _again(self, first: Plan, last: "Attempt") -> "Attempt":
        from ascend_session.launcher.restarts import restarting

        def another() -> "Optional[Attempt]":
            number, what = len(self._attempts) + 1, "could not be planned"
            try:
                planned = plan(self._config, self._environ, attempt=number, run=first.run)
                what = "was not started"
                self._await_devices(planned)
            except AscendError as failure:  # what there was is still to be told
                said = f"{failure.message} {failure.hint or ''}".rstrip()
                self._notes.append(f"Attempt {number} {what}: {said}")
                return None
            except _ToldError:
                return None
            return self._attempt(planned)

        return restarting(self._config.max_restarts, last, another, self._wait)

    def _wait(self, why: str, seconds: float) -> bool:
        """Waits before another attempt; returns whether there is to be one."""
        if self._signals.noted:  # while ranks ran, or since
            self._is_told = bool(self._signals.take())
            return False
        self._on_event(Restarting(why, seconds, time.time()))
        self._output.say(f"{why} The job is started again in {seconds:g} s.")
        with contextlib.suppress(_ToldError):
            self._doze(seconds)
        return not self._is_told

    def _await_devices(self, planned: Plan) -> None:
        if planned.backend == "npu":
            from ascend_session.launcher.preflight_npu import check_free_again

            check_free_again(planned, self._config, self._environ, self._held, self._doze)

    def _held(self, who: str) -> None:
        self._on_event(Waiting(who, time.time()))
        self._output.say(who)

    def _doze(self, seconds: float) -> None:
        """Sleeps until a signal ends that, which is raised."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.poll(seconds * 1000)
        self._is_told = bool(self._signals.take())
        if self._is_told:
            raise _ToldError


def _ignore(event: Event) -> None:
    pass
