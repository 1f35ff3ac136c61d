"""Waiting until no other process holds a device.

Two jobs on one device fail in ways that say little; the vendor's advice is to look who holds it
and to wait (launch_facts.md, E: EJ0001, E30003).
"""

import logging
from typing import Callable, Mapping, Optional, Sequence

import tenacity

from ascend_session.checks.finding import Finding
from ascend_session.checks.holders import Seen, look
from ascend_session.errors import DeviceTimeoutError
from ascend_session.hardware.command import TIME_LIMIT

__all__ = ["await_free", "await_gone"]

_logger = logging.getLogger(__name__)

_LOOK_EVERY = 1.0  # seconds
_SHORTEST_ANSWER = 1.0  # seconds that npu-smi is given in any case


def await_free(
    ids: Sequence[int],
    seconds: float,
    environ: Mapping[str, str],
    say: Optional[Callable[[str], None]] = None,
    sleep: Callable[[float], None] = tenacity.nap.sleep,
) -> None:
    """Waits until nobody but this process holds the devices.

    Args:
        ids: Their logical ids.
        seconds: How long to wait at most; with 0 one look decides nothing and none is taken.
        environ: The environment to go by.
        say: Is told who is waited for, and again when that changes; None means that it is logged.
        sleep: Sleeps between two looks; what it raises ends the wait.

    Raises:
        DeviceTimeoutError: Naming who holds which device, if that has not changed in time.
    """
    if seconds == 0:
        return
    timeout = max(min(TIME_LIMIT, seconds), _SHORTEST_ANSWER)
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_delay(seconds),
        wait=lambda state: min(_LOOK_EVERY, max(seconds - (state.seconds_since_start or 0), 0)),
        retry=tenacity.retry_if_result(lambda seen: not seen.is_free),
        before_sleep=_Herald(say or _logger.warning, seconds),
        sleep=sleep,
        retry_error_callback=lambda state: _refuse(_seen(state), seconds),
    )
    found = retrying(look, ids, environ, timeout)
    if found.notes:
        _logger.info("Nobody is seen to hold the device. %s", " ".join(found.notes))


def await_gone(
    find: Callable[[], Sequence[Finding]],
    seconds: float,
    say: Optional[Callable[[str], None]] = None,
    sleep: Callable[[float], None] = tenacity.nap.sleep,
) -> None:
    """Waits until nothing is found any more, or the time is over; which of them is not said.

    Args:
        find: Looks for what is in the way.
        seconds: How long to wait at most.
        say: Is told what is waited for, and again when that changes; None means that it is logged.
        sleep: Sleeps between two looks; what it raises ends the wait.
    """
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_delay(seconds),
        wait=lambda state: min(_LOOK_EVERY, max(seconds - (state.seconds_since_start or 0), 0)),
        retry=tenacity.retry_if_result(bool),
        before_sleep=_Herald(say or _logger.warning, seconds),
        sleep=sleep,
        retry_error_callback=lambda state: None,
    )
    retrying(find)


class _Herald:
    """Says who is waited for and for how long, and again when the holders change."""

    def __init__(self, say: Callable[[str], None], seconds: float) -> None:
        self._say = say
        self._seconds = seconds
        self._said = ""

    def __call__(self, state: tenacity.RetryCallState) -> None:
        text = _text(state)
        if text != self._said:
            self._said = text
            left = max(self._seconds - (state.seconds_since_start or 0), 0)
            self._say(f"Waiting for at most {left:.0f} s: {text}.")


def _text(state: tenacity.RetryCallState) -> str:
    assert state.outcome is not None
    found = state.outcome.result()
    return (
        str(found) if isinstance(found, Seen) else " ".join(one.said for one in found).rstrip(".")
    )


def _seen(state: tenacity.RetryCallState) -> Seen:
    assert state.outcome is not None
    seen: Seen = state.outcome.result()
    return seen


def _refuse(seen: Seen, seconds: float) -> None:
    here = " ".join(map(str, seen.pids))
    end = f"end it (kill {here}), " if here else ""
    raise DeviceTimeoutError(
        f"After {seconds:g} s {seen}.", hint=f"Wait longer, {end}or use another device."
    )
