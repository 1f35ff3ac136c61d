"""The gRPC service on rank 0, where the ranks of a job meet.

It listens on the loopback interface only, unless the ranks are on several machines; once for a
process, and as long as this lives: a system that is opened later finds it there. Each rank keeps
one stream open, on which it hears events and by whose end the others learn of its own; whatever it
says is a call that is answered at once.
"""

import logging
import threading
from concurrent import futures
from typing import Any, Callable, Dict, Iterator, Tuple

from ascend_session.backends.ranks import messages, wording
from ascend_session.backends.ranks.coordinator import Coordinator, Numbers, RefusedError, Seat
from ascend_session.backends.ranks.endpoint import endpoint_in
from ascend_session.backends.ranks.grpcio import grpcio
from ascend_session.backends.ranks.watch import Watch
from ascend_session.cluster.coordinator import is_address, is_loopback, parts_of
from ascend_session.errors import InitializationError

__all__ = ["Service", "service_at"]

_logger = logging.getLogger(__name__)

_services: Dict[str, "Service"] = {}
_services_lock = threading.Lock()


def service_at(address: str, job_id: str, size: int) -> "Service":
    """This process's service at the address, started if it is not there yet.

    Raises:
        InitializationError: If another process listens there, or this one does for another job.
    """
    with _services_lock:
        if address not in _services:
            service = Service(address, job_id, size)
            service.start()
            _services[address] = service
        if not _services[address].serves(job_id, size):
            raise InitializationError(wording.listens_already(address))
        return _services[address]


