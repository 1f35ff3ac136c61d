"""Runs a job for the command ``launch``: the ranks' lines, sentences about them, the end."""

import dataclasses
import importlib
import json
import os
import re
import shlex
import signal
from types import MappingProxyType
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Set

from ascend_session.backends import backend_class
from ascend_session.cli._output import complain, spell_options
from ascend_session.cli._parameters import exit_on_signals
from ascend_session.launcher.api import launch_within
from ascend_session.launcher.devices import not_bound
from ascend_session.launcher.events import (
    Ended,
    Event,
    Finished,
    Killing,
    LeftBehind,
    NotBound,
    NotStarted,
    Planned,
    Stalled,
    StallNote,
    Started,
    Stopping,
)
from ascend_session.launcher.output import Notices, Outlet, Output
from ascend_session.launcher.preflight import checked_plan
from ascend_session.launcher.process import Signals, signal_name
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.cli._launch_summary import Style
    from ascend_session.cli._status_line import StatusLine
    from ascend_session.launcher.config import LaunchConfig
    from ascend_session.launcher.plan import Plan
    from ascend_session.launcher.result import LaunchResult

Observer = Callable[[Event, Callable[[str], None]], None]

_STDOUT, _STDERR = 1, 2
_SIGNAL_POLL_S = 0.5  # between two looks whether a signal came while nobody reads the summary


def run_job(
    config: "LaunchConfig",
    as_json: bool,
    observe: Optional[Observer] = None,
    options: Mapping[str, bool] = MappingProxyType({}),
) -> int:
    """Run a job and say what became of it; give the exit code.

    Signals end the job, and the code says so; this process is not ended by them.

    Args:
        config: What to launch.
        as_json: Whether the result is printed as one JSON object, and lines go to stderr.
        observe: Gets each event too, and a function that shows a sentence among the job's lines;
            it may show more from a thread of its own until the event `Finished`.
        options: The command's own options as they are typed, and whether each takes a value.
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
        _advise_on_order(config, result, options)
        if as_json:
            text = json.dumps(result.as_dict(), indent=2) + "\n"
            lost = _write(_STDOUT, text, signals, screen.signals)
            result = dataclasses.replace(result, notes=(*result.notes, *lost))
        _write(_STDERR, screen.summarize(result), signals, screen.signals)
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
        return


class _Screen:
    """What a person sees of a job: sentences about it, the status line, and the summary.

    What happens as it should is not worth a sentence.

    Attributes:
        signals: How many signals came while the job ran.
    """

    def __init__(self, grace_s: float, signals: Signals, observe: Optional[Observer]) -> None:
        self._grace_s = grace_s
        self._signals = signals
        self._observe = observe
        self._status: Optional[StatusLine] = None
        self._output: Optional[Output] = None
        self._sentences: List[str] = []
        self._notes: Set[str] = set()
        self._alive = self.signals = 0
        self._failures: Dict[int, Optional[str]] = {}  # of ranks that have ended

    def begin(self, output: Output) -> None:
        """Take the output of the job, below which the status line stands."""
        self._output = output
        output.printer.hide_traceback()
        if not _is_dumb(output.fd):
            from ascend_session.cli._status_line import StatusLine

            self._status = StatusLine(output.fd, output.latest, self._grace_s)
            output.set_footer(self._status.draw)

    def note(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Started):  # while the ranks begin
            importlib.import_module("ascend_session.cli._launch_summary")
        if isinstance(event, Finished):
            self.signals = len(self._signals.noted)
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
            self._alive, self._failures = len(event.plan.ranks), {}
            if event.plan.attempt == 1:
                self._describe_plan(event.plan)
            for note in event.plan.notes:
                self._say_once(note)
        elif isinstance(event, (Ended, NotStarted)):
            self._alive -= 1
            self._failures[event.rank] = _describe_failure(event)
        elif isinstance(event, NotBound):
            self._say_once(not_bound(event.rank, event.text))
        elif isinstance(event, Stopping):
            self._describe_stop(event)
        elif isinstance(event, Killing):
            self._say("What has not ended by now is killed.")
        elif isinstance(event, LeftBehind):
            left = ", ".join(event.processes)
            self._say(f"The ranks have ended, but left processes behind, which end now: {left}.")
        elif isinstance(event, StallNote):
            self._say(f"note: {event.note}")
        elif isinstance(event, Stalled):
            then = f"SIGKILL in {self._grace_s:g} s"
            self._say(f"The job has stalled: every rank is asked to end, and gets {then}.")

    def _describe_plan(self, plan: "Plan") -> None:
        """Say what begins: how many ranks, on what and why, and where their logs are."""
        count = format_count(len(plan.ranks), "rank")
        of_job = f" of {plan.size}" if plan.nodes.count > 1 else ""
        self._say(f"{count}{of_job}, backend {plan.backend}: {plan.reason}; logs in {plan.folder}")
        is_by_table = plan.nodes.part is not None
        is_chosen = plan.config.processes is None and plan.config.devices is None
        why = backend_class(plan.backend).explain_count(plan.environ)
        if is_chosen and not is_by_table and why is not None:
            self._say(
                "Without -n before the script, and without a device to count, the job has "
                f"{count}, as many as {why}."
            )

    def _describe_stop(self, event: Stopping) -> None:
        then = f"SIGKILL in {self._grace_s:g} s"
        if event.why == "failure" and self._alive > 0:
            failure = "A rank has failed"
            if event.rank is not None:
                failure = self._failures.get(event.rank) or f"Rank {event.rank} has failed"
            self._say(f"{failure}. The others get SIGTERM now, and {then}.")
        elif event.why == "asked" and self._signals.noted:
            name = signal_name(self._signals.noted[0])
            self._say(
                f"{name}: every rank is asked to end, and gets {then}. "
                "A second one kills them at once."
            )
        elif event.why == "told":
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


def _write(fd: int, text: str, signals: Signals, known: int) -> List[str]:
    """Write the text, unless nobody takes it: the stream is closed, or a signal says so.

    Args:
        fd: Where to.
        text: The text.
        signals: The signals.
        known: How many of them came while the job ran.

    Returns:
        What to say if it could not be written.
    """
    troubles: List[str] = []
    outlet = Outlet(fd, Notices(troubles.append), "The result")
    outlet.put(0, text.encode("utf-8", "backslashreplace"))
    while not outlet.close(_SIGNAL_POLL_S) and len(signals.noted) == known:
        pass
    return [sentence.partition(" The job goes on")[0] for sentence in troubles]
