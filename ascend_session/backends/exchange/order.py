"""The order in which the collectives of one rank run.

The n-th run of an operator on one rank belongs to the n-th on the others. So the order must be the
same on all ranks, and two runs of an operator may not overlap.
"""

import threading
from typing import Callable, Dict, NamedTuple, Optional, Set, Tuple

from ascend_session.errors import CollectiveError

_LATE_S = 10.0  # without any progress, before the previous iteration counts as missing


class Iteration(NamedTuple):
    """One iteration of a loop that runs an operator in each of its iterations.

    Attributes:
        loop: A number that no other run of a loop has.
        number: The iteration's number, from 0.
    """

    loop: int
    number: int


class RunOrder:
    """The order of one rank's collectives.

    Args:
        changed: Notified when a run ends, and when ``is_stopped`` becomes true.
        is_stopped: Whether there is nothing to wait for any more.
    """

    def __init__(self, changed: threading.Condition, is_stopped: Callable[[], bool]) -> None:
        self._changed = changed
        self._is_stopped = is_stopped
        self._running: Set[str] = set()
        self._next: Dict[Tuple[str, str], Iteration] = {}
        self._ended_count = 0

    def begin(self, key: str, name: str, iteration: Optional[Iteration]) -> None:
        """Wait until a run may begin.

        Args:
            key: The collective's key; it has one run at a time.
            name: The operator's name in the graph.
            iteration: For loops whose iterations begin in any order; None where they cannot.

        Raises:
            CollectiveError: If two runs overlap whose order is not known.
        """
        with self._changed:
            while not self._is_stopped() and not self._is_free(key, name, iteration):
                if iteration is None or (not iteration.number and key in self._running):
                    raise overlap(name)
                if not self._wait_for_end() and key not in self._running:
                    raise CollectiveError(
                        f'"{name}" started iteration {iteration.number} of its loop before the '
                        "previous one: this TensorFlow starts them in any order, one at a time.",
                        hint="Give tf.while_loop parallel_iterations=1.",
                    )
            self._running.add(key)
            if iteration is not None:
                self._next[key, name] = iteration._replace(number=iteration.number + 1)

    def end(self, key: str) -> None:
        """Note that a run is over."""
        with self._changed:
            self._running.discard(key)
            self._ended_count += 1
            self._changed.notify_all()

    def _wait_for_end(self) -> bool:
        """Wait until some run ends; return False if none did in time."""
        before = self._ended_count
        return self._changed.wait_for(
            lambda: self._is_stopped() or self._ended_count > before, _LATE_S
        )

    def _is_free(self, key: str, name: str, iteration: Optional[Iteration]) -> bool:
        if key in self._running:
            return False
        return iteration is None or not iteration.number or self._next.get((key, name)) == iteration


def overlap(name: str) -> CollectiveError:
    """Return the error for two runs that overlap."""
    return CollectiveError(
        f'"{name}" started again before it had finished: two threads run it, or a loop whose '
        "iterations do not wait for each other. The other ranks could not tell the two apart.",
        hint="Run it in one thread; give tf.while_loop parallel_iterations=1.",
    )
