"""The npu backend: Ascend processors, through the vendor's operators and HCCL.

Only modules of ``backends`` named npu* import the vendor's packages, and none imports
``npu_bridge.npu_init``, which patches every session of a process
(guides/facts/process.md#importing-npu_bridge).
"""

import atexit
import contextlib
import importlib.util
import io
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.backends._tensorflow import interrupt_afterwards, outermost, tf1
from ascend_session.backends.base import FEATURES, Backend, HostDevices, Loop
from ascend_session.backends.collectives import Groups
from ascend_session.backends.npu_job import (
    Devices,
    check_job,
    export_variables,
    find_missing_variables,
)
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import uses_collectives
from ascend_session.errors import BackendError, CollectiveError, DeviceError
from ascend_session.findings import errors_of
from ascend_session.hardware.nodes import VISIBLE_VARIABLE, device_nodes, host_root, node_name
from ascend_session.process import skip_exit_handlers_of_parent
from ascend_session.requirements import VENDOR_WHEEL_COMMAND
from ascend_session.spelling import option
from ascend_session.vendor import HOST_JOBS

if TYPE_CHECKING:
    from ascend_session.config.ascend_config import AscendConfig
    from ascend_session.failures.failure import RetryPolicy

_STUB = option("backend", "stub", write='"{}"'.format)
_ANOTHER_BACKEND = f"Or run on the CPU: {_STUB}, or export ASCEND_SESSION_BACKEND=stub."

# Variables by which the device counts the steps of a run (npu/util.py and npu_hook.py).
_COUNTERS = ("iterations_per_loop", "loop_cond", "zero", "one")


