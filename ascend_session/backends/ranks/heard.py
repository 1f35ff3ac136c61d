"""What one rank has heard of the others, and whether it can still go on."""

import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Set

from ascend_session.backends.ranks import wording
from ascend_session.backends.ranks.endpoint import Endpoint, endpoint_in
from ascend_session.backends.ranks.operation import Agreed
from ascend_session.backends.ranks.verdict import Wait, behind

__all__ = ["Heard"]


class Heard:
    """The events of one system, which come from the line's thread, for those who wait for them.

    An event is known by its kind. From rank 0 come ``welcome``, ``together``, ``refused``,
    ``agreed``, ``left``, ``over`` and ``end``; ``cut`` is the end of the connection, and
    ``leaving`` that this rank has no interest in the others any more.

    Args:
        on_end: Called once, from a thread of its own, with the reason why a system in which all
            ranks were together cannot go on.

    Attributes:
        lock: Held while what is here is changed; may be taken again by who has it.
        refused: Why this process is not let in.
        ended: Why the job cannot go on.
        agreed: Answers for the keys that are expected.
        waits: In what this rank waits.
        pid: The process of rank 0.
        places: Where each rank is, once all are together.
    """

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self.lock = threading.Condition()
        self.refused: Optional[str] = None
        self.ended: Optional[str] = None
        self.agreed: Dict[str, Optional[Agreed]] = {}
        self.waits: List[Wait] = []
        self.pid = 0
        self.places: List[Endpoint] = []
        self._on_end = on_end
        self._kinds: Set[str] = set()
        self._left: Dict[int, Mapping[str, int]] = {}

    def any_of(self, *kinds: str) -> bool:
        """Whether one of these events has come."""
        return bool(self._kinds.intersection(kinds))

    def wait(self, seconds: float, *kinds: str, key: Optional[str] = None) -> bool:
        """Waits for one of these events, or for the answer to a key; says whether it came."""
        with self.lock:
            return self.lock.wait_for(
                lambda: self.any_of(*kinds) or self.agreed.get(key or "") is not None, seconds
            )

    def is_waiting(self) -> bool:
        """Whether this rank waits for others."""
        with self.lock:
            return bool(self.waits or self.agreed)

    def note(self, kind: str) -> bool:
        """Records an event of this rank's own; says whether it is new."""
        with self.lock:
            is_new = kind not in self._kinds
            self._kinds.add(kind)
            self.lock.notify_all()
            return is_new

    def event(self, event: Dict[str, Any]) -> None:
        """Records what rank 0 has sent."""
        kind = event["event"]
        with self.lock:
            if kind == "refused":
                self.refused = event["said"]
            elif kind == "together":
                self.pid = event["pid"]
                self.places = [endpoint_in(fields) for fields in event["places"]]
            elif kind == "agreed" and event["key"] in self.agreed:
                self.agreed[event["key"]] = Agreed(*event["numbers"])
            elif kind == "left":
                self._left[event["rank"]] = event["counts"]
            elif kind == "end":
                self.end(event["said"])
            self.note(kind)

    def cut(self) -> None:
        """Records that the connection to rank 0 has gone: that rank has left, or has ended."""
        with self.lock:
            if 0 in self._left:
                self.judge_alone()
            elif not self.any_of("over", "refused"):
                early = not self.any_of("together")
                self.end(wording.gone_early(0) if early else wording.gone(0))
            self.note("cut")

    def end(self, sentence: str) -> None:
        """The job cannot go on; what is said first counts, and nothing once this rank leaves."""
        with self.lock:
            if self.ended is not None or self.any_of("leaving"):
                return
            self.ended = sentence
            self.note("end")
            if not self.any_of("together"):
                return
        name = "ascend-session-job-ended"
        threading.Thread(target=self._on_end, args=[sentence], name=name, daemon=True).start()

    def judge_alone(self) -> None:
        """Without rank 0, a rank sees itself that it waits in vain for one that has left."""
        with self.lock:
            for wait in self.waits:
                left = behind(wait, self._left)
                if left is not None:
                    said = wording.has_left(left, [wait.rank], wait.operation, wait.times)
                    self.end(said)
