"""One attempt at a job, from its log files to the end of its last process.

`GuardianProcess` is the guardian, whose loop runs the job. If the guardian itself is killed, the
ranks end with it, by their parent-death signal. What they started does not, and belongs to nobody
then; `_end_orphans` knows it by the rank's folder in its environment, which no other job has.
"""

import contextlib
import importlib
import os
import select
import signal
import termios
import time
from typing import Any, Callable, List, Optional

from ascend_session.launcher.events import Continued, Event, Planned, Resumed
from ascend_session.launcher.job.attempt import Attempt
from ascend_session.launcher.job.events import (
    Ended,
    FromGuardian,
    NotLogged,
    PassedOn,
    Paused,
    Repeated,
    Reported,
    Stalled,
    Standing,
    Stopping,
)
from ascend_session.launcher.job.guardian_process import GuardianProcess
from ascend_session.launcher.job.job_message import describe_job
from ascend_session.launcher.job.signals import ASKING, ASKING_WHERE, PASSED_ON, TERMINATED, Signals
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.show.following import Output
from ascend_session.launcher.verdict.result import judge_ranks, note_event
from ascend_session.process import is_in_front
from ascend_session.rank_folder import ONE_STOP_S, RANK_FOLDER


def supervise(
    plan: Plan,
    guardian: GuardianProcess,
    output: Output,
    signals: Signals,
    on_event: Callable[[Event], None],
    unfinished: str = "",
) -> Attempt:
    """Run an attempt; return when no process of it lives any more.

    Args:
        plan: The attempt.
        guardian: Runs it, and ends with it.
        output: Where the ranks' lines go.
        signals: Those that the launcher gets; the first asks everyone to end, the second ends
            them.
        on_event: Takes what happens, in this thread.
        unfinished: What the guardian completes and writes if this process is killed, see
            `saved.write_result_of_killed`; empty for nothing.

    Returns:
        What was noticed, which is not judged yet.

    Raises:
        JobError: If a log file could not be made, or a thread not started.
        BaseException: What ``on_event`` raises; everyone is ended first.
    """
    with guardian, contextlib.ExitStack() as stack:
        began = time.time()
        on_event(Planned(plan, began))
        attempt = Attempt.begin(plan, began)
        terminal = None
        if plan.config.attach is not None:
            terminal = stack.enter_context(LentTerminal())
        output.follow(plan.ranks)
        stack.callback(output.finish, signals.noted)
        stack.callback(_end_orphans, attempt)
        stack.push(guardian)  # the job ends before the rest
        guardian.begin(describe_job(plan, guardian.address, unfinished))
        stack.enter_context(signals.over_ranks())
        _Supervision(plan, attempt, guardian, signals, on_event, output, terminal).run()
    return attempt


class LentTerminal:
    """The terminal on standard input, which a rank uses within the block.

    The rank is in a session of its own, to which the terminal does not belong: so the kernel stops
    it for no read, and what is typed as a signal comes to the launcher. Settings that the rank
    leaves behind, such as no echo, are taken back when it has ended, or with the block.
    """

    def __enter__(self) -> "LentTerminal":
        self._settings = termios.tcgetattr(0)
        return self

    def __exit__(self, *failure: Any) -> None:
        self.take_back()

    def take_back(self) -> None:
        """Set the terminal as it was before a rank used it."""
        self._set(self._settings)

    def stop_process(self, signals: Signals) -> None:
        """Stop this process until it is continued in front; others find the old settings."""
        ranks_settings = termios.tcgetattr(0)
        self.take_back()
        signals.stop_process()
        while not is_in_front(0) and not signals.noted:  # as who reads in the background
            signals.stop_process()
        self._set(ranks_settings)

    @staticmethod
    def _set(settings: List[Any]) -> None:
        if is_in_front(0):  # else it is somebody else's by now
            with contextlib.suppress(termios.error):  # it has been closed
                termios.tcsetattr(0, termios.TCSANOW, settings)


AGAIN_S = 5.0
"""Seconds in which a second Ctrl-C ends the job; the first one went to the rank in a debugger."""

_SAY_S = 1.0  # for a terminal that takes nothing, after Ctrl-S
_QUIET_S = 0.3


