"""The device: the vendor's operators, HCCL's ranks, and what would quietly leave it unused.

Only the modules of this room named npu* know the vendor's packages, and never
``npu_bridge.npu_init``, which patches every session of a process (adapter_behaviour.md, "Traps of
the Python package").
"""

import atexit
import contextlib
import importlib.util
import io
import sys
from typing import Any, Dict, List, Mapping, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.base import FEATURES, Backend
from ascend_session.backends.npu_collectives import NpuCollectives
from ascend_session.backends.npu_devices import Devices
from ascend_session.backends.npu_exports import Exports
from ascend_session.backends.npu_job import check_job
from ascend_session.backends.npu_probe import probe
from ascend_session.checks.holders import await_free
from ascend_session.checks.toolkit import check_operators
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import uses_collectives
from ascend_session.errors import BackendError
from ascend_session.failures import RetryPolicy
from ascend_session.findings import errors_of
from ascend_session.hardware.nodes import host_root

__all__ = ["NpuBackend"]

_ANOTHER_BACKEND = 'Or run on the CPU: backend="stub", or export ASCEND_SESSION_BACKEND=stub.'


class NpuBackend(Backend):
    """Ascend processors, through the vendor's adapter.

    Args:
        environ: The environment to go by.
        reason: Why this backend was chosen, for messages.

    Raises:
        BackendError: If TensorFlow or the vendor's packages cannot be imported, or the list of
            supported operators is not found.
    """

    name = "npu"
    interrupted_run_s = 10.0  # runs are longer, and a device that was finalised is worth a wait
    collectives: NpuCollectives

    def __init__(self, environ: Mapping[str, str], reason: str) -> None:
        super().__init__()
        tf1()
        self.capabilities: Dict[str, Any] = dict.fromkeys(FEATURES, True)
        self._exports = Exports(environ)
        added = self._exports.variables
        self._environ = {**environ, **added} if added else environ
        self._devices = Devices.of(environ)
        _check_installed(reason)
        _check_operators(environ)
        # From here on the adapter is in this process, and the stub can no longer be had.
        self._ops, self._hccl = _vendor_modules()
        self.collectives = NpuCollectives(self._environ, self.bring_up)

    def job(self, environ: Mapping[str, str]) -> Job:
        """This process's place in its job; a physical ``DEVICE_ID`` becomes a logical one."""
        job = Job.detect(environ)
        if environ.get("ASCEND_DEVICE_ID") or not environ.get("DEVICE_ID"):
            return job
        logical = self._devices.logical(job.device_id)
        return job if logical is None else job._replace(device_id=logical)

    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Refuses jobs that would train alone without a word, and devices that are not there."""
        check_job(job, self._environ)
        self._devices.check(self._environ, parameters)

    def remarks(self, parameters: Mapping[str, Any]) -> List[str]:
        """What would leave the device unused, or open another one than it seems."""
        found = [*self._devices.notes, *self._devices.traps]
        if parameters.get("use_off_line") is False:
            found.append("use_off_line=False: this session runs on the host CPU, not on the npu.")
        if parameters.get("job") in ("ps", "default"):
            found.append(
                f"job={parameters['job']!r}: this session runs on the host CPU, not on the npu."
            )
        return found

    def system_ops(self) -> Tuple[Any, Any]:
        """``initialize_system`` and ``shutdown_system`` of ``npu_bridge.estimator.npu_ops``."""
        return self._ops.initialize_system(), self._ops.shutdown_system()

    def bring_up(self) -> None:
        """Initialises again if the device went down, and makes the groups that went with it."""
        super().bring_up()
        self.collectives.restore_groups()

    def initialize(self, proto: Any) -> None:
        """Initialises as who the scheduler says that this process is, if one does."""
        self._exports.set()
        super().initialize(proto)

    def close(self) -> None:
        """Closes the keeper session, and leaves the environment as it was."""
        try:
            super().close()
        finally:
            self._exports.unset()

    def confirmed(self, job: Job) -> Job:
        """Rank and size as HCCL has them; they can be asked for only after the initialisation."""
        if not uses_collectives(self._environ):
            return job
        return job._replace(
            rank=self._hccl.get_rank_id(),
            size=self._hccl.get_rank_size(),
            local_rank=self._hccl.get_local_rank_id(),
            local_size=self._hccl.get_local_rank_size(),
        )

    def await_device(self, job: Job, parameters: Mapping[str, Any], seconds: float) -> None:
        """Waits until no other process holds this process's device and the session's."""
        ids = sorted({job.device_id, parameters.get("session_device_id", job.device_id)})
        await_free(ids, seconds, self._environ)

    def probe(self, job: Job, proto: Any, policy: RetryPolicy) -> None:
        """Initialises in short-lived processes until that works; see `npu_probe`."""
        probe(proto, policy, self._environ, job)

    def forget_in_child(self) -> None:
        """Have a forked process leave the device alone, also when it ends."""
        super().forget_in_child()
        unregister_exit_handler()


def unregister_exit_handler() -> None:
    """Take away what importing the vendor's package registers: it finalises the graph engine."""
    close: Any = getattr(sys.modules.get("npu_bridge"), "npu_close", None)
    atexit.unregister(close)


def _check_installed(reason: str) -> None:
    missing = [name for name in ("npu_bridge", "hccl") if not _is_there(name)]
    if missing:
        raise BackendError(
            f"The npu backend was chosen because {reason}, but {' and '.join(missing)} "
            f"cannot be found by this Python ({sys.executable}).",
            hint="Source the toolkit's set_env.sh and install the vendor's wheel: pip install "
            f"--no-index --find-links DIR npu_bridge. {_ANOTHER_BACKEND}",
        )


def _vendor_modules() -> Tuple[Any, Any]:
    """The vendor's operators and HCCL's ranks."""
    said = io.StringIO()
    try:
        # Why its library cannot be loaded the package only prints (helper.py).
        with contextlib.redirect_stdout(said):
            from hccl.manage import api
            from npu_bridge.estimator import npu_ops
    except Exception as error:
        why = "; ".join([*said.getvalue().splitlines(), f"{type(error).__name__}: {error}"])
        raise BackendError(
            f"The vendor's packages cannot be imported: {why.rstrip('.')}. Without the adapter "
            "every graph would stay on the CPU.",
            hint="Source the toolkit's set_env.sh, and look whether npu_bridge was made for this "
            f"TensorFlow ({tf1().__version__}) and this Python.",
        ) from error
    print(said.getvalue(), end="")
    return npu_ops, api


def _is_there(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _check_operators(environ: Mapping[str, str]) -> None:
    for finding in errors_of(check_operators(environ, host_root(environ))):
        raise BackendError(finding.message, hint=finding.hint)
