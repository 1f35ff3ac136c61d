"""The context manager `fan_out`: what is opened for several devices is closed.

The adapter sends ``session_device_id`` to the device's own session only, and keeps the last one in
a process-wide variable that names data channels; so the sessions are started one after the other,
and so should be their datasets (`FanOut.each`). Source: npu_attrs.cc, SetNpuOptimizerAttr;
host_queue_dataset_op.cc; guides/facts/process.md#the-device-of-a-process.
"""

import contextlib
import numbers
import sys
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import (
    ConfigError,
    DeviceError,
    LifecycleError,
    with_short_traceback,
)
from ascend_session.fanout.sessions import FanOut, device_failures, join_problems
from ascend_session.ids import PhysicalDeviceId
from ascend_session.session.api import SessionContext, SystemContext, ascend_system, device_check
from ascend_session.session.teardown import keep_body_error

__all__ = ["FanOutContext", "fan_out"]


@with_short_traceback
def fan_out(
    config: Optional[AscendConfig],
    device_ids: Iterable[int],
    build: Callable[[int], Any],
    *,
    backend: str = "auto",
) -> "FanOutContext":
    """Open one graph and one session per device, and the system if this process has none.

    Args:
        config: The options of all sessions; inside an open system, None means that system's.
        device_ids: Logical ids of the devices, each once; read once, in their order.
        build: Called with a device id while that device's own new graph is the default; returns
            whatever the work needs.
        backend: ``auto``, ``npu`` or ``stub``.

    Returns:
        A context manager that gives a `FanOut`.

    Raises:
        DeviceError: For ids that cannot be, at once; on entry, for devices that are not here.
        ConfigError: If the config has a ``session_device_id``.
        FanOutError: On entry, if ``build`` or the start of a session fails.
        AscendError: On entry, the leaf that fits; nothing is open afterwards.
    """
    ids = _check_ids(device_ids)
    if not callable(build):
        raise TypeError(f"build must be a function of a device id, this is {build!r}.")
    block = ascend_system(config, backend=backend)
    _refuse_second_device(config)
    return FanOutContext(block, backend, config, ids, build)


class FanOutContext:
    """What `fan_out` returns."""

    def __init__(
        self,
        block: SystemContext,
        backend: str,
        config: Optional[AscendConfig],
        device_ids: Tuple[int, ...],
        build: Callable[[int], Any],
    ) -> None:
        self._block = block
        self._backend = backend
        self._config = config
        self._device_ids = device_ids
        self._build = build
        self._blocks = contextlib.ExitStack()
        self._entered = False
        self._devices: Optional[FanOut] = None

    @with_short_traceback
    def __enter__(self) -> FanOut:
        if self._entered:
            raise LifecycleError(
                "This fan_out(...) was entered already.",
                hint="Call fan_out(...) again for each with block.",
            )
        self._entered = True
        _check_present(self._backend, self._device_ids)
        system = self._block.__enter__()
        self._blocks.push(self._block)
        self._devices = FanOut(system, self._device_ids)
        try:
            if self._config is None:
                _refuse_second_device(system.config)
            for device_id in self._device_ids:
                self._add(self._devices, device_id)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self._devices

    def _add(self, devices: FanOut, device_id: int) -> None:
        """Build the graph of one device, open its session and start it."""
        graph = tf1().Graph()
        with _phase("build", device_id), graph.as_default():
            built = self._build(device_id)
        system = devices.system
        block = SessionContext(
            self._config, graph, device_id, None, system.backend, system, as_default=False
        )
        with _phase("start", device_id):
            session = self._blocks.enter_context(block)
            _start(session)
        devices.graphs[device_id] = graph
        devices.sessions[device_id] = session
        devices.built[device_id] = built

    def __exit__(self, *failure: Any) -> None:
        if self._devices is None:
            raise LifecycleError(
                "This fan_out(...) was not entered.", hint="with fan_out(...) as ...:"
            )
        self._devices.end("was left")
        errors: List[BaseException] = []
        with self._devices.system.signals.deferring() as waiting:
            try:
                self._blocks.__exit__(*failure)
            except BaseException as closing:
                errors.append(closing)
        body: Optional[BaseException] = None if errors else failure[1]
        errors = sorted(errors + waiting, key=lambda error: isinstance(error, Exception))
        if body is None and not errors:
            return
        first = errors.pop(0) if body is None else body
        for error in errors:
            keep_body_error(first, error)
        if first is not body:
            raise first


@contextlib.contextmanager
def _phase(name: str, device_id: int) -> Iterator[None]:
    """Add device and phase to an exception; interrupts pass as they are."""
    try:
        yield
    except Exception as error:
        raise device_failures(name, {device_id: error}) from error


def _start(session: Any) -> None:
    """Make the adapter read the options of ``session``, and nothing else.

    It reads them at the first run of a session, even of a constant, which starts nothing on the
    device. One that the graph has already is run, so that the graph stays as it was built; in a
    graph without constants the user's own first run has to do.
    """
    for op in session.graph.get_operations():
        if op.type == "Const" and len(op.inputs) == 0 and len(op.control_inputs) == 0:
            session.run(op)
            return


def _check_ids(device_ids: Any) -> Tuple[int, ...]:
    """Return ``device_ids`` as plain ints.

    Raises:
        DeviceError: With everything that is wrong with them.
    """
    try:
        values = list(device_ids)
    except TypeError:
        raise DeviceError(
            f"device_ids must be a list of device ids, not {device_ids!r}.",
            hint="Write [0, 1] for devices 0 and 1, or range(8) for all of 8.",
        ) from None
    problems = [] if values else ["device_ids is empty: fan_out needs at least one device."]
    ids: List[int] = []
    for value in values:
        if isinstance(value, PhysicalDeviceId):
            problems.append(
                f"{value!r} is physical; a session takes logical ids, which devices() shows."
            )
        elif isinstance(value, bool) or not isinstance(value, numbers.Integral):
            problems.append(f"A device id is an int, not {type(value).__name__} {value!r}.")
        elif int(value) < 0:
            problems.append(f"A device id is 0 or more, not {int(value)}.")
        else:
            ids.append(int(value))
    for device_id in sorted(set(ids)):
        if ids.count(device_id) > 1:
            problems.append(f"Device {device_id} is given {ids.count(device_id)} times.")
    if problems:
        raise DeviceError(join_problems(problems, f"{len(problems)} problems in device_ids:"))
    return tuple(ids)


def _check_present(backend: str, device_ids: Tuple[int, ...]) -> None:
    """Check that this process gets all of these devices, before anything is started.

    Raises:
        DeviceError: With all that it does not get.
    """
    check = device_check(backend)
    refusals: Dict[int, DeviceError] = {}
    for device_id in device_ids:
        try:
            check(device_id)
        except DeviceError as error:
            refusals[device_id] = error
    if refusals:
        problems = list(dict.fromkeys(error.message for error in refusals.values()))
        message = join_problems(problems, f"{len(problems)} devices are not there:")
        raise DeviceError(message, hint=refusals[max(refusals)].hint)


def _refuse_second_device(config: Optional[AscendConfig]) -> None:
    """Raise ConfigError if ``config`` names a device itself."""
    if config is not None and config.session_device_id is not None:
        raise ConfigError(
            f"The device was given twice: session_device_id={config.session_device_id} in the "
            "AscendConfig, and device_ids for fan_out.",
            hint="Give fan_out an AscendConfig without session_device_id.",
        )
