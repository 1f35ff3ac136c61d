"""Runs a job for the command ``launch``: the ranks' lines, sentences about them, a live line.

The live line below the output says who runs, for how long, at which step training is, and the
newest line of any rank. A rank starts until it has written something, told a step or opens a
system: before that it loads TensorFlow, and nobody can tell.
"""

import contextlib
import dataclasses
import os
import re
import shlex
import signal
import time
from collections import deque
from typing import (
    TYPE_CHECKING,
    Callable,
    Deque,
    Dict,
    FrozenSet,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
)

from ascend_session.cli._output import complain, in_command
from ascend_session.cli._parameters import exit_on_signals
from ascend_session.launcher.api import launch_within
from ascend_session.launcher.events import Continued, Event, Finished, Planned, Restarting
from ascend_session.launcher.job import events
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.job.signals import (
    Signals,
    drop_signals_for_ranks,
    signal_name,
)
from ascend_session.launcher.plan.cpus import not_bound
from ascend_session.launcher.plan.preflight import checked_plan
from ascend_session.launcher.show.following import Latest, Output
from ascend_session.launcher.show.screen import Notices, Screen, can_redraw
from ascend_session.launcher.supervisor import AGAIN_S
from ascend_session.launcher.verdict.result import format_result, write_result
from ascend_session.launcher.verdict.summary import summarize
from ascend_session.launcher.verdict.training import format_rate
from ascend_session.process import is_in_front
from ascend_session.text import (
    clean,
    format_count,
    format_duration,
    format_ranges,
    format_rank_ids,
)

if TYPE_CHECKING:
    from ascend_session.launcher.job.guardian_process import GuardianProcess
    from ascend_session.launcher.plan.config import LaunchConfig
    from ascend_session.launcher.plan.plan import Plan
    from ascend_session.launcher.verdict.result import LaunchResult

Observer = Callable[[Event, Callable[[str], None]], None]

_STDOUT, _STDERR = 1, 2
_FIRST_S = 1.0  # a job that ends before gets no live line
_RECENT_S = 2.0  # silence that is not worth a number
_LONG_S = 60.0  # silence of a rank that is worth the line
_PACE_S = 60.0  # in which steps are counted for their pace
_COLUMNS = 80  # of a terminal that does not say how many it has
_MARGIN = 3  # columns that stay free: for ^C, and so that the cursor never leaves the line
_COMMAND_WIDTH = 100  # characters of a command in a note
_CONTINUATION = bytes(range(0x80, 0xC0))
_SIGNAL_POLL_S = 0.5  # between two looks whether a signal came while nobody reads the summary


def run_job(
    config: "LaunchConfig",
    guardian: "GuardianProcess",
    as_json: bool,
    observe: Optional[Observer],
    options: Mapping[str, bool],
) -> int:
    """Run a job and say what became of it; give the exit code.

    Signals end the job, and the code says so; this process is not ended by them.

    Args:
        config: What to launch.
        guardian: Runs it.
        as_json: Whether the result is printed as one JSON object, and lines go to stderr.
        observe: Gets each event too, and a function that shows a sentence among the job's lines;
            it may show more from a thread of its own until the event `Finished`. None for nobody.
        options: The command's own options as they are typed, and whether each takes a value.
    """
    environ = dict(os.environ)
    try:
        with exit_on_signals(), drop_signals_for_ranks():
            plan = checked_plan(config, environ, complain)
    except KeyboardInterrupt:
        complain("Interrupted before anything was started.")
        return 128 + signal.SIGINT
    with Signals() as signals:
        fd = _STDERR if as_json else _STDOUT
        screen = _Screen(fd, config, signals, observe)
        result = launch_within(
            plan,
            guardian,
            signals,
            fd,
            screen.note,
            words=_STDERR,
            on_output=screen.begin,
            on_report=screen.note_report,
        )
        _advise_on_order(config, result, options)
        if as_json:
            lost = screen.write(_STDOUT, format_result(result))
            result = dataclasses.replace(result, notes=(*result.notes, *lost))
        screen.write(_STDERR, screen.summarize(result))
    return result.code


