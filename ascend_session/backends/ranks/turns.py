"""In which order the runs of one operator go, and that two of them never go at once.

The n-th run on one rank belongs to the n-th on the others, so their order must be the same.
"""

import threading
from typing import Dict, Optional, Set

from ascend_session.errors import CollectiveError

__all__ = ["Turns"]

_LATE = 10.0  # seconds that an earlier iteration of a loop may be behind a later one


class Turns:
    """Who may go, for each key."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: Set[str] = set()
        self._next: Dict[str, int] = {}

    @property
    def are_idle(self) -> bool:
        """Whether nobody goes."""
        return not self._running

    def begin(self, key: str, name: str, turn: Optional[int]) -> None:
        """Waits until it is this run's turn.

        Args:
            key: Of the operator.
            name: Of the operator, for the message.
            turn: Number of the iteration, from 0, in a loop that runs the operator in each of its
                iterations; these may begin out of order. None if they cannot.

        Raises:
            CollectiveError: If two runs overlap whose order is not known.
        """
        with self._changed:
            free = self._changed.wait_for(lambda: self._is_free(key, turn), self._patience(turn))
            if not free:
                raise _overlap(name)
            self._running.add(key)
            if turn is not None:
                self._next[key] = turn + 1

    def end(self, key: str) -> None:
        """Says that a run is over."""
        with self._changed:
            self._running.discard(key)
            self._changed.notify_all()

    def _is_free(self, key: str, turn: Optional[int]) -> bool:
        # A loop that begins anew begins with 0.
        return key not in self._running and turn in (None, 0, self._next.get(key, 0))

    @staticmethod
    def _patience(turn: Optional[int]) -> float:
        return _LATE if turn else 0


def _overlap(name: str) -> CollectiveError:
    return CollectiveError(
        f'"{name}" began again before it had ended: two threads run it, or a loop does whose '
        "iterations do not wait for each other. The other ranks could not tell the two apart.",
        hint="Run it in one thread; give tf.while_loop parallel_iterations=1.",
    )
