"""Runs a job for the command ``launch``: the ranks' lines, sentences about them, the end."""

import dataclasses
import importlib
import json
import os
import signal
from typing import TYPE_CHECKING, Callable, List, Optional, Set

from ascend_session.cli._output import complain, spell_options
from ascend_session.cli._parameters import exit_on_signals
from ascend_session.launcher.api import launch_within
from ascend_session.launcher.binding import not_bound
from ascend_session.launcher.events import (
    Ended,
    Event,
    Killing,
    Left,
    NotBound,
    NotStarted,
    Planned,
    Stalled,
    Started,
    Stopping,
)
from ascend_session.launcher.output import Notices, Outlet, Output
from ascend_session.launcher.preflight import checked_plan
from ascend_session.launcher.process import Signals, signal_name

if TYPE_CHECKING:
    from ascend_session.cli._launch_summary import Style
    from ascend_session.cli._status_line import StatusLine
    from ascend_session.launcher.config import LaunchConfig
    from ascend_session.launcher.result import LaunchResult

Observer = Callable[[Event, Callable[[str], None]], None]

_STDOUT, _STDERR = 1, 2
_SIGNAL_POLL_S = 0.5  # between two looks whether a signal came while nobody reads the summary


def run_job(config: "LaunchConfig", as_json: bool, observe: Optional[Observer] = None) -> int:
    """Run a job and say what became of it; give the exit code.

    Signals end the job, and the code says so; this process is not ended by them.

    Args:
        config: What to launch.
        as_json: Whether the result is printed as one JSON object, and lines go to stderr.
        observe: Gets each event too, and a function that shows a sentence among the job's lines;
            it may show more from a thread of its own until the event `Finished`.
    """
    environ = dict(os.environ)
    try:
        with exit_on_signals():
            plan = checked_plan(config, environ, complain)
    except KeyboardInterrupt:
        complain("Interrupted before anything was started.")
        return 128 + signal.SIGINT
    with plan.held_port, Signals() as signals:
        screen = _Screen(config.grace, signals, observe)
        result = launch_within(
            plan,
            signals,
            _STDERR if as_json else _STDOUT,
            screen.note,
            words=_STDERR,
            on_output=screen.begin,
        )
        if as_json:
            lost = _write(_STDOUT, json.dumps(result.as_dict(), indent=2) + "\n", signals)
            result = dataclasses.replace(result, notes=(*result.notes, *lost))
        _write(_STDERR, screen.summarize(result), signals)
    return result.code


class _Screen:
    """What a person sees of a job: sentences about it, the status line, and the summary.

    What happens as it should is not worth a sentence.
    """

    def __init__(self, grace_s: float, signals: Signals, observe: Optional[Observer]) -> None:
        self._grace_s = grace_s
        self._signals = signals
        self._observe = observe
        self._status: Optional[StatusLine] = None
        self._output: Optional[Output] = None
        self._sentences: List[str] = []
        self._notes: Set[str] = set()
        self._alive = 0
        self._failure: Optional[str] = None

    def begin(self, output: Output) -> None:
        """Take the output of the job, below which the status line stands."""
        self._output = output
        if not _is_dumb(output.fd):
            from ascend_session.cli._status_line import StatusLine

            self._status = StatusLine(output.fd, output.latest, self._grace_s)
            output.set_footer(self._status.draw)

    def note(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Started):  # while the ranks begin
            importlib.import_module("ascend_session.cli._launch_summary")
        self._describe(event)
        if self._observe is not None:
            self._observe(event, self._say)
        if self._status is not None:
            self._status.note(event)

    def summarize(self, result: "LaunchResult") -> str:
        """Draw what became of the launch."""
        from ascend_session.cli._launch_summary import summarize

        # What happened to the output after the result was made is news, too.
        troubles = [] if self._output is None else self._output.troubles
        notes = map(spell_options, dict.fromkeys([*result.notes, *troubles]))
        complete = dataclasses.replace(result, notes=tuple(notes))
        return summarize(complete, [*self._sentences, *troubles], _choose_style())

    def _describe(self, event: Event) -> None:
        if isinstance(event, Planned):
            self._alive, self._failure = len(event.plan.ranks), None
            for note in event.plan.notes:
                self._say_once(note)
        elif isinstance(event, (Ended, NotStarted)):
            self._alive -= 1
            self._failure = self._failure or _describe_failure(event)
        elif isinstance(event, NotBound):
            self._say_once(not_bound(event.rank, event.text))
        elif isinstance(event, Stopping):
            self._describe_stop(event.why)
        elif isinstance(event, Killing):
            self._say("What has not ended by now is killed.")
        elif isinstance(event, Left):
            left = ", ".join(event.processes)
            self._say(f"The ranks have ended and left processes behind, which are ended: {left}.")
        elif isinstance(event, Stalled):
            for sentence in event.report:
                self._say(sentence)

    def _describe_stop(self, why: str) -> None:
        then = f"SIGKILL in {self._grace_s:g} s"
        if why == "failure" and self._alive > 0:
            failure = self._failure or "A rank has failed"
            self._say(f"{failure}. The others get SIGTERM now, and {then}.")
        elif why == "asked" and self._signals.noted:
            name = signal_name(self._signals.noted[0])
            self._say(f"{name}: every rank is asked to end, and gets {then}. Again: at once.")
        elif why == "told":
            self._say(f"The job's guardian got a signal: every rank is asked to end; {then}.")

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.add(sentence)
            self._say(sentence)

    def _say(self, sentence: str) -> None:
        sentence = spell_options(sentence)
        self._sentences.append(sentence)
        if self._output is not None:
            self._output.say(sentence)


def _describe_failure(event: Event) -> Optional[str]:
    """Say how a rank failed; None if it did not."""
    if isinstance(event, NotStarted):
        return f"Rank {event.rank} could not be started"
    if not isinstance(event, Ended) or event.status == 0:
        return None
    if event.status < 0:
        return f"Rank {event.rank} was ended by {signal_name(-event.status)}"
    return f"Rank {event.rank} has ended with exit code {event.status}"


def _choose_style() -> "Style":
    from ascend_session.cli._launch_summary import Style

    if _is_dumb(_STDERR):
        return Style()
    return Style(os.get_terminal_size(_STDERR).columns or None, not os.environ.get("NO_COLOR"))


def _is_dumb(fd: int) -> bool:
    """Tell whether it is no terminal, or one that only takes text."""
    return not os.isatty(fd) or os.environ.get("TERM") in (None, "", "dumb")


def _write(fd: int, text: str, signals: Signals) -> List[str]:
    """Write the text, unless nobody takes it: the stream is closed, or a signal says so.

    Returns:
        What to say if it could not be written.
    """
    troubles: List[str] = []
    outlet = Outlet(fd, Notices(troubles.append), "The result")
    outlet.put(0, text.encode("utf-8", "backslashreplace"))
    signals.take()
    while not outlet.close(_SIGNAL_POLL_S) and not signals.take():
        pass
    return [sentence.partition(" The job goes on")[0] for sentence in troubles]
