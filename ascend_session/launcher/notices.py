"""Troubles with what is shown and logged: each kind is said once, and none ends the job."""

import contextlib
import threading
from typing import Callable, Set

__all__ = ["Notices"]


class Notices:
    """Passes on the first sentence of each kind, from whatever thread it comes.

    Args:
        say: Takes the sentence. Where it writes may be gone as well: its OSError is ignored.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._said: Set[str] = set()

    def once(self, kind: str, sentence: str) -> None:
        """Says the sentence, unless one of this kind was said before."""
        with self._lock:
            is_new = kind not in self._said
            self._said.add(kind)
        if is_new:
            with contextlib.suppress(OSError):
                self._say(sentence)