class NpuBackend(Backend):
    """Ascend processors, through the vendor's adapter.

    Raises:
        BackendError: If TensorFlow or the vendor's packages cannot be imported, or the list of
            supported operators is not found.
        JobError: If two sources disagree about rank or size.
    """

    name = "npu"
    capabilities = dict.fromkeys(FEATURES, True)
    holds_npus = True
    needs_rank_table = True
    reads_option_files = True
    interrupted_run_s = 10.0  # runs take longer than on the stub, and the device is shut down then

    def __init__(self, environ: Mapping[str, str], reason: str = "") -> None:
        from ascend_session.checks.toolkit import check_operators

        super().__init__(environ, reason)
        self._missing = find_missing_variables(environ)
        if self._missing:
            self._environ = {**environ, **self._missing}
        self._exports = contextlib.ExitStack()
        self._devices = Devices.of(environ)
        _check_installed(reason)
        for finding in errors_of(check_operators(environ, host_root(environ))):
            raise BackendError(finding.message, hint=finding.hint)
        # From here on the adapter is in this process, and the stub cannot be used any more.
        self._ops, self._hccl = _vendor_modules()
        self._groups = NpuGroups(self._hccl, self._environ, self.bring_up)

    @classmethod
    def detect(cls, environ: Mapping[str, str]) -> Optional[str]:
        """Return how many devices are present; None if there is none."""
        root = host_root(environ)
        nodes = device_nodes(root)
        if not nodes:
            return None
        return f"{len(nodes)} Ascend device(s) are present, first /dev/{node_name(root, nodes[0])}"

    @classmethod
    def find_devices(cls, environ: Mapping[str, str], rank_count: int) -> HostDevices:
        """List the devices that a process with this environment gets."""
        visible = Devices.of(environ)
        if visible.physical:
            return HostDevices(visible.physical, (*visible.traps, *visible.notes))
        if visible.traps:
            raise DeviceError(visible.traps[0], hint=f"Correct or unset {VISIBLE_VARIABLE}.")
        raise DeviceError(
            "This machine has no Ascend device (there is no /dev/davinci<N>).",
            hint=f"Pass the nodes into the container, or choose the CPU with {_STUB}.",
        )

    def find_job(self, environ: Mapping[str, str]) -> Job:
        """Find rank and size of this process; a physical ``DEVICE_ID`` becomes a logical one."""
        job = Job.of_system(environ)
        if not job.device_source.startswith("DEVICE_ID="):
            return job
        logical = self._devices.logical(job.device_id)
        return job if logical is None else job._replace(device_id=logical)

    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Raise AscendError for ranks that would train alone and devices that are not there."""
        check_job(job, self._environ)
        self._devices.check(self._environ, parameters)

    def remarks(self, parameters: Mapping[str, Any]) -> List[str]:
        """List what leaves the device unused, or opens another one than expected."""
        on_cpu = "this session runs on the host CPU, not on the npu."
        remarks = [*self._devices.notes, *self._devices.traps]
        if parameters.get("use_off_line") is False:
            remarks.append(f"use_off_line=False: {on_cpu}")
        if parameters.get("job") in HOST_JOBS:
            remarks.append(f"job={parameters['job']!r}: {on_cpu}")
        return remarks

    @property
    def operators(self) -> Any:
        """The vendor's ``hccl_ops``."""
        from npu_bridge.hccl import hccl_ops

        return hccl_ops

    @property
    def training_operators(self) -> Any:
        """The vendor's ``gelu`` and ``dropout``."""
        from npu_bridge.helper import helper

        return SimpleNamespace(gelu=helper.get_gen_ops().gelu, dropout=self._ops.dropout)

    @property
    def groups(self) -> Groups:
        """HCCL's groups."""
        return self._groups

    def system_ops(self) -> Tuple[Any, Any]:
        """Add ``initialize_system`` and ``shutdown_system`` of the vendor's ``npu_ops``."""
        return self._ops.initialize_system(), self._ops.shutdown_system()

    def make_loop(self, train_op: Any, steps: int, session: Optional[Any] = None) -> Loop:
        """Add the vendor's loop, which runs on the device."""
        return NpuLoop(train_op, steps, session)

    def make_estimator(
        self,
        model_fn: Any,
        config: "AscendConfig",
        proto: Any,
        run_config: Mapping[str, Any],
        **arguments: Any,
    ) -> Any:
        """Return the vendor's estimator, which makes an entry of the options in its NPURunConfig.

        It does not get ``proto``: its own entry would be a second one, whose values win
        (guides/facts/adapter.md#npurunconfig-and-npuestimator).
        """
        from npu_bridge.estimator.npu.npu_config import NPURunConfig
        from npu_bridge.estimator.npu.npu_estimator import NPUEstimator

        if not self._environ.get("JOB_ID"):  # required; a launch and most schedulers set it
            self._exports.enter_context(export_variables({"JOB_ID": str(os.getpid())}))
        estimator_config = NPURunConfig(**run_config, **config.to_run_config_kwargs())
        return NPUEstimator(model_fn, config=estimator_config, **arguments)

    def has_inf_and_nan(self) -> Optional[bool]:
        """Query the device's overflow mode, which is not known before `initialize`.

        The vendor's ``npu_plugin.is_inf_nan_enabled`` returns False then (npu_plugin.h,
        ``GetDeviceSatMode``: -1).
        """
        from npu_bridge import tf_adapter

        query = getattr(tf_adapter, "GetDeviceSatMode", None)  # which early releases do not have
        return None if query is None else {0: False, 1: True}.get(int(query()))

    def read_overflow(self, after: List[Any]) -> Any:
        """Add the operators that read and clear the device's overflow status.

        Source: npu_loss_scale_optimizer.py; npu_mixed_precesion_ops.cc.
        """
        from npu_bridge.helper import helper

        tf, operators = tf1(), helper.get_gen_ops()
        with tf.control_dependencies(after):
            status = operators.npu_get_float_status_v2()  # int32 [8], all 0 if there was none
        with tf.control_dependencies([status]):
            cleared = operators.npu_clear_float_status_v2()
        with tf.control_dependencies([cleared]):
            return tf.cast(tf.reduce_any(tf.not_equal(status, 0), keepdims=True), tf.int32)

    def bring_up(self) -> None:
        """Initialise again if the device went down, and create its groups again."""
        super().bring_up()
        self._groups.restore()

    def initialize(self, proto: Any, parameters: Mapping[str, Any]) -> None:
        """Initialise, with a scheduler's numbers in the variables that the adapter reads."""
        from ascend_session.backends.run_times import report_gaps

        self._exports.enter_context(export_variables(self._missing))
        super().initialize(proto, parameters)
        report_gaps()

    def close(self) -> None:
        """Close the system session, and restore the environment."""
        with self._exports:
            super().close()

    def confirm_job(self, job: Job) -> Job:
        """Return the job with HCCL's rank and size, if the adapter has started HCCL."""
        if not uses_collectives(self._environ):
            return job
        return job._replace(
            rank=self._hccl.get_rank_id(),
            size=self._hccl.get_rank_size(),
            local_rank=self._hccl.get_local_rank_id(),
            local_size=self._hccl.get_local_rank_size(),
        )

    def await_device(self, job: Job, parameters: Mapping[str, Any], seconds: float) -> None:
        """Wait until no other process uses the devices of this process and its session."""
        from ascend_session.checks.availability import await_free

        ids = sorted({job.device_id, parameters.get("session_device_id", job.device_id)})
        await_free(ids, seconds, self._environ)

    def probe(self, job: Job, proto: Any, policy: "RetryPolicy") -> None:
        """Try to initialise in short-lived processes; see `npu_probe`."""
        from ascend_session.backends.npu_probe import probe

        probe(proto, policy, self._environ, job)

    def abandon(self) -> None:
        """Keep a forked process from using the device, also when it exits."""
        super().abandon()
        unregister_exit_handler()
        skip_exit_handlers_of_parent()  # guides/facts/process.md#the-end-of-a-process