# What argparse, optparse, click, absl and getopt say of an option that they do not know.
_UNKNOWN_OPTION = re.compile(
    "unrecognized argument|no such option|unknown command line flag|not recognized", re.IGNORECASE
)


def _advise_on_order(
    config: "LaunchConfig", result: "LaunchResult", options: Mapping[str, bool]
) -> None:
    """Give as advice that options come before SCRIPT, if it has refused one of the command's."""
    cause = result.cause
    tail = () if cause is None else cause.tail
    refusals = " ".join(line for line in tail if _UNKNOWN_OPTION.search(line))
    if cause is None or not refusals:
        return
    for number, word in enumerate(config.args):
        option, equals, _ = word.partition("=")
        name = re.escape(option.lstrip("-"))
        if option not in options or not re.search(rf"(?<![\w-])-{{0,2}}{name}(?![\w-])", refusals):
            continue
        takes_more = options[option] and not equals
        what = config.script or config.module or config.program or ""
        example = " ".join(map(shlex.quote, [*config.args[number : number + 1 + takes_more], what]))
        advice = (
            f"{option} comes after {what}, so it was passed on to it. Put options of "
            f"ascend-session launch first: ascend-session launch {example}"
        )
        result.attempts[-1].cause = dataclasses.replace(cause, advice=advice)
        with contextlib.suppress(OSError):  # its notes say so already
            write_result(result)
        return


