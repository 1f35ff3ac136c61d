"""Initialising in a short-lived process first.

A failed initialisation aborts the process that tries (adapter_behaviour.md, "Life of GE in a
process"), so that neither ``except`` nor a retry inside it can help. A process whose end does not
matter tries instead; what it said when it ended decides whether another one does.

Run as a program, this module is that process: it takes a serialised ``tf.ConfigProto`` on stdin.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Mapping

import tenacity

from ascend_session.backends.npu_waiting import holders_of
from ascend_session.cluster.job import Job
from ascend_session.errors import InitializationError
from ascend_session.failures import Condition, failure_of, translate
from ascend_session.failures.retrying import RetryPolicy

__all__ = ["environment_of", "main", "probe"]

_logger = logging.getLogger(__name__)

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
    retrying(_attempt, serialised, policy.attempt_seconds, environment_of(environ, job))


def _allowed(
    policy: RetryPolicy,
    attempt: int,
    error: InitializationError,
    job: Job,
    environ: Mapping[str, str],
) -> bool:
    failure = failure_of(error)
    if failure is None:
        return False
    met = [Condition.HELD_BY_OTHERS] if holders_of([job.device_id], environ) else []
    return policy.allows(attempt, failure, failure.given(*met))


def _failure(state: tenacity.RetryCallState) -> Any:
    assert state.outcome is not None
    error = state.outcome.exception()
    return None if error is None else failure_of(error)


def _say(state: tenacity.RetryCallState) -> None:
    assert state.outcome is not None
    assert state.next_action is not None
    _logger.warning(
        "Attempt %d to initialise: %s; the next one in %g s.",
        state.attempt_number,
        state.outcome.exception(),
        state.next_action.sleep,
    )


def environment_of(environ: Mapping[str, str], job: Job) -> Dict[str, str]:
    """What a probe runs in: a rank of several tries its own device, without the others."""
    left = dict(environ)
    left["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    if job.size > 1:
        for name in environ:
            if name in _JOB_VARIABLES or name.startswith(_CHIEF_PREFIX):
                del left[name]
    return left


def _attempt(serialised: bytes, seconds: float, environ: Dict[str, str]) -> None:
    # A file, for what the vendor's libraries leave running may hold a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            ended = subprocess.run(
                [sys.executable, "-m", __name__],
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


def _end(code: int) -> str:
    return f"code {code}" if code >= 0 else signal.Signals(-code).name


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


def main() -> None:
    """Initialises with the proto on stdin and shuts down again."""
    from ascend_session.backends._tensorflow import tf1
    from ascend_session.backends.npu import NpuBackend

    proto = tf1().ConfigProto.FromString(sys.stdin.buffer.read())
    backend = NpuBackend(os.environ, "a probe runs on it")
    backend.initialize(proto)
    backend.shutdown()
    backend.close()


if __name__ == "__main__":
    main()
