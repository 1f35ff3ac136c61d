"""Several devices in one process: a graph and a session for each, run in parallel.

This is not a job, in which each device has its own process, connected by HCCL.

The adapter keeps the last ``session_device_id`` in a process-wide variable that names data
channels. So sessions start one after the other, and datasets should, too
(`FanOut.each`). Source: npu_attrs.cc, SetNpuOptimizerAttr;
host_queue_dataset_op.cc; guides/facts/process.md#the-device-of-a-process.
"""

import contextlib
import numbers
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, TypeVar

from ascend_session.backends._tensorflow import operators_of_user, tf1
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import (
    AscendError,
    ConfigError,
    DeviceError,
    FanOutError,
    LifecycleError,
    warn,
)
from ascend_session.failures.scanner import explain
from ascend_session.ids import PhysicalDeviceId
from ascend_session.session.api import (
    SessionContext,
    SystemContext,
    ascend_system,
    device_check,
)
from ascend_session.session.signals import close_all, deferring
from ascend_session.session.system import AscendSystem

__all__ = ["FanOut", "fan_out"]

T = TypeVar("T")

# Operators whose first run opens a dataset, and on a device its data channel.
_OPEN_CHANNELS = ("MakeIterator", "OneShotIterator")


class FanOut:
    """The open sessions of one process on several devices.

    Attributes:
        system: The `AscendSystem` that they share.
        device_ids: The devices, in the order in which they were given.
        graphs: ``{device_id: tf.Graph}``.
        sessions: ``{device_id: tf.Session}``; none of them is the default session of a thread.
        built: ``{device_id: what build returned}``.
    """

    def __init__(self, system: AscendSystem, device_ids: Tuple[int, ...]) -> None:
        self.system = system
        self.device_ids = device_ids
        self.graphs: Dict[int, Any] = {}
        self.sessions: Dict[int, Any] = {}
        self.built: Dict[int, Any] = {}
        self._busy = threading.Lock()
        self._in_turn = False
        self._ended = ""

    def __len__(self) -> int:
        return len(self.device_ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.device_ids)

    def each(self, fn: Callable[[Any, Any], T]) -> List[T]:
        """Call ``fn(session, built)`` for one device after the other.

        An example is the initialisers of datasets: they open data channels, which the adapter names
        after the last session.

        Returns:
            What ``fn`` returned, in the order of the devices.

        Raises:
            FanOutError: If ``fn`` fails for a device; the devices after it are not tried.
            LifecycleError: Outside the block, or while a map runs on the same devices.
        """
        with self._working(fn):
            self._in_turn = True
            results: Dict[int, Any] = {}
            for device in self:
                try:
                    results[device] = self._call(device, fn)
                except Exception as error:
                    raise device_failures("each", {device: error}, results) from error
        return list(results.values())

    def map(self, fn: Callable[[Any, Any], T]) -> List[T]:
        """Call ``fn(session, built)`` for all devices at the same time, each in its own thread.

        In its thread the device's session and graph are the defaults. All are waited for, even if
        one fails. An exception that a signal handler raises meanwhile, such as KeyboardInterrupt,
        closes the sessions, so that the threads end; it comes out when they have ended.

        Returns:
            What ``fn`` returned, in the order of the devices.

        Raises:
            FanOutError: If ``fn`` fails for a device; ``results`` has what the others returned.
            LifecycleError: Outside the block, or while another map runs on the same devices.
        """
        with self._working(fn):
            self._check_datasets()
            with ThreadPoolExecutor(len(self), "ascend-session-fan-out") as pool:
                try:
                    # The pool waits for the threads it knows: a thread counts once it has started.
                    with deferring():
                        futures = {device: pool.submit(self._call, device, fn) for device in self}
                    wait(futures.values())
                except BaseException as error:  # of a signal handler, or no thread can be started
                    self.end(f"was stopped by {type(error).__name__}")
                    close_all([("session", session.close) for session in self.sessions.values()])
                    raise
        raised = {device: future.exception() for device, future in futures.items()}
        failures = {device: error for device, error in raised.items() if error is not None}
        results = {device: f.result() for device, f in futures.items() if device not in failures}
        if not failures:
            return list(results.values())
        for failure in failures.values():
            if not isinstance(failure, Exception):  # sys.exit() in fn is meant for the program
                raise failure
        raise device_failures("map", failures, results) from next(iter(failures.values()))

    @contextlib.contextmanager
    def _working(self, fn: Any) -> Iterator[None]:
        """Reserve the devices for one call; raise LifecycleError if they are closed or busy."""
        if not callable(fn):
            raise TypeError(f"fn must be a function of a session and what was built, not {fn!r}.")
        if self._ended:
            raise LifecycleError(
                f"This fan_out(...) {self._ended}; its sessions are closed.",
                hint="Call map inside the block: with fan_out(...) as devices: ...",
            )
        self.system.check_usable()
        if not self._busy.acquire(blocking=False):
            raise LifecycleError(
                "A map is running on these devices already; a device does one thing at a time.",
                hint="Put both parts into one function, or wait for the first map to return.",
            )
        try:
            yield
        finally:
            self._busy.release()

    def _check_datasets(self) -> None:
        """Warn once about datasets that are initialised in parallel."""
        if self._in_turn or len(self) == 1:
            return
        if any(operators_of_user(graph, _OPEN_CHANNELS) for graph in self.graphs.values()):
            self._in_turn = True
            warn(
                "The graphs read datasets, but each() has not been called: on a device, iterators "
                "that are initialised at the same time can open each other's data channels. "
                "Initialise them first: devices.each(lambda session, built: session.run(...))."
            )

    def _call(self, device_id: int, fn: Callable[[Any, Any], Any]) -> Any:
        session = self.sessions[device_id]
        with self.graphs[device_id].as_default(), session.as_default():
            return fn(session, self.built[device_id])

    def end(self, how: str) -> None:
        """Refuse further maps; ``how`` is the predicate of the sentence that says why."""
        self._ended = self._ended or how


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
        AscendError: On entry, the subclass that names the cause; the devices are closed then.
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

    def __enter__(self) -> FanOut:
        if self._entered:
            raise LifecycleError(
                "This fan_out(...) was entered already.",
                hint="Call fan_out(...) again for each with block.",
            )
        self._entered = True
        _check_present(self._backend, self._device_ids)
        self._blocks.push(self._block)  # first: a signal may come as soon as it is open
        try:
            system = self._block.__enter__()
            self._devices = FanOut(system, self._device_ids)
            if self._config is None:
                _refuse_second_device(system.config)
            for device_id in self._device_ids:
                self._add(self._devices, device_id)
            return self._devices
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

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
            with deferring(is_opening=True):
                session = self._blocks.enter_context(block)
            _start(session)
        devices.graphs[device_id] = graph
        devices.sessions[device_id] = session
        devices.built[device_id] = built

    def __exit__(self, *failure: Any) -> None:
        if not self._entered:
            raise LifecycleError(
                "This fan_out(...) was not entered.", hint="with fan_out(...) as ...:"
            )
        with deferring():
            if self._devices is not None:
                self._devices.end("was left")
            self._blocks.__exit__(*failure)


