"""What the command ``launch`` does, from Python.

After a failure that is known to pass, the whole job is tried again, always with new processes.
Source: launch_facts.md, E (classes; the waits of 10 s and 60 s).
"""

import contextlib
import errno
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Callable, List, Mapping, Optional

from ascend_session.backends import backend_class
from ascend_session.cluster.variables import RENDEZVOUS
from ascend_session.errors import AscendError, JobError
from ascend_session.launcher.binding import not_bound
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.events import Event, Finished, Restarting, Waiting
from ascend_session.launcher.output import Output
from ascend_session.launcher.plan import Plan, plan
from ascend_session.launcher.preflight import checked_plan
from ascend_session.launcher.process import Signals, standard_streams
from ascend_session.launcher.supervisor import supervise

if TYPE_CHECKING:
    from ascend_session.launcher.events import EventFile
    from ascend_session.launcher.result import Attempt, LaunchResult

_RELEASE = 5.0  # seconds that a driver may take to let go of what a killed process held


def launch(
    config: LaunchConfig,
    *,
    output: Optional[int] = None,
    on_event: Optional[Callable[[Event], None]] = None,
) -> "LaunchResult":
    """Run a job on this server, and return when no process of it lives any more.

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

    with standard_streams():  # before the plan, for it may open a socket
        first = checked_plan(config, environ, None if on_event is None else tell)
        with first.held_port, Signals() as signals:
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
    """Run a job as `launch` does, for one who has taken over the signals.

    Args:
        signals: The signals that end it.
        config: What is asked.
        environ: The launcher's environment.
        first: The plan of the first attempt. It is made before the signals are taken over, for
            that may wait for others and nothing is to be ended yet. Whoever made it closes its
            ``held_port`` when this has returned.
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
        job_output = Output(output, first.size, first.shown, config.timestamps, colour, words)
        at_the_end.callback(job_output.close, signals)
        if on_output is not None:
            on_output(job_output)

        def tell(event: Event) -> None:
            if events is not None:
                events.write(event, job_output.notices)
            on_event(event)

        return _Launch(signals, config, environ, job_output, tell).run(first)
    finally:
        at_the_end.close()


def _make_folder(config: LaunchConfig, first: Plan) -> None:
    try:
        os.makedirs(first.folder, exist_ok=True)
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            return  # the job can go on without logs, and will say so
        prefix = "" if config.log_dir is None else f"log_dir={config.log_dir!r}: "
        raise JobError(
            f"{prefix}the folder {first.folder} cannot be made: {failure.strerror}.",
            hint="Give log_dir, a folder in which this user may write.",
        ) from None


def _file(path: str) -> "EventFile":
    from ascend_session.launcher.events import EventFile

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
            last = self._retry(first, last)
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
        try:
            noticed = supervise(
                planned,
                self._config.grace,
                self._output,
                self._signals,
                self._on_event,
                self._config.stall_timeout,
            )
        finally:
            if RENDEZVOUS in planned.ranks[0].environment:
                from ascend_session.backends.exchange.rendezvous import remove_abandoned

                remove_abandoned()
        self._signals.take()  # what came meanwhile is noted, and came while ranks ran
        from ascend_session.launcher.result import judge

        attempt = judge(planned, noticed, self._config.stall_timeout)
        self._attempts.append(attempt)
        self._notes += [not_bound(event.rank, event.text) for event in noticed.not_bound]
        if backend_class(planned.backend).holds_devices:
            from ascend_session.launcher.preflight_npu import still_held

            self._notes += still_held(planned, self._environ, _RELEASE)
        return attempt

    def _retry(self, first: Plan, last: "Attempt") -> "Attempt":
        """Try again as often as allowed, and as long as each failure is transient.

        Args:
            first: The plan of the first attempt.
            last: The attempt that has failed.

        Returns:
            The last attempt.
        """
        from ascend_session.failures import FailureClass, RetryPolicy

        policy = RetryPolicy()
        for number in range(2, self._config.max_restarts + 2):
            cause = last.cause
            if cause is None or cause.failure_class is not FailureClass.TRANSIENT:
                break
            if not self._wait(_why(last), policy.wait_before_next(cause.failure)):
                break
            planned = self._plan_again(number, first.run)
            if planned is None:
                break
            last = self._attempt(planned)
        return last

    def _plan_again(self, number: int, run: str) -> Optional[Plan]:
        """Plan another attempt; None if there can be none, or a signal came meanwhile."""
        what = "could not be planned"
        try:
            planned = plan(self._config, self._environ, attempt=number, run=run)
            what = "was not started"
            self._await_devices(planned)
        except AscendError as failure:  # what there was is still to be told
            reason = f"{failure.message} {failure.hint or ''}".rstrip()
            self._notes.append(f"Attempt {number} {what}: {reason}")
            return None
        except _ToldError:
            return None
        return planned

    def _wait(self, why: str, seconds: float) -> bool:
        """Wait before another attempt; return whether there is to be one."""
        if self._signals.noted:  # while ranks ran, or since
            self._is_told = bool(self._signals.take())
            return False
        self._on_event(Restarting(why, seconds, time.time()))
        self._output.say(f"{why} The job is started again in {seconds:g} s.")
        with contextlib.suppress(_ToldError):
            self._doze(seconds)
        return not self._is_told

    def _await_devices(self, planned: Plan) -> None:
        if backend_class(planned.backend).holds_devices:
            from ascend_session.launcher.preflight_npu import check_free_again

            check_free_again(planned, self._config, self._environ, self._held, self._doze)

    def _held(self, who: str) -> None:
        self._on_event(Waiting(who, time.time()))
        self._output.say(who)

    def _doze(self, seconds: float) -> None:
        """Sleep until a signal ends that, which is raised."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.poll(seconds * 1000)
        self._is_told = bool(self._signals.take())
        if self._is_told:
            raise _ToldError


def _ignore(event: Event) -> None:
    pass


def _why(attempt: "Attempt") -> str:
    cause = attempt.cause
    assert cause is not None
    code = "" if cause.failure is None else f" {cause.failure.code} is known to pass."
    return f"Attempt {attempt.number} failed: {cause.said}{code}"
