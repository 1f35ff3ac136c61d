"""The command ``launch`` as a function.

After a failure that is known to pass, or after the death of a rank that somebody killed, the whole
job is tried again, always with new processes.
Source of the waits between attempts: guides/facts/failures.md#waits
"""

import contextlib
import dataclasses
import io
import os
import select
import signal
import sys
import time
from typing import Callable, Iterator, List, Optional

from ascend_session.backends.exchange.folder import remove_abandoned
from ascend_session.cluster.records import clear_records
from ascend_session.cluster.variables import RENDEZVOUS
from ascend_session.errors import AscendError, ConfigError, JobError
from ascend_session.launcher.events import Event, EventFile, Finished, Restarting, Resumed, Waiting
from ascend_session.launcher.job.attempt import Attempt, Cause
from ascend_session.launcher.job.events import Located, Reported
from ascend_session.launcher.job.guardian_process import GuardianProcess
from ascend_session.launcher.job.signals import Signals
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.cpus import not_bound
from ascend_session.launcher.plan.decided import make_absolute
from ascend_session.launcher.plan.plan import Plan, plan_job
from ascend_session.launcher.plan.preflight import checked_plan
from ascend_session.launcher.show.following import Output
from ascend_session.launcher.show.screen import Target, can_redraw
from ascend_session.launcher.supervisor import supervise
from ascend_session.launcher.verdict.result import (
    RESULT_NAME,
    LaunchResult,
    begin_result,
    format_result,
    judge,
    write_result,
)
from ascend_session.launcher.verdict.training import judge_training
from ascend_session.spelling import Message, option, template_of

_RELEASE_S = 5.0  # that a driver may take to let go of what a killed process held
_KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)  # exit codes, as a shell counts
_WAIT_WITHOUT_DEVICES_S = 1.0  # after a rank was killed, where no driver has to clean up


def launch(
    config: LaunchConfig,
    *,
    output: Optional[int] = None,
    on_event: Optional[Callable[[Event], None]] = None,
) -> LaunchResult:
    """Run a job on this server, and return when no process of it lives any more.

    While it runs, a signal that ends a process ends the job, if this is the main thread; the signal
    is sent again when that is done, so that Ctrl-C is a KeyboardInterrupt here too. SIGUSR1 and
    SIGUSR2 go on to the ranks that catch them, and SIGTSTP (Ctrl-Z) stops the ranks as well.

    Args:
        config: The options of the launch.
        output: File descriptor to which the ranks' lines are written; None means
            ``sys.stdout``: its descriptor, or itself if it is none of a file, as in a notebook.
        on_event: Takes what happens, in this thread, see ``launcher.events``. What it raises
            ends the job, and comes out here.

    Returns:
        What became of it; a job that failed raises nothing.

    Raises:
        BackendError: If the backend is not known, or ASCEND_SESSION_STUB_DEVICES is not a number.
        ConfigError: If the options ask for something impossible.
        DeviceError: If the devices are not there, or cannot be one job on this product.
        DeviceTimeoutError: If devices were waited for and are still held.
        JobError: If the ranks could not be one job, or cannot be started.
        PreflightError: If something else stands in the way, or several things do.
    """
    if not isinstance(config, LaunchConfig):
        hint = 'Write launch(LaunchConfig(script="train.py")).'
        raise ConfigError(f"launch takes a LaunchConfig, not {config!r}.", hint=hint)
    environ = dict(os.environ)
    pass_on = on_event or (lambda event: None)

    def wait(who: str) -> None:
        pass_on(Waiting(who, time.time()))

    with _standard_streams(), GuardianProcess(config) as guardian:
        first = checked_plan(config, environ, None if on_event is None else wait)
        with Signals() as signals:
            target = _find_stdout() if output is None else output
            result = launch_within(first, guardian, signals, target, pass_on)
    signals.raise_again()
    return result


@contextlib.contextmanager
def _standard_streams() -> Iterator[None]:
    """Keep /dev/null where the caller has closed a standard stream.

    The next file that is opened would take its place: what is meant for the stream would get into
    the launcher's own pipes.
    """
    opened = []
    try:
        for fd in range(3):
            try:
                os.fstat(fd)
            except OSError:
                opened.append(os.open(os.devnull, os.O_RDWR))  # the lowest free number: this one
        yield
    finally:
        for fd in opened:
            os.close(fd)


