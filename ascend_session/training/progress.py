"""Report steps to the launcher, and how long they take.

The pace is computed from the time between two calls of `note_step`. Counted are the calls between
which the thread has run sessions as often, for each step, as between most of them, or less often:
an evaluation, a checkpoint or a summary in between makes more runs. Not counted are the first step,
what comes before it, and the time in which a session was opened, because its first step compiles,
or in which the launcher was stopped (Ctrl-Z). Everything else counts, such as reading data.
"""

import math
import numbers
import threading
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ascend_session import channel
from ascend_session.backends.run_times import runs, send_at_exit
from ascend_session.errors import ConfigError
from ascend_session.process import on_fork

_EVERY_S = 0.5  # between two messages
_MOST_KINDS = 64  # of different numbers of runs between two calls


def note_first_step(step: int) -> None:
    """Report to the launcher, if there is one, with which global step rank 0 begins.

    `SaveOnPreemptionHook` calls it. Call it yourself if you restore a checkpoint in another way: a
    step above 0 means that training is resumed.
    """
    channel.send("first_step", step=int(step))


def note_step(step: int, of: Optional[int] = None, samples: Optional[float] = None) -> None:
    """Report to the launcher, if there is one, which step this rank has made.

    The launcher's status line shows step, steps per second and the time left, and its summary the
    pace of the job. Call this after every step: it sends a few bytes at most twice a second. The
    hooks of `training`, its sessions and its estimators call it; once a script does, only that
    counts.

    Args:
        step: The global step after the step, or another number that grows by 1 with each step.
        of: The global step with which training ends; None if unknown.
        samples: On how many samples this rank has trained since the last call; None if unknown.

    Raises:
        TypeError: If an argument is not a number of that kind.
        ConfigError: If ``samples`` is not positive, or ``step`` is negative.
    """
    number = _check_integer("step", step)
    total = None if of is None else _check_integer("of", of)
    if samples is not None:
        _check_samples(samples)
    if number < 0:
        raise ConfigError(f"note_step: step={number} must not be negative.")
    _note(number, total, 0.0 if samples is None else float(samples), is_by_hook=False)


def note_step_of_hook(step: int, of: Optional[int] = None, begun_s: Optional[float] = None) -> None:
    """Report a step as `note_step` does, unless the script calls that itself.

    Args:
        step: As for `note_step`.
        of: As for `note_step`.
        begun_s: When the run began that has made the step, by `time.monotonic`, if that is known:
            other hooks may have run the session since.
    """
    _note(int(step), None if of is None else int(of), 0.0, True, begun_s)


def _check_integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"note_step: {name} must be an int, this is {value!r}.")
    return int(value)


def _check_samples(samples: Any) -> None:
    is_number = isinstance(samples, numbers.Real) or hasattr(samples, "__index__")
    if isinstance(samples, bool) or not is_number:
        raise TypeError(f"note_step: samples must be a number, this is {samples!r}.")
    if not 0 < samples < math.inf:
        raise ConfigError(
            f"note_step: samples={samples!r} must be positive: on how many samples this rank has "
            "trained since the last call."
        )


@dataclass
class _Steps:
    """What lies between calls of `note_step` that have as many runs for each step."""

    calls: int = 0
    runs: int = 0
    steps: int = 0
    seconds: float = 0.0
    samples: float = 0.0


class _Pace:
    """The steps that one thread has noted.

    Args:
        step: The first one, which was made just now.
        is_by_hook: Whether a hook has noted it.
        begun_s: When its run began, if that is known.
    """

    def __init__(self, step: int, is_by_hook: bool, begun_s: Optional[float]) -> None:
        self.is_by_hook = is_by_hook
        self.thread = threading.get_ident()
        self._kinds: Dict[float, _Steps] = {}
        self._latest: Optional[_Steps] = None
        self._begun_s, self._first_s = begun_s, time.monotonic()
        self._begins: List[float] = runs.list_begins()
        self._was_paused = bool(channel.count_pauses())
        self._mark(step)

    def _mark(self, step: int) -> None:
        self.step, self._time_s, self._runs = step, time.monotonic(), runs.count
        self._interruptions = channel.count_pauses(), runs.opened

    def note(self, step: int, samples: float) -> None:
        """Note that a step was made just now."""
        if step == self.step:  # somebody else notes it as well
            if self._latest is not None:
                self._latest.samples += samples
            return
        made, run_count = step - self.step, runs.count - self._runs
        seconds, before = time.monotonic() - self._time_s, self._interruptions
        self._latest = None
        self._mark(step)
        if made > 0 and before == self._interruptions:
            kind = run_count / made
            if kind in self._kinds or len(self._kinds) < _MOST_KINDS:
                latest = self._latest = self._kinds.setdefault(kind, _Steps())
                latest.calls += 1
                latest.runs += run_count
                latest.steps += made
                latest.seconds += seconds
                latest.samples += samples

    def measure(self) -> Optional[Dict[str, Any]]:
        """Return the arguments of `launcher.job.reports.RankPace`; None before the second step."""
        if not self._kinds:
            return None
        usual = max(self._kinds, key=lambda kind: self._kinds[kind].calls)
        counted = [found for kind, found in self._kinds.items() if kind <= usual]
        return {
            "first_step_s": self._measure_first(self._kinds[usual]),
            "steps": sum(each.steps for each in counted),
            "seconds": sum(each.seconds for each in counted),
            "samples": sum(each.samples for each in counted),
        }

    def _measure_first(self, usual: _Steps) -> Optional[float]:
        """Return the seconds of the first step: the runs before its end, as many as usual."""
        if self._begun_s is not None and not self._was_paused:
            return self._first_s - self._begun_s
        run_count = usual.runs // usual.calls
        are_steps_apart = usual.steps == usual.calls or run_count == 1  # or this is no first step
        if self._was_paused or not are_steps_apart or not 0 < run_count <= len(self._begins):
            return None
        return self._first_s - self._begins[-run_count]


class _State:
    """What this process has noted, and what it has still to send."""

    lock = threading.Lock()
    pace: Optional[_Pace] = None
    next_s = 0.0
    unsent: Optional[Dict[str, Any]] = None
    sends_at_exit = False


def _note(
    step: int,
    total: Optional[int],
    samples: float,
    is_by_hook: bool,
    begun_s: Optional[float] = None,
) -> None:
    if not channel.is_below_launch():
        return
    with _State.lock:
        pace = _State.pace
        if pace is None or (pace.is_by_hook and not is_by_hook):
            pace = _State.pace = _Pace(step, is_by_hook, begun_s)
        elif is_by_hook and not pace.is_by_hook:
            return
        elif pace.thread == threading.get_ident():
            pace.note(step, samples)
        now = time.monotonic()
        _State.unsent = {"step": step, "total": total, "time": now}
        if not _State.sends_at_exit:
            _State.sends_at_exit = True
            send_at_exit(_send)
        if now >= _State.next_s or step == total:
            _State.next_s = now + _EVERY_S
            _send()


def _send() -> None:
    message, _State.unsent = _State.unsent, None
    if message is not None and _State.pace is not None:
        channel.send("step", is_optional=True, pace=_State.pace.measure(), **message)


def _forget_in_child() -> None:
    _State.lock, _State.next_s = threading.Lock(), 0.0
    _State.pace, _State.unsent, _State.sends_at_exit = None, None, False


on_fork(_forget_in_child)
