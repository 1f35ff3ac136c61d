"""FanOut: the open sessions of one process on several devices."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, Iterator, List, Tuple, TypeVar

from ascend_session.backends._tensorflow import operators_of_user
from ascend_session.config.checking import warn
from ascend_session.errors import LifecycleError
from ascend_session.fanout.phases import failed
from ascend_session.session.system import AscendSystem
from ascend_session.session.teardown import close_all

__all__ = ["FanOut"]

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
        """Calls ``fn(session, built)`` for one device after the other: for what must not overlap.

        Such as the initialisers of datasets: on a device they open data channels, and the adapter
        names these after the session that it heard of last.

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
                    raise failed("each", {device: error}, results) from error
        return list(results.values())

    def map(self, fn: Callable[[Any, Any], T]) -> List[T]:
        """Calls ``fn(session, built)`` for all devices at the same time, each in its own thread.

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
            return self._mapped(fn)

    @contextlib.contextmanager
    def _working(self, fn: Any) -> Iterator[None]:
        if not callable(fn):
            raise TypeError(f"fn must be a function of a session and what was built, not {fn!r}.")
        self._check_usable()
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
        if self._in_turn or len(self) == 1:
            return
        if any(operators_of_user(graph, _OPEN_CHANNELS) for graph in self.graphs.values()):
            self._in_turn = True  # said once
            warn(
                "The graphs read datasets, but each() has not been called: on a device, iterators "
                "that are initialised at the same time can open each other's data channels. "
                "Initialise them first: devices.each(lambda session, built: session.run(...))."
            )

    def _check_usable(self) -> None:
        if self._ended:
            raise LifecycleError(
                f"This fan_out(...) {self._ended}; its sessions are closed.",
                hint="Call map inside the block: with fan_out(...) as devices: ...",
            )
        self.system.check_usable()

    def _mapped(self, fn: Callable[[Any, Any], Any]) -> List[Any]:
        with ThreadPoolExecutor(len(self), "ascend-session-fan-out") as pool:
            try:
                futures = {device: pool.submit(self._call, device, fn) for device in self}
                wait(futures.values())
            except BaseException as error:  # of a signal handler, or no thread can be started
                self.end(f"was ended by {type(error).__name__}")
                close_all([("session", session.close) for session in self.sessions.values()])
                raise
        raised = {device: future.exception() for device, future in futures.items()}
        failures = {device: error for device, error in raised.items() if error is not None}
        if not failures:
            return [future.result() for future in futures.values()]
        for failure in failures.values():
            if not isinstance(failure, Exception):  # sys.exit() in fn is meant for the program
                raise failure
        results = {device: f.result() for device, f in futures.items() if device not in failures}
        raise failed("map", failures, results) from next(iter(failures.values()))

    def _call(self, device_id: int, fn: Callable[[Any, Any], Any]) -> Any:
        session = self.sessions[device_id]
        with self.graphs[device_id].as_default(), session.as_default():
            return fn(session, self.built[device_id])

    def end(self, how: str) -> None:
        """Refuses further maps; ``how`` it ended is the predicate of a sentence."""
        self._ended = self._ended or how