def _find_stdout() -> Target:
    """Find where ``print`` writes: a descriptor, or a stream that has none of its own.

    A notebook's stream names the descriptor of the server's log, and is not written to that.
    """
    stream = sys.stdout
    if stream is None:  # as Python was started without one
        return 1
    if isinstance(stream, io.TextIOWrapper):
        with contextlib.suppress(OSError, ValueError):  # a buffer in memory, or closed
            fd = stream.fileno()
            with contextlib.suppress(OSError):  # a full disk, or a pipe that does not block
                stream.flush()  # what the program has printed before stands above
            return fd
    return stream


def launch_within(
    first: Plan,
    guardian: GuardianProcess,
    signals: Signals,
    output: Target,
    on_event: Callable[[Event], None],
    words: Optional[int] = None,
    on_output: Optional[Callable[[Output], None]] = None,
    on_report: Callable[[Reported], None] = lambda report: None,
) -> LaunchResult:
    """Run a job as `launch` does, for a caller who has taken over the signals.

    Args:
        first: The plan of the first attempt. It is made before the signals are taken over, for
            that may wait for others and nothing is to be ended yet.
        guardian: Runs this attempt.
        signals: The signals that end it.
        output: File descriptor, or stream of text, to which the ranks' lines are written.
        on_event: Takes what happens.
        words: File descriptor to which the launcher's own lines are written; None means
            ``output``.
        on_output: Takes the `Output` before anything happens.
        on_report: Takes what ranks report.
    """
    config = first.config
    is_terminal = isinstance(output, int) and can_redraw(output)
    colour = is_terminal and not first.environ.get("NO_COLOR")
    stack = contextlib.ExitStack()
    try:
        events = None if config.events is None else stack.enter_context(EventFile(config.events))
        if config.record is not None:
            clear_records(make_absolute(config.record), (rank.rank for rank in first.ranks))
        _make_folder(config, first.folder)
        job_output = Output(
            output,
            first.size,
            first.shown,
            config.timestamps,
            colour,
            words,
            is_terminal=is_terminal,
        )
        stack.callback(job_output.close, signals.noted)
        if on_output is not None:
            on_output(job_output)
        return _Launch(first, guardian, signals, job_output, events, on_event, on_report).run()
    finally:
        stack.close()