class _Supervision:
    """What the launcher does meanwhile: pass on signals, and note what the guardian reports."""

    def __init__(
        self,
        plan: Plan,
        attempt: Attempt,
        guardian: GuardianProcess,
        signals: Signals,
        on_event: Callable[[Event], None],
        output: Output,
        terminal: Optional[LentTerminal],
    ) -> None:
        self._terminal = terminal
        self._interrupted_at = -AGAIN_S  # when SIGINT went to the attached rank
        self._stopped_at = 0.0  # when the first signal came that stops the job
        self._plan = plan
        self._attempt = attempt
        self._guardian = guardian
        self._signals = signals
        self._on_event = on_event
        self._output = output

    def run(self) -> None:
        """Run it until the guardian reports that it is over, or has died."""
        poll = select.poll()
        poll.register(self._guardian, select.POLLIN)
        poll.register(self._signals, select.POLLIN)
        is_ready = False
        while not self._guardian.is_over:
            if not poll.poll(None if is_ready else 1000 * _QUIET_S):
                # While nothing happens, load what judges a failure: it takes longer than ranks do.
                importlib.import_module("ascend_session.launcher.verdict.cause")
                is_ready = True
            for number in self._signals.take():
                self._obey(number)
            for event in self._guardian.receive():
                noted = self._note(event)
                if isinstance(noted, Standing):
                    continue
                self._on_event(noted)
                if isinstance(noted, Paused):
                    self._stop_with_ranks()
                elif isinstance(noted, Reported):
                    self._note_first_step()

    def _note_first_step(self) -> None:
        """Note the step with which rank 0 begins, once."""
        if self._attempt.first_step is None:
            step = self._attempt.first_step = self._attempt.reports.first_steps.get(0)
            if step:
                self._on_event(Resumed(step, time.time()))

    def _obey(self, number: int) -> None:
        if number in PASSED_ON:
            self._guardian.pass_on(number)
        elif number == ASKING_WHERE:
            self._guardian.locate()
        elif number == signal.SIGTSTP:
            self._guardian.pause()
        elif self._attempt.signal is None:
            attached = self._plan.config.attach
            now = time.monotonic()
            is_first = number == signal.SIGINT and now - self._interrupted_at >= AGAIN_S
            if is_first and attached in self._attempt.alive:
                pid = self._attempt.alive[attached]
                self._interrupted_at = now
                self._signals.forget(number)
                # What is said of it stands above the prompt that a debugger shows again.
                self._on_event(PassedOn(int(number), (pid,), time.time()))
                self._output.wait_until_said(_SAY_S)
                with contextlib.suppress(OSError):  # it has no group yet, or is somebody else's
                    os.killpg(pid, signal.SIGINT)  # as its terminal would
                return
            self._attempt.signal = number
            self._stopped_at = now
            self._output.filter.note_stop()
            # At a terminal, Ctrl-C means an interruption; whatever else comes means the end. A
            # debugger would go on after an interruption.
            is_interruption = number == signal.SIGINT and attached is None
            self._guardian.stop(
                signal.SIGINT if is_interruption else signal.SIGTERM, number == signal.SIGTERM
            )
        elif number in ASKING and not self._is_same_stop(number):
            self._attempt.is_kill_asked = True
            self._guardian.kill()

    def _is_same_stop(self, number: int) -> bool:
        """Tell whether a signal belongs to the one that has stopped the job.

        Schedulers send SIGTERM to several processes at once, of which one may pass it on, and
        systemd sends SIGHUP with it. The kernel repeats others, such as SIGXCPU.
        """
        is_recent = time.monotonic() - self._stopped_at < ONE_STOP_S
        return is_recent and {number, self._attempt.signal} <= {signal.SIGTERM, signal.SIGHUP}

    def _stop_with_ranks(self) -> None:
        """Stop this process, as the ranks are, until it is continued; then continue them."""
        began = time.monotonic()
        if self._terminal is None:
            self._signals.stop_process()
        else:
            self._terminal.stop_process(self._signals)
        self._guardian.resume()
        self._on_event(Continued(time.monotonic() - began, time.time()))

    def _note(self, event: FromGuardian) -> FromGuardian:
        """Note an event, also for what is shown; return it with what is known besides."""
        note_event(self._attempt, event)
        shown = self._output.filter
        is_told = isinstance(event, Stopping) and event.why == "told"
        if isinstance(event, Ended):
            self._output.end_rank(event.rank)
            if self._terminal is not None and event.rank == self._plan.config.attach:
                self._terminal.take_back()
            # Others may get SIGTERM as well; else the guardian stops them in a moment.
            if event.status not in (0, *TERMINATED):
                shown.note_end(event.rank)
        elif isinstance(event, NotLogged):
            text = f"The log file {event.path} is not complete: {event.text}."
            self._output.notices.once("log file", text)
        elif is_told or isinstance(event, (Repeated, Stalled)):
            shown.note_stop()
        elif isinstance(event, Stopping) and event.why == "failure":
            background = self._attempt.background_failure
            first = self._find_first_failed() if background is None else background.rank
            return event._replace(rank=first)
        return event

    def _find_first_failed(self) -> Optional[int]:
        """Decide which rank's failure is shown from now on, as far as is known by now."""
        from ascend_session.launcher.verdict.cause import find_first_failed

        judge_ranks(self._attempt)
        rank = self._attempt.first_failed = find_first_failed(self._plan, self._attempt)
        if rank is not None:
            self._output.filter.note_first_failed(rank)
        return rank


_ORPHANS_S = 10.0


def _end_orphans(attempt: Attempt) -> None:
    """Kill every process of an attempt whose guardian has died; note those that did not end."""
    if not attempt.guardian_died:
        return
    import psutil

    def find() -> List[Any]:
        orphans = []
        for process in psutil.process_iter(["name", "environ", "status"]):
            info = vars(process)["info"]
            folder = os.path.dirname((info["environ"] or {}).get(RANK_FOLDER, ""))
            if folder == attempt.folder and info["status"] != psutil.STATUS_ZOMBIE:
                orphans.append(process)
        return orphans

    limit = time.monotonic() + _ORPHANS_S
    orphans = find()
    while orphans and time.monotonic() < limit:
        for process in orphans:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(orphans, timeout=0.2)
        orphans = find()
    attempt.left = tuple(f"{process.pid} ({process.info['name']})" for process in orphans)
    attempt.ended = time.time()
