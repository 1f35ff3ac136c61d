"""The stub backend: TensorFlow on the CPU with the entry, states and errors of the device.

What it cannot do raises an error, or is named in `StubBackend.capabilities` (guides/stub.md).
"""

import importlib.util
import os
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.backends import STUB_DEVICES_VARIABLE
from ascend_session.backends.base import FEATURES, Backend, HostDevices
from ascend_session.cluster.job import Job
from ascend_session.errors import BackendError, DeviceError
from ascend_session.hardware.nodes import host_root

if TYPE_CHECKING:
    from ascend_session.backends.collectives import Groups

_DEFAULT_DEVICES = "8"

# Options with a visible effect, and the capability that it needs and that is missing here.
_INEFFECTIVE = {
    "enable_dump": "data dump",
    "enable_dump_debug": "data dump",
    "profiling_mode": "profiling",
    "aoe_mode": "AOE tuning",
}


class StubBackend(Backend):
    """TensorFlow on the CPU, with ``ASCEND_SESSION_STUB_DEVICES`` devices (default 8)."""

    name = "stub"
    needs_rendezvous = True
    replaces_vendor = True
    capabilities: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys(FEATURES, True),
        "offload": "the graph runs on the host CPU",
        "precision modes": "all operators compute in the dtypes of the graph",
        "data dump": "no dump files are written",
        "profiling": "no profiling data is written",
        "AOE tuning": "nothing is tuned",
        "iterations per loop": "the host makes the steps of a run one by one",
        "separate devices": "all device ids share the host CPU",
    }

    def __init__(self, environ: Mapping[str, str], reason: str = "") -> None:
        super().__init__(environ, reason)
        self._device_count = _count_devices(environ)
        self._job: Optional[Job] = None

    @classmethod
    def detect(cls, environ: Mapping[str, str]) -> Optional[str]:
        """Return the reason; the stub is always available, and therefore asked last."""
        return "no Ascend processor is present (there is no /dev/davinci*)"

    @classmethod
    def find_devices(cls, environ: Mapping[str, str], rank_count: int) -> HostDevices:
        """List as many devices as the variable says, or as the launch asks for if that is more."""
        count = _count_devices(environ)
        notes: Tuple[str, ...] = ()
        if rank_count > count and environ.get(STUB_DEVICES_VARIABLE):
            notes = (f"{STUB_DEVICES_VARIABLE}={count} is raised to {rank_count}, one per rank.",)
        return HostDevices((None,) * max(count, rank_count), notes)

    @classmethod
    def device_variables(
        cls, device: int, local_size: int, environ: Mapping[str, str]
    ) -> Dict[str, str]:
        """Return the variable with the number of devices, the same for all ranks."""
        return {STUB_DEVICES_VARIABLE: str(max(_count_devices(environ), local_size))}

    @classmethod
    def explain_count(cls, environ: Mapping[str, str]) -> str:
        """Return whether the number of devices is from the variable or the default."""
        if environ.get(STUB_DEVICES_VARIABLE):
            return f"{STUB_DEVICES_VARIABLE} says"
        return "a server with Ascend processors usually has"

    @property
    def operators(self) -> Any:
        """The stub's collectives, imported when the first one is used."""
        from ascend_session.backends import stub_collectives

        return stub_collectives

    def allreduce_many(self, tensors: Sequence[Any], **settings: Any) -> List[Any]:
        """Add one exchange for all tensors, as the device fuses gradients."""
        return list(self.operators.allreduce_many(tensors, **settings))

    @property
    def groups(self) -> "Groups":
        """The groups of the open job."""
        from ascend_session.backends.stub_job import current_job

        return current_job("hccl").groups

    def find_job(self, environ: Mapping[str, str]) -> Job:
        """Find rank and size of this process, and keep them for `initialize`."""
        self._job = super().find_job(environ)
        return self._job

    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Refuse a loaded adapter, ranks on other machines, and devices that the stub lacks."""
        _refuse_adapter()
        if job.size > 1:
            from ascend_session.backends.stub_job import find_endpoint

            find_endpoint(job, self._environ)
        variable = "ASCEND_DEVICE_ID" if self._environ.get("ASCEND_DEVICE_ID") else "DEVICE_ID"
        devices = {
            variable: job.device_id,
            "session_device_id": parameters.get("session_device_id", 0),
        }
        for name, device in devices.items():
            if device >= self._device_count:
                raise DeviceError(
                    f"{name}={device}: the stub has {self._device_count} devices, "
                    f"0 to {self._device_count - 1}.",
                    hint=f"export {STUB_DEVICES_VARIABLE}={device + 1}",
                )

    def explain_automatic(self, reason: str) -> str:
        """Return a message that the CPU is used and, if a device seems to exist, what to check."""
        signs = _signs_of_device(self._environ)
        if not signs:
            hint = "If that is intended, set ASCEND_SESSION_BACKEND=stub."
            return f"This program runs on the CPU: {reason}.\n  hint: {hint}"
        return (
            f"This program runs on the CPU and not on a device, although {' and '.join(signs)}: "
            f"{reason}.\n  hint: In a container, pass the device in with --device=/dev/davinci0; "
            "on a host, check the driver with `npu-smi info`. If the CPU is intended, set "
            "ASCEND_SESSION_BACKEND=stub."
        )

    def remarks(self, parameters: Mapping[str, Any]) -> List[str]:
        """List, in sentences, the options that are set and have no visible effect here."""
        return list(without_effect(parameters).values())

    def initialize(self, proto: Any, parameters: Mapping[str, Any]) -> None:
        """Wait until all ranks of the job have joined, then open the system session.

        Raises:
            InitializationError: If ranks did not join in time; names them.
        """
        from ascend_session.backends.stub_job import open_job

        job = self._job or self.find_job(self._environ)
        open_job(job, parameters, self._environ)
        super().initialize(proto if job.size == 1 else _without_spinning(proto), parameters)

    def interrupt(self, reason: str, error: Optional[BaseException] = None) -> None:
        """End the job for all ranks; threads of this process that wait for others get an error."""
        from ascend_session.backends.stub_job import find_open_job

        job = find_open_job()
        if job is not None:
            job.process_group.fail(reason, error)

    def close(self) -> None:
        """Leave the job in order, and close the system session."""
        from ascend_session.backends.stub_job import find_open_job

        try:
            with self._closing:
                job = find_open_job()
                if job is not None:
                    job.close()
        finally:
            super().close()


def without_effect(parameters: Mapping[str, Any]) -> Dict[str, str]:
    """Map each option that is set and has no visible effect on the stub to a sentence."""
    return {
        key: f"{key}={parameters[key]!r} has no effect on the stub: "
        f"{StubBackend.capabilities[capability]}."
        for key, capability in _INEFFECTIVE.items()
        if parameters.get(key)
    }


def _without_spinning(proto: Any) -> Any:
    """Copy a ``tf.ConfigProto`` so that threads without work sleep instead of spinning.

    Ranks on one machine share its CPUs, so a spinning thread slows down the rank for which it
    waits. The first session of a process, which is the system's, decides for all sessions.
    """
    copy = type(proto).FromString(proto.SerializeToString())
    copy.experimental.disable_thread_spinning = True
    return copy


def _signs_of_device(environ: Mapping[str, str]) -> List[str]:
    """List signs of a device on this host, as in ``npu_bridge is installed``."""
    from ascend_session.hardware.installation import DEFAULT_PREFIX, OPP_VARIABLE, TOOLKIT_VARIABLES

    signs = [f"{name} is set" for name in (*TOOLKIT_VARIABLES, OPP_VARIABLE) if environ.get(name)]
    signs = signs[:1]  # set_env.sh sets all of them
    if os.path.isdir(os.path.join(host_root(environ), DEFAULT_PREFIX)):
        signs.append(f"/{DEFAULT_PREFIX} exists")
    if _has_vendors_package():
        signs.append("npu_bridge is installed")
    return signs


def _has_vendors_package() -> bool:
    """Return whether the vendor's npu_bridge is installed; the one of `compat` does not count."""
    from ascend_session.backends.npu import is_installed

    if any(type(finder).__name__ == "VendorFinder" for finder in sys.meta_path):
        return False
    spec = importlib.util.find_spec("npu_bridge") if is_installed("npu_bridge") else None
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return spec is not None and not (spec.origin or "").startswith(package)


def _refuse_adapter() -> None:
    """Refuse to run with the vendor's library loaded, which would use the device."""
    loaded = sys.modules.get("npu_bridge")
    # This package's replacement has another __name__.
    if loaded is not None and getattr(loaded, "__name__", "npu_bridge") == "npu_bridge":
        raise BackendError(
            "The stub cannot run here: npu_bridge is imported in this process, and its adapter "
            "would run the stub's sessions on the device.",
            hint='Do not import npu_bridge, or use backend="npu".',
        )


def _count_devices(environ: Mapping[str, str]) -> int:
    text = environ.get(STUB_DEVICES_VARIABLE) or _DEFAULT_DEVICES
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) < 1:
        raise BackendError(
            f"{STUB_DEVICES_VARIABLE}={text!r} is not a number of devices.",
            hint=f"export {STUB_DEVICES_VARIABLE}={_DEFAULT_DEVICES}",
        )
    return int(text)
