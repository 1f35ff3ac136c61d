"""FanOut: the open sessions of one process on several devices."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, Iterator, List, Tuple, TypeVar

from ascend_session.errors import LifecycleError
from ascend_session.fanout.phases import failed
from ascend_session.session.system import AscendSystem
from ascend_session.session.unwinding import close_all

__all__ = ["FanOut"]

T = TypeVar("T")


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
        self._mapping = threading.Lock()
        self._ended = ""

    def __len__(self) -> int:
        return len(self.device_ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.device_ids)

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
        if not callable(fn):
            raise TypeError(f"fn must be a function of a session and what was built, not {fn!r}.")
        self._check_usable()
        if not self._mapping.acquire(blocking=False):
            raise LifecycleError(
                "A map is running on these devices already; a device does one thing at a time.",
                hint="Put both parts into one function, or wait for the first map to return.",
            )
        try:
            return self._mapped(fn)
        finally:
            self._mapping.release()

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
