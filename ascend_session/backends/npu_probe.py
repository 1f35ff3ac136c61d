"""Initialising in a short-lived process first.

A failed initialisation aborts the process that tries (adapter_behaviour.md, "Life of GE in a
process"), so that neither ``except`` nor a retry inside it can help. A process whose end does not
matter tries instead; what it said when it ended decides whether another one does.

`main` is that process: it takes a serialised ``tf.ConfigProto`` on stdin, and ends with its parent.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Mapping

import tenacity

from ascend_session.checks.holders import look
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import read_size
from ascend_session.errors import InitializationError
from ascend_session.failures import Condition, RetryPolicy, failure_of, translate

__all__ = ["environment_of", "main", "probe"]

_logger = logging.getLogger(__name__)

# The parent's folders for modules first: with -m or -c alone the working directory would be.
_PROGRAM = """
import sys
parent, *sys.path[:] = sys.argv[1:]
from ascend_session.backends.npu_probe import main
main(int(parent))
"""
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_LAST_LINES = 5
# With these the probe would wait for the other ranks' probes, which may have succeeded long ago.
_JOB_VARIABLES = ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE", "HELP_CLUSTER", "TF_CONFIG")
_CHIEF_PREFIX = "CM_"


class _EndedError(Exception):
    """Carries what a process said before it ended."""


def probe(proto: Any, policy: RetryPolicy, environ: Mapping[str, str], job: Job) -> None:
    """Initialises and shuts down in a process of its own, as often as ``policy`` allows.

    Args:
        proto: The ``tf.ConfigProto`` to initialise with.
        policy: Attempts, waits and the time that one attempt may take.
        environ: The environment of the process; a job of several ranks is left out of it.
        job: The job; its device is the one that is tried.

    Raises:
        InitializationError: With what the last attempt failed with.
    """

    def worth_another(state: tenacity.RetryCallState) -> bool:
        assert state.outcome is not None
        error = state.outcome.exception()
        return isinstance(error, InitializationError) and _allowed(
            policy, state.attempt_number, error, job, environ
        )

    retrying = tenacity.Retrying(
        retry=worth_another,
        wait=lambda state: policy.wait_before_next(_failure(state)),
        before_sleep=_say,
        reraise=True,
    )
    serialised = proto.SerializeToString()
    retrying(_attempt, serialised, policy.attempt_seconds, environment_of(environ))


def _allowed(
    policy: RetryPolicy,
    attempt: int,
    error: InitializationError,
    job: Job,
    environ: Mapping[str, str],
) -> bool:
    failure = failure_of(error)
    if failure is None or attempt >= policy.attempts:
        return False
    met = [] if look([job.device_id], environ).is_free else [Condition.HELD_BY_OTHERS]
    return policy.allows(attempt, failure, failure.given(*met))


def _failure(state: tenacity.RetryCallState) -> Any:
    assert state.outcome is not None
    error = state.outcome.exception()
    return None if error is None else failure_of(error)


def _say(state: tenacity.RetryCallState) -> None:
    assert state.outcome is not None
    assert state.next_action is not None
    error = state.outcome.exception()
    assert isinstance(error, InitializationError)
    said, wait = error.message.rstrip("."), state.next_action.sleep
    _logger.warning("Attempt %d: %s. The next one in %g s.", state.attempt_number, said, wait)


def environment_of(environ: Mapping[str, str]) -> Dict[str, str]:
    """What a probe runs in: a rank of several tries its own device, without the others."""
    if read_size(environ) == 1:
        return dict(environ)
    return {
        name: value
        for name, value in environ.items()
        if name not in _JOB_VARIABLES and not name.startswith(_CHIEF_PREFIX)
    }


def _attempt(serialised: bytes, seconds: float, environ: Dict[str, str]) -> None:
    # A file, for what the vendor's libraries leave running may hold a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            ended = subprocess.run(
                [sys.executable, "-c", _PROGRAM, str(os.getpid()), *_folders()],
                input=serialised,
                env=environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            how = f"did not end within {seconds:g} s"
        else:
            how = f"ended with {_end(ended.returncode)}" if ended.returncode else ""
        output.seek(0)
        text = output.read().decode(errors="replace")
    if how:
        raise _error(how, text)


def _folders() -> List[str]:
    return [path or os.getcwd() for path in sys.path]


def _end(code: int) -> str:
    try:
        return f"code {code}" if code >= 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _error(how: str, text: str) -> InitializationError:
    asked = f"initialize_system in a process of its own, which {how},"
    error = translate(_EndedError(text), asked=asked, into=InitializationError)
    assert isinstance(error, InitializationError)
    if failure_of(error) is None:
        lines: List[str] = [line for line in text.splitlines() if line.strip()]
        last = "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])
        said = f"its last lines:\n{last}" if last else "it said nothing."
        error = InitializationError(f"A process of its own for initialize_system {how}; {said}")
    return error


def main(parent: int) -> None:
    """Initialises with the proto on stdin and shuts down again.

    Args:
        parent: The process that asks; without it the device must not stay held.
    """
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return
    from ascend_session.backends._tensorflow import tf1
    from ascend_session.backends.npu import NpuBackend

    proto = tf1().ConfigProto.FromString(sys.stdin.buffer.read())
    backend = NpuBackend(os.environ, "a probe runs on it")
    backend.initialize(proto)
    try:
        backend.shutdown()
        backend.close()
    except Exception:  # what was asked is whether the device comes up
        _logger.exception("The probe could not shut down.")
