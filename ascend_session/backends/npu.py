"""The device: the vendor's operators, HCCL's ranks, and what would quietly leave it unused.

Only the modules of this room named npu* know the vendor's packages, and never
``npu_bridge.npu_init``, which patches every session of a process (adapter_behaviour.md, "Traps of
the Python package").
"""

import contextlib
import importlib.util
import io
import sys
from typing import Any, Dict, List, Mapping, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.base import Backend
from ascend_session.backends.npu_devices import Devices
from ascend_session.backends.npu_probe import probe
from ascend_session.backends.npu_waiting import await_free
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import task_type, uses_collectives
from ascend_session.errors import BackendError, JobError
from ascend_session.failures.retrying import RetryPolicy
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.operators import OPP_VARIABLE, operator_list

__all__ = ["NpuBackend"]

_FEATURES = (
    "graph execution",
    "option checks",
    "offload",
    "precision modes",
    "data dump",
    "profiling",
    "AOE tuning",
    "iterations per loop",
    "separate devices",
    "collectives",
)
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

    def __init__(self, environ: Mapping[str, str], reason: str) -> None:
        super().__init__()
        tf1()
        self._environ = environ
        self._ops = _vendor_ops(reason)
        self._devices = Devices.of(environ)
        self.capabilities: Dict[str, Any] = dict.fromkeys(_FEATURES, True)
        _check_operators(environ)

    def job(self, environ: Mapping[str, str]) -> Job:
        """This process's place in its job; a physical ``DEVICE_ID`` becomes a logical one."""
        job = Job.from_env(environ)
        if environ.get("ASCEND_DEVICE_ID") or not environ.get("DEVICE_ID"):
            return job
        logical = self._devices.logical(job.device_id)
        return job if logical is None else job._replace(device_id=logical)

    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Refuses jobs that would train alone without a word, and devices that are not there."""
        environ = self._environ
        if job.size > 1 and not uses_collectives(environ):
            raise JobError(
                f"RANK_SIZE={job.size}, but neither RANK_TABLE_FILE nor CM_CHIEF_IP is set: the "
                "adapter would leave collectives off without a word, and each rank train alone.",
                hint="export RANK_TABLE_FILE, or unset RANK_SIZE and RANK_ID to train alone.",
            )
        if environ.get("RANK_TABLE_FILE") and not (
            environ.get("RANK_ID") or environ.get("POD_NAME")
        ):
            raise JobError(
                "RANK_TABLE_FILE is set, but neither RANK_ID nor POD_NAME says which of its ranks "
                "this process is; HCCL would fail.",
                hint="export RANK_ID as this process's rank, from 0.",
            )
        if task_type(environ) == "ps":
            raise JobError(
                'TF_CONFIG says that this process is a "ps", for which the adapter does not '
                "initialise the device.",
                hint="Open systems in workers only.",
            )
        self._devices.check(environ, parameters)

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

    def confirmed(self, job: Job) -> Job:
        """Rank and size as HCCL has them; they can be asked for only after the initialisation."""
        if not uses_collectives(self._environ):
            return job
        from hccl.manage import api

        return job._replace(
            rank=api.get_rank_id(),
            size=api.get_rank_size(),
            local_rank=api.get_local_rank_id(),
            local_size=api.get_local_rank_size(),
        )

    def await_device(self, job: Job, parameters: Mapping[str, Any], seconds: float) -> None:
        """Waits until no other process holds this process's device and the session's."""
        ids = sorted({job.device_id, parameters.get("session_device_id", job.device_id)})
        await_free(ids, seconds, self._environ)

    def probe(self, job: Job, proto: Any, policy: RetryPolicy) -> None:
        """Initialises in short-lived processes until that works; see `npu_probe`."""
        probe(proto, policy, self._environ, job)


def _vendor_ops(reason: str) -> Any:
    missing = [name for name in ("npu_bridge", "hccl") if not _is_there(name)]
    if missing:
        raise BackendError(
            f"The npu backend was chosen because {reason}, but {' and '.join(missing)} "
            f"cannot be found by this Python ({sys.executable}).",
            hint="Source the toolkit's set_env.sh and install the vendor's wheel: pip install "
            f"--no-index --find-links DIR npu_bridge. {_ANOTHER_BACKEND}",
        )
    said = io.StringIO()
    try:
        # Why its library cannot be loaded the package only prints (helper.py).
        with contextlib.redirect_stdout(said):
            from npu_bridge.estimator import npu_ops
    except Exception as error:
        why = "; ".join([*said.getvalue().splitlines(), f"{type(error).__name__}: {error}"])
        raise BackendError(
            f"The vendor's npu_bridge cannot be imported: {why.rstrip('.')}. Without its adapter "
            "every graph would stay on the CPU.",
            hint="Source the toolkit's set_env.sh, and look whether npu_bridge was made for this "
            f"TensorFlow ({tf1().__version__}) and this Python.",
        ) from error
    print(said.getvalue(), end="")
    return npu_ops


def _is_there(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _check_operators(environ: Mapping[str, str]) -> None:
    found = operator_list(environ, host_root(environ))
    if found.operators:
        return
    given = environ.get(OPP_VARIABLE)
    variable = f"{OPP_VARIABLE}={given}" if given else f"{OPP_VARIABLE} is not set"
    raise BackendError(
        f"The adapter finds no list of supported operators in {found.folder} ({variable}): every "
        f"graph would run on the CPU without a word. It looks for {found.files[0]}.",
        hint="Source the toolkit's set_env.sh, which sets ASCEND_OPP_PATH.",
    )
