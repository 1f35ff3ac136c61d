"""Runs a job for the command ``launch``: lines and words to their streams, the end in one piece."""

import dataclasses
import importlib
import json
import os
import signal
from typing import TYPE_CHECKING, Callable, List, Optional

from ascend_session.cli._ending import programs_ended_with_this
from ascend_session.cli._launch_words import Words
from ascend_session.cli._output import complain
from ascend_session.launcher.api import launch_within
from ascend_session.launcher.events import Event, Started
from ascend_session.launcher.output import Output
from ascend_session.launcher.preflight import checked_plan
from ascend_session.launcher.printer import Notices, Outlet
from ascend_session.launcher.process import Signals

if TYPE_CHECKING:
    from ascend_session.cli._launch_summary import Style
    from ascend_session.cli._status_line import StatusLine
    from ascend_session.launcher.config import LaunchConfig
    from ascend_session.launcher.result import LaunchResult

__all__ = ["Beside", "run"]

Beside = Callable[[Event, Callable[[str], None]], None]

_STDOUT, _STDERR = 1, 2
_LOOK = 0.5  # seconds between two looks whether a signal came while nobody reads the summary


def run(config: "LaunchConfig", as_json: bool, beside: Optional[Beside] = None) -> int:
    """Runs it and says what became of it; returns the exit code.

    Signals end the job, and the code says so; this process is not ended by them.

    Args:
        config: What is asked.
        as_json: Whether the result is printed as one JSON object, and lines go to stderr.
        beside: Is told each event too, and what says a sentence among the job's lines; it may say
            more from a thread of its own until the event `Finished`.
    """
    environ = dict(os.environ)
    try:
        with programs_ended_with_this():
            first = checked_plan(config, environ, _say_first)
    except KeyboardInterrupt:
        complain("Interrupted before anything was started.")
        return 128 + signal.SIGINT
    with first.held_port, Signals() as signals:
        told = _Told(config, signals, beside)
        result = launch_within(
            signals,
            config,
            environ,
            first,
            _STDERR if as_json else _STDOUT,
            told.note,
            words=_STDERR,
            on_output=told.begin,
        )
        if as_json:
            lost = _show(_STDOUT, json.dumps(result.as_dict(), indent=2) + "\n", signals)
            result = dataclasses.replace(result, notes=(*result.notes, *lost))
        _show(_STDERR, told.summary(result), signals)
    return result.code


def _say_first(sentence: str) -> None:
    """Says what is to be said before there is anything to which the job's lines go."""
    from ascend_session.cli._flags import with_flags

    complain(with_flags(sentence))


class _Told:
    """What happens, as it is shown: in words, on the status line, and at the end."""

    def __init__(self, config: "LaunchConfig", signals: Signals, beside: Optional[Beside]) -> None:
        self._beside = beside
        self._grace = config.grace
        self._words = Words(self._say, signals, config.grace)
        self._status: Optional[StatusLine] = None
        self._output: Optional[Output] = None
        self._said: List[str] = []

    def begin(self, output: Output) -> None:
        self._output = output
        if not _is_dumb(output.fd):
            from ascend_session.cli._status_line import StatusLine

            self._status = StatusLine(output.fd, output.latest, self._grace)
            output.set_footer(self._status.draw)

    def note(self, event: Event) -> None:
        if isinstance(event, Started):  # while the ranks begin
            importlib.import_module("ascend_session.cli._launch_summary")
        self._words.note(event)
        if self._beside is not None:
            self._beside(event, self._say)
        if self._status is not None:
            self._status.note(event)

    def summary(self, result: "LaunchResult") -> str:
        from ascend_session.cli._flags import with_flags
        from ascend_session.cli._launch_summary import summary

        # What happened to the output after the result was made is news, too.
        troubles = [] if self._output is None else self._output.troubles
        notes = [with_flags(note) for note in dict.fromkeys([*result.notes, *troubles])]
        complete = dataclasses.replace(result, notes=tuple(notes))
        return summary(complete, [*self._said, *troubles], _style())

    def _say(self, sentence: str) -> None:
        from ascend_session.cli._flags import with_flags

        said = with_flags(sentence)
        self._said.append(said)
        if self._output is not None:
            self._output.say(said)


def _style() -> "Style":
    from ascend_session.cli._launch_summary import Style

    if _is_dumb(_STDERR):
        return Style()
    return Style(os.get_terminal_size(_STDERR).columns or None, not os.environ.get("NO_COLOR"))


def _is_dumb(fd: int) -> bool:
    """Whether it is no terminal, or one that only takes text."""
    return not os.isatty(fd) or os.environ.get("TERM") in (None, "", "dumb")


def _show(fd: int, text: str, signals: Signals) -> List[str]:
    """Writes it, unless nobody takes it: the stream is closed, or a signal says so.

    Returns:
        What to say if it could not be written.
    """
    troubles: List[str] = []
    outlet = Outlet(fd, Notices(troubles.append), "The result")
    outlet.put(0, text.encode("utf-8", "backslashreplace"))
    signals.take()
    while not outlet.close(_LOOK) and not signals.take():
        pass
    return [sentence.partition(" The job goes on")[0] for sentence in troubles]
