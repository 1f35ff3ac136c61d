"""In which order the runs of one operator go, and that two of them never go at once.

The n-th run on one rank belongs to the n-th on the others, so their order must be the same.
"""

import threading
from typing import Dict, NamedTuple, Optional, Set, Tuple

from ascend_session.errors import CollectiveError

__all__ = ["Turn", "Turns"]

_LATE = 10.0  # seconds for which nothing happens before a predecessor counts as missing


class Turn(NamedTuple):
    """One iteration of a loop that runs an operator in each of its iterations.

    Attributes:
        loop: Another number for each run of the loop.
        number: Of the iteration, from 0.
    """

    loop: int
    number: int


class Turns:
    """Who may go, for each operator."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: Set[str] = set()
        self._next: Dict[Tuple[str, str], Turn] = {}
        self._stopped = False

    @property
    def are_idle(self) -> bool:
        """Whether nobody goes."""
        return not self._running

    def begin(self, key: str, name: str, turn: Optional[Turn]) -> None:
        """Waits until it is this run's turn, or until `stop`.

        Args:
            key: What the ranks know the run by; one at a time.
            name: The operator's name in the graph.
            turn: For loops whose iterations begin in any order; None where they cannot.

        Raises:
            CollectiveError: If two runs overlap whose order is not known.
        """
        with self._changed:
            while not self._stopped and not self._is_free(key, name, turn):
                if turn is None or (not turn.number and key in self._running):
                    raise _overlap(name)
                news = self._changed.wait(_LATE)
                if not news and key not in self._running:
                    raise _missing(name, turn)
            self._running.add(key)
            if turn is not None:
                self._next[key, name] = turn._replace(number=turn.number + 1)

    def end(self, key: str) -> None:
        """Says that a run is over."""
        with self._changed:
            self._running.discard(key)
            self._changed.notify_all()

    def stop(self) -> None:
        """Lets all go who wait; there is nothing to wait for any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _is_free(self, key: str, name: str, turn: Optional[Turn]) -> bool:
        if key in self._running:
            return False
        return turn is None or not turn.number or self._next.get((key, name)) == turn


def _overlap(name: str) -> CollectiveError:
    return CollectiveError(
        f'"{name}" began again before it had ended: two threads run it, or a loop does whose '
        "iterations do not wait for each other. The other ranks could not tell the two apart.",
        hint="Run it in one thread; give tf.while_loop parallel_iterations=1.",
    )


def _missing(name: str, turn: Turn) -> CollectiveError:
    return CollectiveError(
        f'"{name}" began iteration {turn.number} of its loop, but the one before does not come: '
        "this TensorFlow begins them in any order, and one at a time.",
        hint="Give tf.while_loop parallel_iterations=1.",
    )