@contextlib.contextmanager
def _phase(name: str, device_id: int) -> Iterator[None]:
    """Add device and phase to an exception; interrupts pass unchanged."""
    try:
        yield
    except Exception as error:
        raise device_failures(name, {device_id: error}) from error


def _start(session: Any) -> None:
    """Make the adapter read the options of ``session``, without other effects.

    It reads them at the first run of a session, even of a constant. A constant that is already in
    the graph is run, so that the graph stays unchanged; without one, the user's first run does it.
    """
    for op in session.graph.get_operations():
        if op.type == "Const" and len(op.inputs) == 0 and len(op.control_inputs) == 0:
            session.run(op)
            return


def _check_ids(device_ids: Any) -> Tuple[int, ...]:
    """Return ``device_ids`` as plain ints, or raise DeviceError with all faults."""
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
    """Check that this process gets all of these devices, before anything is started."""
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


def device_failures(
    phase: str, failures: Dict[int, BaseException], results: Optional[Dict[int, Any]] = None
) -> FanOutError:
    """Return the error for the failures of some devices, which the caller raises from the first.

    Args:
        phase: ``build``, ``start``, ``each`` or ``map``.
        failures: What failed, by device.
        results: What the other devices have, by device.
    """
    sentences: List[str] = []
    hints: List[Optional[str]] = []
    for device, error in failures.items():
        text: object = error
        if isinstance(error, AscendError):
            text, hint = error.message, error.hint
        else:
            explanation = explain(error)
            hint = None if explanation is None else explanation.advice
        kind = type(error).__name__
        sentences.append(f"Device {device} failed in the phase {phase}: {kind}: {text}")
        hints.append(hint)
    message = join_problems(sentences, f"{len(failures)} devices failed:")
    first_hint = next(filter(None, hints), None)
    return FanOutError(message, hint=first_hint, phase=phase, failures=failures, results=results)


def join_problems(sentences: List[str], heading: str) -> str:
    """Return one sentence unchanged, or number several below a heading."""
    if len(sentences) == 1:
        return sentences[0]
    lines = [f"  {number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
    return "\n".join([heading, *lines])