def unregister_exit_handler() -> None:
    """Unregister the vendor's exit handler, which finalises the graph engine."""
    close: Any = getattr(sys.modules.get("npu_bridge"), "npu_close", None)
    atexit.unregister(close)


def _check_installed(reason: str) -> None:
    missing = [name for name in ("npu_bridge", "hccl") if not is_installed(name)]
    if missing:
        raise BackendError(
            f"The npu backend was chosen because {reason}, but {' and '.join(missing)} "
            f"cannot be found by this Python ({sys.executable}).",
            hint="Source the toolkit's set_env.sh and install the vendor's wheel: "
            f"{VENDOR_WHEEL_COMMAND}. {_ANOTHER_BACKEND}",
        )


def is_installed(name: str) -> bool:
    """Return whether this Python finds a top-level package, without importing it."""
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _vendor_modules() -> Tuple[Any, Any]:
    """Import the vendor's ``npu_ops`` and ``hccl.manage.api``."""
    output = io.StringIO()
    try:
        # The package only prints why its library cannot be loaded (npu_bridge/helper/helper.py).
        with contextlib.redirect_stdout(output), interrupt_afterwards():
            from hccl.manage import api
            from npu_bridge.estimator import npu_ops
    except Exception as error:
        why = "; ".join([*output.getvalue().splitlines(), f"{type(error).__name__}: {error}"])
        raise BackendError(
            f"The vendor's packages cannot be imported: {why.rstrip('.')}. Without the adapter "
            "every graph would stay on the CPU.",
            hint="Source the toolkit's set_env.sh, and check whether npu_bridge was built for this "
            f"TensorFlow ({tf1().__version__}) and this Python.",
        ) from error
    print(output.getvalue(), end="")
    return npu_ops, api