class Service:
    """Hears the ranks of a job, and tells each what it has to know."""

    def __init__(self, address: str, job_id: str, size: int) -> None:
        self._address = address
        self._job_id = job_id
        self._size = size
        self._numbers = Numbers.fresh()
        self._lock = threading.RLock()
        self._systems: Dict[int, Coordinator] = {}
        self._watch = Watch(self._lock, lambda: list(self._systems.values()))
        self._server: Any = None

    def start(self) -> None:
        """Listens.

        Raises:
            InitializationError: If the port is taken.
        """
        grpc = grpcio()
        is_inside = is_loopback(parts_of(self._address)[0])
        options = [*messages.SERVER_OPTIONS, *([] if is_inside else messages.KEEPALIVE)]
        self._server = grpc.server(_DaemonThreads(), options=options)
        handlers = {
            messages.ATTEND: grpc.unary_stream_rpc_method_handler(self._attend),
            messages.SAY: grpc.unary_unary_rpc_method_handler(self._say),
        }
        handler = grpc.method_handlers_generic_handler(messages.SERVICE, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        try:
            port = self._server.add_insecure_port(_listening_at(self._address))
        except RuntimeError:
            port = 0
        if not port:
            raise InitializationError(wording.cannot_listen(self._address, is_inside))
        if not is_inside:
            _logger.warning("%s", wording.open_network(self._address))
        self._server.start()
        self._watch.start()

    def serves(self, job_id: str, size: int) -> bool:
        """Whether it is this job's."""
        return (job_id, size) == (self._job_id, self._size)

    def settle(self, system: int, seconds: float) -> None:
        """Waits until all ranks have been sent how a system ended, if it has ended."""
        with self._lock:
            coordinator = self._systems.get(system)
        if coordinator is not None and coordinator.is_over:
            coordinator.settled.wait(seconds)

    def _attend(self, request: bytes, context: Any) -> Iterator[bytes]:
        try:
            coordinator, rank, seat = self._seated(request)
        except RefusedError as refusal:
            yield messages.encoded({"event": "refused", "said": str(refusal)})
            return

        def cut() -> None:
            with self._lock:
                coordinator.cut(rank)

        if not context.add_callback(cut):  # it is over already
            cut()
        for event in iter(seat.events.get, None):
            yield messages.encoded(event)

    def _seated(self, request: bytes) -> Tuple[Coordinator, int, Seat]:
        try:
            asked = messages.decoded(request)
            job_id, system, rank, size, token, pid = (
                asked[name] for name in ("job", "system", "rank", "size", "token", "pid")
            )
            system, rank, size = int(system), int(rank), int(size)
            place = endpoint_in(asked["place"])
        except (KeyError, TypeError, ValueError) as error:
            raise RefusedError(wording.unreadable()) from error
        if job_id != self._job_id:
            raise RefusedError(wording.another_job(rank, self._address))
        if size != self._size:
            with self._lock:
                self._system(system, rank).give_up_on(rank, size)
            raise RefusedError(wording.another_size(rank, size, self._size))
        if rank not in range(size):
            raise RefusedError(wording.no_rank(rank, size))
        with self._lock:
            coordinator = self._system(system, rank)
            return coordinator, rank, coordinator.come(rank, str(token), int(pid), place)

    def _system(self, number: int, rank: int) -> Coordinator:
        """The system of this number, new if this rank is the first that comes to it."""
        latest = max(self._systems, default=0)
        if number not in self._systems:
            if number < latest:
                raise RefusedError(wording.over(rank))
            self._systems[number] = Coordinator(self._size, self._numbers)
            # Who comes to this one has left the one before, but not everybody has.
            for earlier in [known for known in self._systems if known < number - 1]:
                del self._systems[earlier]
        return self._systems[number]

    def _say(self, request: bytes, context: Any) -> bytes:
        try:
            said = messages.decoded(request)
            with self._lock:
                coordinator = self._systems[said["system"]]
                rank = said["rank"]
                if said["job"] != self._job_id or not coordinator.knows(rank, said["token"]):
                    return messages.encoded({"refused": wording.unreadable()})
                _HEARD[said["what"]](coordinator, rank, said)
                answer = {"end": coordinator.ended}
        except (KeyError, TypeError, ValueError):
            _logger.debug("A message could not be read: %r", request, exc_info=True)
            return messages.encoded({"refused": wording.unreadable()})
        self._watch.wake()
        return messages.encoded(answer)


def _listening_at(address: str) -> str:
    """A name may mean another address here than on the other nodes: then at all of this one's."""
    host, port = parts_of(address)
    return address if is_address(host) or is_loopback(host) else f"[::]:{port}"


def _enter(coordinator: Coordinator, rank: int, said: Dict[str, Any]) -> None:
    coordinator.enter(rank, messages.operation_in(said["operation"]))


def _report(coordinator: Coordinator, rank: int, said: Dict[str, Any]) -> None:
    coordinator.report(rank, int(said["serial"]), messages.waits_in(rank, said["waits"]))


# What a rank can say
_HEARD: Dict[str, Callable[[Coordinator, int, Dict[str, Any]], None]] = {
    "enter": _enter,
    "report": _report,
    "used": lambda told, rank, said: told.use(rank, float(said["seconds"])),
    "give up": lambda told, rank, said: told.give_up(float(said["seconds"])),
    "too long": lambda told, rank, said: told.too_long(rank, said["key"], float(said["seconds"])),
    "leave": lambda told, rank, said: told.leave(rank, dict(said["counts"])),
    "fail": lambda told, rank, said: told.end(wording.rank_failed(rank, str(said["said"]))),
}


class _DaemonThreads(futures.Executor):
    """A thread for each call: streams are as many as ranks, and the rest is short.

    The standard library's pool would keep a process from ending as long as a stream is open.
    """

    def submit(self, *call: Any, **named: Any) -> Any:
        """Runs a function, the first argument, with the others in a thread of its own."""
        future: Any = futures.Future()
        arguments = [future, *call]
        name = "ascend-session-ranks"
        threading.Thread(target=_run, args=arguments, kwargs=named, name=name, daemon=True).start()
        return future


def _run(future: Any, function: Any, *args: Any, **named: Any) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function(*args, **named))
        except BaseException as error:
            future.set_exception(error)