class _Screen:
    """What a person sees of a job: sentences about it, the status line, and the summary.

    What happens as it should is not worth a sentence.
    """

    def __init__(
        self, fd: int, config: "LaunchConfig", signals: Signals, observe: Optional[Observer]
    ) -> None:
        self._fd = fd
        self._config = config
        self._signals = signals
        self._observe = observe
        self._status: Optional[StatusLine] = None
        self._output: Optional[Output] = None
        self._sentences: List[str] = []
        self._notes: Set[str] = set()
        self._alive = 0
        self._signal_count = 0  # those that came while the job ran
        self._failures: Dict[int, str] = {}  # of ranks that have ended

    def begin(self, output: Output) -> None:
        """Take the output of the job, below which the status line stands."""
        self._output = output
        output.hides_traceback = True
        if output.is_terminal and self._config.attach is None:
            self._status = StatusLine(self._fd, output.latest, self._config.grace)
            output.set_status(self._status.draw)

    def note(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Finished):
            self._signal_count = len(self._signals.noted)
        self._describe(event)
        if self._observe is not None:
            self._observe(event, self._say)
        if self._status is not None:
            self._status.note(event)

    def note_report(self, event: events.Reported) -> None:
        """Note what a rank has reported."""
        if self._status is not None:
            self._status.note(event)

    def summarize(self, result: "LaunchResult") -> str:
        """Draw what became of the launch."""
        # What happened to the output after the result was made is news, too.
        troubles = [] if self._output is None else self._output.troubles
        notes = map(in_command, dict.fromkeys([*result.notes, *troubles]))
        complete = (result.code, result.attempts, tuple(notes))
        already_shown = [*self._sentences, *troubles]
        if not can_redraw(_STDERR):
            return summarize(*complete, already_shown)
        columns = os.get_terminal_size(_STDERR).columns or None
        return summarize(*complete, already_shown, columns, not os.environ.get("NO_COLOR"))

    def write(self, fd: int, text: str) -> List[str]:
        """Write a text of the end; say why if nobody takes it.

        The stream may be closed, or a signal that comes now says that nobody will.
        """
        troubles: List[str] = []
        screen = Screen(fd, Notices(troubles.append), "The result")
        screen.put(0, text.encode("utf-8", "backslashreplace"))
        while not screen.close(_SIGNAL_POLL_S) and len(self._signals.noted) == self._signal_count:
            pass
        return [sentence.partition(" The job continues")[0] for sentence in troubles]

    def _describe(self, event: Event) -> None:
        if isinstance(event, Planned):
            self._alive, self._failures = len(event.plan.ranks), {}
            if event.plan.attempt == 1:
                self._describe_plan(event.plan)
            for note in event.plan.notes:
                self._say_once(note)
        elif isinstance(event, events.NotStarted):
            self._alive -= 1
            self._failures[event.rank] = f"Rank {event.rank} could not be started"
        elif isinstance(event, events.Ended):
            self._alive -= 1
            if event.status != 0:
                end = f"exited with code {event.status}"
                if event.status < 0:
                    end = f"was killed by {signal_name(-event.status)}"
                self._failures[event.rank] = f"Rank {event.rank} {end}"
        elif isinstance(event, events.NotBound):
            self._say_once(not_bound(event.rank, event.text))
        elif isinstance(event, events.Stopping):
            self._describe_stop(event)
        elif isinstance(event, events.Killing):
            self._say("Killing the processes that have not exited.")
        elif isinstance(event, events.LeftBehind):
            names = ", ".join(event.processes)
            self._say(f"All ranks exited but left processes running; stopping them: {names}.")
        elif isinstance(event, events.PassedOn):
            self._say(_describe_passed_on(event))
        elif isinstance(event, Continued):
            paused = format_duration(event.paused_s)
            self._say(f"The ranks were suspended for {paused}, as the launcher was, and continue.")
        elif isinstance(event, events.Awaiting):
            noun, they = ("rank", "it exits") if len(event.ranks) == 1 else ("ranks", "they exit")
            self._say(
                f"note: the script exited without waiting for {noun} "
                f"{format_rank_ids(event.ranks)}, which it started; the job continues until "
                f"{they}. Write `wait` at its end."
            )
        elif isinstance(event, events.BackgroundAwaited):
            self._say(_describe_background(event))
        elif isinstance(event, events.BackgroundEnded):
            if event.status:
                # Loaded only after a failure.
                from ascend_session.launcher.verdict.descriptions import describe_background

                self._failures.setdefault(event.rank, describe_background(event).rstrip("."))
        elif isinstance(event, events.StallNote):
            self._say(f"note: {event.note}")
        elif isinstance(event, events.Stalled):
            then = f"SIGKILL in {self._config.grace:g} s"
            self._say(f"The job has stalled: stopping all ranks ({then}).")

    def _describe_plan(self, plan: "Plan") -> None:
        """Say what begins: how many ranks, on what and why, and where their logs are."""
        count = format_count(len(plan.ranks), "rank")
        of_job = f" of {plan.size}" if plan.nodes.count > 1 else ""
        why = in_command(plan.reason)
        self._say(f"{count}{of_job}, backend {plan.backend.name}: {why}; logs in {plan.folder}")
        is_by_table = plan.nodes.table_node is not None
        is_chosen = plan.config.processes is None and plan.config.devices is None
        counted = plan.backend.explain_count(plan.environ)
        if is_chosen and not is_by_table and counted is not None:
            self._say(
                f"No -n before the script and no device to count: starting {count}, as many as "
                f"{counted}."
            )

    def _describe_stop(self, event: events.Stopping) -> None:
        then = f"SIGKILL in {self._config.grace:g} s"
        if event.why == "failure" and self._alive > 0:
            failure = "A rank has failed"
            if event.rank is not None:
                failure = self._failures.get(event.rank) or f"Rank {event.rank} has failed"
            self._say(f"{failure}. The others get SIGTERM now, and {then}.")
        elif event.why == "asked" and self._signals.noted:
            name = signal_name(self._signals.noted[0])
            self._say(f"{name}: stopping all ranks ({then}). A second one kills them at once.")
        elif event.why == "repeated":
            self._say(f"Each rank starts all ranks: stopping them ({then}).")
        elif event.why == "told":
            self._say(f"The job's guardian got a signal: stopping all ranks ({then}).")

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.add(sentence)
            self._say(sentence)

    def _say(self, sentence: str) -> None:
        sentence = in_command(sentence)
        self._sentences.append(sentence)
        if self._output is not None:
            self._output.say(sentence)