class NpuLoop(Loop):
    """The vendor's loop, in which the device makes the steps.

    Source: npu/util.py; npu_optimizer.py.

    Args:
        train_op: The operation that makes one step.
        steps: Number of steps per run.
        session: The session in which to set the number; None if there is none yet.
    """

    def __init__(self, train_op: Any, steps: int, session: Optional[Any]) -> None:
        from npu_bridge.estimator.npu import util

        self._steps = steps
        with outermost(train_op.graph):
            if session is None:
                self.operation = util.IterationPerLoop().create_iteration_per_loop_var(train_op)
            else:
                self.operation = util.set_iteration_per_loop(session, train_op, steps)

    def load(self, session: Any) -> None:
        """Set the number of steps per run in this session."""
        from npu_bridge.estimator.npu import util

        with session.graph.as_default():
            for name, value in zip(_COUNTERS, (self._steps - 1, 0, 0, 1)):
                util.create_or_get_var(name).load(value, session=session)


class NpuGroups(Groups):
    """HCCL's groups, through the vendor's package (hccl/manage/api.py).

    Args:
        api: The vendor's ``hccl.manage.api``.
        environ: The environment of the process.
        bring_up: `NpuBackend.bring_up`: initialises again if HCCL is down, and calls `restore`.
    """

    def __init__(self, api: Any, environ: Mapping[str, str], bring_up: Callable[[], None]) -> None:
        self._api = api
        self._environ = environ
        self._bring_up = bring_up
        self._groups: Dict[str, List[int]] = {}  # name -> ranks, in the order of creation

    def create(self, group: str, ranks: Sequence[int]) -> None:
        """Create a group of ranks of the job, given in any order."""
        self._call("create_group", group, len(ranks), list(ranks))
        self._groups[group] = list(ranks)

    def destroy(self, group: str) -> None:
        """Destroy a group."""
        self._call("destroy_group", group)
        self._groups.pop(group, None)

    def rank(self, group: str) -> int:
        """Return this process's rank in the group."""
        return int(self._call("get_rank_id", group))

    def size(self, group: str) -> int:
        """Return the number of ranks of the group."""
        return int(self._call("get_rank_size", group))

    def local_rank(self, group: str) -> int:
        """Return the index of this process among the group's ranks on its host."""
        return int(self._call("get_local_rank_id", group))

    def local_size(self, group: str) -> int:
        """Return the number of the group's ranks on this process's host."""
        return int(self._call("get_local_rank_size", group))

    def world_rank(self, group: str, group_rank: int) -> int:
        """Return the rank in the job of a rank in the group."""
        return int(self._call("get_world_rank_from_group_rank", group, group_rank))

    def group_rank(self, world_rank: int, group: str) -> int:
        """Return the rank in the group of a rank in the job."""
        return int(self._call("get_group_rank_from_world_rank", world_rank, group))

    def restore(self) -> None:
        """Create the groups again that HCCL has lost.

        Closing the last session ends GE and HCCL
        (guides/facts/process.md#life-of-ge-in-a-process), but graphs still have operators that
        use these groups.

        Raises:
            CollectiveError: If HCCL refuses one.
        """
        for group, ranks in self._groups.items():
            try:
                self._api.get_rank_size(group)
            except ValueError:
                self._call_once("create_group", group, len(ranks), ranks)

    def _call(self, function: str, *arguments: Any) -> Any:
        """Call HCCL; if it refuses, bring it up, because it may be down, and call it again.

        Raises:
            CollectiveError: If it refuses again.
        """
        try:
            return getattr(self._api, function)(*arguments)
        except ValueError:
            self._bring_up()
        return self._call_once(function, *arguments)

    def _call_once(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._api, function)(*arguments)
        except ValueError as error:
            call = f"{function}({', '.join(map(repr, arguments))})"
            if uses_collectives(self._environ):
                hint = (
                    "A group exists from hccl.create_group to hccl.destroy_group, and only on its "
                    "own ranks. Name each rank once. HCCL's own log says more."
                )
            else:
                hint = (
                    "HCCL is not running in this process, which is in no job. Start it with "
                    "`ascend-session launch -n 1`, or ask the system: system.rank, system.size."
                )
            raise CollectiveError(
                f"HCCL refused {call}: {str(error).rstrip('.')}.", hint=hint
            ) from error
