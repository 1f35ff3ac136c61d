"""FanOut: the open sessions of one process on several devices, and what fails on one of them."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

from ascend_session.backends._tensorflow import operators_of_user
from ascend_session.errors import AscendError, FanOutError, LifecycleError, warn
from ascend_session.failures import explain
from ascend_session.session.system import AscendSystem
from ascend_session.session.teardown import close_all

__all__ = ["FanOut", "device_failures", "join_problems"]

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
        """Call ``fn(session, built)`` for one device after the other: for what must not overlap.

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
            return self._call_all(fn)

    @contextlib.contextmanager
    def _working(self, fn: Any) -> Iterator[None]:
        """Check that there can be work on the devices, and keep other work away meanwhile."""
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
        """Warn once of datasets that are not initialised one after the other."""
        if self._in_turn or len(self) == 1:
            return
        if any(operators_of_user(graph, _OPEN_CHANNELS) for graph in self.graphs.values()):
            self._in_turn = True
            warn(
                "The graphs read datasets, but each() has not been called: on a device, iterators "
                "that are initialised at the same time can open each other's data channels. "
                "Initialise them first: devices.each(lambda session, built: session.run(...))."
            )

    def _call_all(self, fn: Callable[[Any, Any], Any]) -> List[Any]:
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
        raise device_failures("map", failures, results) from next(iter(failures.values()))

    def _call(self, device_id: int, fn: Callable[[Any, Any], Any]) -> Any:
        session = self.sessions[device_id]
        with self.graphs[device_id].as_default(), session.as_default():
            return fn(session, self.built[device_id])

    def end(self, how: str) -> None:
        """Refuse further maps; ``how`` it ended is the predicate of a sentence."""
        self._ended = self._ended or how


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
            known = explain(error)
            hint = None if known is None else known.advice
        kind = type(error).__name__
        sentences.append(f"Device {device} failed in the phase {phase}: {kind}: {text}")
        hints.append(hint)
    message = join_problems(sentences, f"{len(failures)} devices failed:")
    first_hint = next(filter(None, hints), None)
    return FanOutError(message, hint=first_hint, phase=phase, failures=failures, results=results)


def join_problems(sentences: List[str], heading: str) -> str:
    """Give one sentence as it is, and number several below a heading."""
    if len(sentences) == 1:
        return sentences[0]
    lines = [f"  {number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
    return "\n".join([heading, *lines])
