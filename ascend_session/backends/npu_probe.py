"""Probe: try to initialise the device in a short-lived process first.

A failed initialisation aborts its process (guides/facts/process.md#a-failed-initialisation), so
neither ``except`` nor a retry inside that process can help. So a child process tries first, and its
output decides whether to try again.

`main` runs in the child: it reads a serialised ``tf.ConfigProto`` from stdin.
"""

import ctypes
import itertools
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Mapping, Optional

from ascend_session.checks.availability import find_holders
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import read_size
from ascend_session.errors import AscendError, InitializationError
from ascend_session.failures.failure import Failure, FailureClass, RetryPolicy
from ascend_session.failures.scanner import failure_of, translate

_logger = logging.getLogger(__name__)

# With the parent's sys.path, because -c alone would put the working directory first.
_PROGRAM = """
import sys
parent, *sys.path[:] = sys.argv[1:]
from ascend_session.backends.npu_probe import main
main(int(parent))
"""
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_LAST_LINES = 5  # of its output, in a message
# With these a probe would wait for the probes of other ranks, which may be over.
_JOB_VARIABLES = ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE", "HELP_CLUSTER", "TF_CONFIG")
_CHIEF_PREFIX = "CM_"


class _ProbeOutput(Exception):  # noqa: N818  (it is never raised, only translated)
    """The output of a probe."""


def probe(proto: Any, policy: RetryPolicy, environ: Mapping[str, str], job: Job) -> None:
    """Initialise and shut down in a child process, as often as ``policy`` allows.

    Args:
        proto: The ``tf.ConfigProto`` to initialise with.
        policy: Attempts, waits between them, and the timeout of one attempt.
        environ: The environment of this process; the child gets it without the job's variables.
        job: The job, with the device to try.

    Raises:
        InitializationError: The failure of the last attempt.
    """
    serialised = proto.SerializeToString()
    for attempt in itertools.count(1):
        error = _try_once(serialised, policy.attempt_seconds, environment_of(environ))
        if error is None:
            return
        failure = failure_of(error)
        if failure is None or attempt >= policy.attempts:
            raise error
        is_free = find_holders([job.device_id], environ).is_free
        if not policy.allows(attempt, failure, _class_on_device(failure, is_free)):
            raise error
        wait_s = policy.wait_before_next(failure)
        message = error.message.rstrip(".")
        _logger.warning("Attempt %d: %s. Next attempt in %g s.", attempt, message, wait_s)
        time.sleep(wait_s)


def _class_on_device(failure: Failure, is_free: bool) -> FailureClass:
    """Return the failure's class: temporary if another process uses the device."""
    is_permanent = failure.failure_class is FailureClass.PERMANENT
    if is_permanent and failure.wait_seconds is not None and not is_free:
        return FailureClass.TRANSIENT
    return failure.failure_class


def environment_of(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of a probe: without variables of a job of several ranks."""
    if read_size(environ) == 1:
        return dict(environ)
    return {
        name: value
        for name, value in environ.items()
        if name not in _JOB_VARIABLES and not name.startswith(_CHIEF_PREFIX)
    }


def _try_once(
    serialised: bytes, timeout_s: float, environ: Dict[str, str]
) -> Optional[AscendError]:
    """Run `main` in a child process; return its failure, or None."""
    folders = [path or os.getcwd() for path in sys.path]
    # A file: processes that the vendor's libraries leave behind may keep a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            code = subprocess.run(
                [sys.executable, "-c", _PROGRAM, str(os.getpid()), *folders],
                input=serialised,
                env=environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            how = f"did not finish within {timeout_s:g} s"
        else:
            if code == 0:
                return None
            how = f"exited with {_name_end(code)}"
        output.seek(0)
        text = output.read().decode(errors="replace")
    what = f"initialize_system in a separate process, which {how},"
    error = translate(_ProbeOutput(text), action=what, into=InitializationError)
    if failure_of(error) is not None:
        return error
    lines: List[str] = [line for line in text.splitlines() if line.strip()]
    last = "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])
    tail = f"its last lines:\n{last}" if last else "it wrote nothing."
    return InitializationError(f"The separate process for initialize_system {how}; {tail}")


def _name_end(code: int) -> str:
    try:
        return f"code {code}" if code >= 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def main(parent: int) -> None:
    """Initialise with the proto on stdin and shut down again.

    Args:
        parent: The pid of the waiting process; the probe is killed when it ends.
    """
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return
    from ascend_session.backends._tensorflow import tf1
    from ascend_session.backends.npu import NpuBackend
    from ascend_session.config.proto import read_entry

    proto = tf1().ConfigProto.FromString(sys.stdin.buffer.read())
    backend = NpuBackend(os.environ, "a probe runs on it")
    backend.initialize(proto, read_entry(proto))
    try:
        backend.shutdown()
        backend.close()
    except Exception:  # a failed shutdown does not matter here
        _logger.exception("The probe could not shut down.")