def _describe_background(event: events.BackgroundAwaited) -> str:
    numbers = [rank for rank, _, _ in event.processes]
    who = f"{'rank' if len(set(numbers)) == 1 else 'ranks'} {format_ranges(numbers)}"
    what = ", ".join(f"{pid} ({command[:_COMMAND_WIDTH]})" for _, pid, command in event.processes)
    noun, it = ("process", "it exits") if len(numbers) == 1 else ("processes", "they exit")
    return (
        f"note: {who} left {noun} {what} running in the background; the job continues until {it}. "
        "Write `wait` at the end of the script."
    )


def _describe_passed_on(event: events.PassedOn) -> str:
    name = signal_name(event.signal)
    if not event.processes:
        return f"{name} was passed on to nobody: no rank catches it."
    if event.signal == signal.SIGINT:
        again = f"another one within {AGAIN_S:g} s stops the job"
        return f"Ctrl-C went to the rank that has the terminal; {again}."
    noun = "process" if len(event.processes) == 1 else "processes"
    return f"{name} was passed on to {noun} {format_ranges(event.processes)}."


class StatusLine:
    """The state of a job in one line. Events come from one thread; another one draws it.

    Args:
        fd: The terminal.
        latest: Gives what a rank has written last.
        grace_s: Seconds from SIGTERM to SIGKILL.
    """

    def __init__(self, fd: int, latest: Callable[[int], Optional[Latest]], grace_s: float) -> None:
        self._fd = fd
        self._latest = latest
        self._grace_s = grace_s
        self._began = self._attempt_began = time.monotonic()
        self._attempt, self._size = 1, 0
        self._alive: FrozenSet[int] = frozenset()  # replaced, never changed
        self._reports = Reports()
        self._paced = 0  # the rank whose steps are counted
        self._steps: Deque[Tuple[float, int]] = deque()  # when it made some, in `_PACE_S`
        self._until: Optional[float] = None  # until ranks are killed, or another attempt
        self._is_waiting = self._is_killing = False

    def note(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, Planned):
            self._attempt, self._size = event.plan.attempt, len(event.plan.ranks)
            self._attempt_began = time.monotonic()
            self._reports = Reports()
            self._steps.clear()
            self._until, self._is_waiting, self._is_killing = None, False, False
        elif isinstance(event, events.Reported):
            self._reports.note(event.rank, event.pid, event.message)
        elif isinstance(event, events.Started):
            self._alive = self._alive | {event.rank}
        elif isinstance(event, (events.Ended, events.NotStarted)):
            self._alive = self._alive - {event.rank}
        elif isinstance(event, events.BackgroundAwaited):
            self._alive = self._alive | {rank for rank, _, _ in event.processes}
        elif isinstance(event, events.BackgroundEnded):
            self._alive = self._alive - {event.rank}
        elif isinstance(event, events.Stopping):
            self._until = event.time + self._grace_s
        elif isinstance(event, events.Killing):
            self._is_killing = True
        elif isinstance(event, Restarting):
            self._until, self._is_waiting = event.time + event.wait, True

    def draw(self) -> bytes:
        """Give the line as it is to stand there now; empty for none."""
        if time.monotonic() - self._began < _FIRST_S or not is_in_front(self._fd):
            return b""
        try:
            columns = os.get_terminal_size(self._fd).columns or _COLUMNS
        except OSError:  # it is gone, which whoever writes to it will find out
            columns = _COLUMNS
        from rich.cells import cell_len, set_cell_size

        line, room = self._describe(), max(0, columns - _MARGIN)
        cut = line if cell_len(line) <= room else set_cell_size(line, room)
        return cut.encode("utf-8", "replace")

    def _describe(self) -> str:
        attempt = f"attempt {self._attempt}, " if self._attempt > 1 else ""
        elapsed = _format_clock(time.monotonic() - self._began)
        remaining_s = max(0, round((self._until or 0.0) - time.time()))
        if self._is_waiting:
            return f"attempt {self._attempt + 1} in {remaining_s} s, {elapsed}"
        alive = self._alive
        if self._until is not None:
            then = "killing" if self._is_killing else f"killed in {remaining_s} s"
            return f"{attempt}stopping {len(alive)} of {self._size} ranks, {then}, {elapsed}"
        # What a rank has written in an earlier attempt does not count.
        latest = {rank: self._latest(rank) for rank in alive}
        began = self._attempt_began
        lines = {rank: line for rank, line in latest.items() if line and line.time >= began}
        running = [rank for rank in alive if rank in lines or self._has_begun(rank)]
        starting = len(alive) - len(running)
        if alive and not running:
            return f"{attempt}{starting} of {self._size} ranks starting, {elapsed}"
        head = f"{attempt}{len(running)} of {self._size} ranks running, "
        head += f"{starting} starting, {elapsed}" if starting else elapsed
        return " | ".join(filter(None, [head, self._describe_step(alive), _describe_line(lines)]))

    def _has_begun(self, rank: int) -> bool:
        return rank in self._reports.progress or rank in self._reports.members

    def _describe_step(self, alive: FrozenSet[int]) -> str:
        """Say at which step the first rank is that tells, at which pace, and what is left."""
        rank = min((rank for rank in alive if rank in self._reports.progress), default=None)
        if rank is None:
            return ""
        step, of, at = self._reports.progress[rank]
        if self._steps and (rank != self._paced or step < self._steps[-1][1]):
            self._steps.clear()  # something else is counted now
        if not self._steps or at > self._steps[-1][0]:
            self._steps.append((at, step))
        self._paced = rank
        while at - self._steps[0][0] > _PACE_S and len(self._steps) > 2:
            self._steps.popleft()
        text = f"step {step}" if of is None else f"step {step} of {of}"
        silent_s = time.monotonic() - at
        if silent_s >= _LONG_S:
            return f"{text}, {_format_clock(silent_s)} ago"
        began, first = self._steps[0]
        if step == first or at <= began:
            return text
        pace = (step - first) / (at - began)
        text += f", {format_rate(pace)} steps/s"
        remaining_s = 0.0 if of is None else (of - step) / pace
        return f"{text}, {_format_clock(remaining_s)} left" if remaining_s > 0 else text


