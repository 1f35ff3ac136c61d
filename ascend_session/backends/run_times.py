"""When a rank of a launch runs its sessions: what its pace and the host's share are computed from.

`RunCounter` counts for `training.note_step`. `HostGaps` reports, on devices, how long the host
takes between two runs with a collective; on the stub the ranks' meeting sees who comes last.
"""

import os
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from ascend_session import channel
from ascend_session.backends._tensorflow import keep_on, walk_inputs
from ascend_session.backends.tf_sessions import SessionObserver, add_observer, remove_observer
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import CHANNEL
from ascend_session.vendor import WORLD_GROUP

_MOST_BEGINS = 256  # of a thread's last runs, whose times are kept


class RunCounter(SessionObserver):
    """Counts the runs of each thread, and the sessions that are opened.

    Attributes:
        opened: How many sessions were opened.
    """

    def __init__(self) -> None:
        self.opened = 0
        self._local = threading.local()

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Count a session."""
        self.opened += 1
        create(session, target, graph, config)

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Count a run of this thread."""
        local = self._local
        if not hasattr(local, "begins"):
            local.count, local.begins = 0, deque(maxlen=_MOST_BEGINS)
        local.count += 1
        local.begins.append(time.monotonic())

    @property
    def count(self) -> int:
        """How many runs this thread has begun."""
        return getattr(self._local, "count", 0)

    def list_begins(self) -> List[float]:
        """List when the last runs of this thread began, by `time.monotonic`."""
        return list(getattr(self._local, "begins", ()))


runs = RunCounter()


def count_runs() -> None:
    """Count the runs of all sessions from now on, in a process of a launch; imports TensorFlow."""
    if os.environ.get(CHANNEL):
        add_observer(runs)


_EVERY_S = 0.5  # between two messages
_MOST_GAPS = 500  # in a message
_MOST_FETCHES = 1000  # of a graph that are remembered
_COLLECTIVES = "_ascend_session_collectives"  # attribute of a graph: by what is fetched
_PARTS = ("HcomSend", "HcomReceive")


class HostGaps(SessionObserver):
    """Reports how long the host takes between two runs with a collective.

    The message ``gaps`` has a list of these under ``gaps``: a number for runs with the same
    collectives, the number of such a run, from 1, and two times in seconds, since the end of the
    last run with a collective and since the beginning of the last one of its kind. Under
    ``have_parts`` is whether ranks have parts of their own, as in `exchange.lateness`.
    """

    def __init__(self) -> None:
        self._numbers: Dict[Tuple[str, ...], int] = {}  # of runs with these collectives
        self._counts: Dict[int, int] = {}
        self._begun_s: Dict[int, float] = {}
        self._ended_s: Optional[float] = None
        self._running: Optional[int] = None
        self._thread: Optional[int] = None  # the one whose runs are measured
        self._gaps: Deque[Tuple[int, int, float, float]] = deque(maxlen=_MOST_GAPS)
        self._have_parts = False
        self._next_s = 0.0

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Note how long the host took since the last run, if this one has collectives."""
        if self._thread not in (None, threading.get_ident()):
            return
        collectives, are_of_all = _find_collectives(session.graph, list_operations())
        self._running = None
        if not collectives:
            return
        self._thread = threading.get_ident()
        self._have_parts = self._have_parts or not are_of_all
        number = self._running = self._numbers.setdefault(collectives, len(self._numbers))
        now = time.monotonic()
        if self._ended_s is not None and number in self._begun_s:
            gap_s, step_s = now - self._ended_s, now - self._begun_s[number]
            self._counts[number] = self._counts.get(number, 0) + 1
            self._gaps.append((number, self._counts[number], round(gap_s, 5), round(step_s, 5)))
        self._begun_s[number] = now
        if now >= self._next_s:
            self._next_s = now + _EVERY_S
            self.send()

    def after_run(self, session: Any, fetches: Any, values: Any, feeds: Any) -> None:
        """Note the end of a run with collectives."""
        if self._running is not None and self._thread == threading.get_ident():
            self._ended_s = time.monotonic()

    def send(self) -> None:
        """Report what has not been reported."""
        gaps = list(self._gaps)
        self._gaps.clear()
        if gaps:
            channel.send("gaps", is_optional=True, gaps=gaps, have_parts=self._have_parts)


def _find_collectives(graph: Any, operations: Sequence[Any]) -> Tuple[Tuple[str, ...], bool]:
    """Return the names of the collectives of a run, and whether all ranks have them."""
    collectives: Dict[Any, Tuple[Tuple[str, ...], bool]] = keep_on(graph, _COLLECTIVES)
    key = tuple(operations)
    if key not in collectives:
        if len(collectives) >= _MOST_FETCHES:
            collectives.clear()
        found = [each for each in walk_inputs(*key) if _is_collective(each)]
        names = tuple(sorted(str(each.name) for each in found))
        collectives[key] = names, all(map(_is_of_all, found))
    return collectives[key]


def _is_collective(operation: Any) -> bool:
    """Return whether an operation is HCCL's, by its type, or by the name that this gives it."""
    name = operation.name.rpartition("/")[2]
    return bool(operation.type.startswith("Hcom") or name.startswith("Hcom"))


def _is_of_all(operation: Any) -> bool:
    """Return whether all ranks of the job take part in a collective."""
    attributes = operation.node_def.attr
    group = attributes["group"].s.decode() if "group" in attributes else WORLD_GROUP
    kinds = operation.type, operation.name.rpartition("/")[2]
    return group == WORLD_GROUP and not any(kind.startswith(_PARTS) for kind in kinds)


_gaps: Optional[HostGaps] = None
_senders: List[Callable[[], None]] = []


def report_gaps() -> None:
    """Report the host's time between runs from now on, in a process of a launch."""
    global _gaps
    if _gaps is None and os.environ.get(CHANNEL):
        _gaps = HostGaps()
        add_observer(_gaps)
        send_at_exit(_gaps.send)


def send_at_exit(send: Callable[[], None]) -> None:
    """Have a function called when this process exits, which reports what is left to report."""
    _senders.append(send)
    on_close("steps", _send_last)


def _send_last() -> None:
    for send in _senders:
        send()


def _forget_in_child() -> None:
    global _gaps
    if _gaps is not None:
        remove_observer(_gaps)
    _gaps = None
    _senders.clear()


on_fork(_forget_in_child)