def _make_folder(config: LaunchConfig, folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        _point_latest_to(os.path.dirname(folder))
    except OSError as failure:
        prefix = "" if config.log_dir is None else f"{option('log_dir', config.log_dir)}: "
        raise JobError(
            f"{prefix}the folder {folder} cannot be created: {failure.strerror}.",
            hint=f"Give {option('log_dir')}, a folder in which this user may write.",
        ) from None


def _point_latest_to(job_folder: str) -> None:
    """Have the link ``latest`` beside a job's folder lead there, unless that cannot be.

    What else has that name is the user's, and stays.
    """
    logs, job = os.path.split(job_folder)
    link = os.path.join(logs, "latest")
    temporary = f"{link}.{os.getpid()}"
    with contextlib.suppress(OSError):
        if os.path.lexists(link) and os.sep in os.readlink(link):  # raises for what is no link
            return
        os.symlink(job, temporary)
        try:
            os.replace(temporary, link)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


class _InterruptedError(Exception):
    """A signal came, and there is no other attempt."""


class _Launch:
    """The attempts of one launch, one after the other."""

    def __init__(
        self,
        first: Plan,
        guardian: GuardianProcess,
        signals: Signals,
        output: Output,
        events: Optional[EventFile],
        on_event: Callable[[Event], None],
        on_report: Callable[[Reported], None],
    ) -> None:
        self._first = self._last = first
        self._guardian = guardian
        self._signals = signals
        self._output = output
        self._events = events
        self._on_event = on_event
        self._on_report = on_report
        self._attempts: List[Attempt] = []
        self._notes: List[str] = [*first.notes]
        self._is_interrupted = False  # while no rank ran

    def run(self) -> LaunchResult:
        first = self._first
        planned: Optional[Plan] = first
        while planned is not None:
            self._last = planned
            last = self._run_attempt(planned)
            planned = None
            if last.cause is not None:
                planned = self._plan_next(last, last.cause)
        code = 0 if last.cause is None else last.cause.exit_code
        if code and self._is_interrupted:
            code = 128 + self._signals.noted[0]
        replaced = last.reports.replaced.get(self._last.ranks[0].rank)
        if replaced is None and first.config.set and not code:
            from ascend_session.config.overlay import describe_unused

            rank = f"rank {first.ranks[0].rank}"
            self._notes.append(describe_unused(first.config.set, rank))
        result = LaunchResult(
            code=code,
            run=first.run,
            backend=first.backend.name,
            attempts=tuple(self._attempts),
            notes=tuple(dict.fromkeys([*self._notes, *self._output.troubles])),
            set=first.config.set,
            replaced=tuple(replaced or ()),
        )
        try:
            write_result(result)
        except OSError as failure:
            note = f"{RESULT_NAME} could not be written: {failure.strerror}."
            result = dataclasses.replace(result, notes=(*result.notes, note))
        self._pass_on(Finished(result, time.time()))
        return result

    def _run_attempt(self, planned: Plan) -> Attempt:
        try:
            unfinished = format_result(begin_result(planned, self._attempts, time.time()))
            attempt = supervise(
                planned, self._guardian, self._output, self._signals, self._pass_on, unfinished
            )
        finally:
            if RENDEZVOUS in planned.ranks[0].environment:
                remove_abandoned()
        self._signals.take()  # what came meanwhile is noted, and came while ranks ran
        judge(planned, attempt)
        judge_training(planned, attempt)
        self._attempts.append(attempt)
        self._notes += [not_bound(event.rank, event.text) for event in attempt.not_bound]
        self._notes += [*attempt.lost, *attempt.model_notes]
        if planned.backend.holds_npus:
            from ascend_session.launcher.plan.preflight_npu import note_held_devices

            self._notes += note_held_devices(planned, _RELEASE_S)
        return attempt

    def _plan_next(self, last: Attempt, cause: Cause) -> Optional[Plan]:
        """Wait and plan another attempt; None if there can be none, or it would fail like this."""
        from ascend_session.failures.failure import FailureClass, RetryPolicy

        first, number = self._first, last.number + 1
        policy = RetryPolicy(attempts=first.config.max_restarts + 1)
        was_asked = last.signal is not None or bool(last.stall)
        was_killed = cause.exit_code in _KILLED and not was_asked
        if not policy.allows(last.number, cause.failure, cause.failure_class, was_killed):
            return None
        why = f"Attempt {last.number} failed: {cause.said}"
        if cause.failure is not None:
            verb = "is" if cause.failure_class is FailureClass.TRANSIENT else "may be"
            why += f" {cause.failure.code} {verb} a temporary failure."
        wait_s = policy.wait_before_next(cause.failure)
        if cause.failure is None and not first.backend.holds_npus:
            wait_s = _WAIT_WITHOUT_DEVICES_S
        what = "could not be planned"
        try:
            if self._signals.noted:  # while ranks ran, or since
                self._is_interrupted = bool(self._signals.take_ending())
                return None
            self._pass_on(Restarting(why, wait_s, time.time()))
            self._output.say(f"{why} The job is started again in {wait_s:g} s.")
            self._sleep(wait_s)
            planned = plan_job(first.config, first.environ, attempt=number, run=first.run)
            what = "was not started"
            if planned.backend.holds_npus:
                from ascend_session.launcher.plan.preflight_npu import check_free_again

                check_free_again(planned, self._say_waiting, self._sleep)
            self._guardian = GuardianProcess(first.config)
        except _InterruptedError:
            self._is_interrupted = True
            return None
        except AscendError as failure:  # how the earlier attempts failed is still to be reported
            reason = f"{template_of(failure.message)} {template_of(failure.hint or '')}".rstrip()
            self._notes.append(Message(f"Attempt {number} {what}: {reason}"))
            return None
        return planned

    def _pass_on(self, event: Event) -> None:
        if isinstance(event, Reported):
            self._on_report(event)
            return
        if isinstance(event, Resumed):
            self._output.say(f"Attempt {len(self._attempts) + 1} resumed at step {event.step}.")
        elif isinstance(event, Located):
            places = event.places or ("no rank runs",)
            self._output.say("\n  ".join(["Where the ranks are:", *places]))
        if self._events is not None:
            self._events.write(event, self._output.notices)
        self._on_event(event)

    def _say_waiting(self, who: str) -> None:
        self._pass_on(Waiting(who, time.time()))
        self._output.say(who)

    def _sleep(self, seconds: float) -> None:
        """Sleep; a signal ends that by an exception."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
            if self._signals.take_ending():
                raise _InterruptedError