def _describe_line(lines: Mapping[int, Latest]) -> str:
    """Give the newest line of any rank, or the last one of a rank that is silent for long.

    A rank counts as silent if it wrote over a longer time than it has written nothing. What each
    rank says once at its beginning makes none silent where only rank 0 goes on.
    """
    if not lines:
        return ""
    now = time.monotonic()
    silent_s = {
        rank: now - line.time
        for rank, line in lines.items()
        if _LONG_S <= now - line.time < line.time - line.began
    }
    if silent_s:
        rank = max(sorted(silent_s), key=silent_s.__getitem__)
    else:
        rank = max(sorted(lines), key=lambda rank: lines[rank].time)
    ago_s = now - lines[rank].time
    ago = f" {_format_clock(ago_s)} ago:" if ago_s >= _RECENT_S else ""
    return f"[{rank}]{ago} {_last_line(lines[rank].text)}"


def _last_line(text: bytes) -> str:
    """Give the last line that is not blank, or the last state of a progress bar."""
    whole = text.lstrip(_CONTINUATION)  # the beginning may be cut within a character
    lines: List[bytes] = [line for line in re.split(rb"[\r\n]", whole) if line.strip()]
    line = clean(lines[-1] + b"\n", colour=False) if lines else b""
    return " ".join(line.decode("utf-8", "replace").split())


def _format_clock(seconds: float) -> str:
    """Write seconds as in 0:07, 12:34 or 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
