"""Taking the fields out of a table's JSON, each fault with its path.

HCCL wants texts everywhere, also for numbers (launch_facts.md, A2 rule 1). What has the wrong type
is an error, and is read all the same where its meaning is clear, so that the other rules can be
looked at too.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.cluster.rank_table.findings import ERROR, INFO, WARNING, Findings
from ascend_session.cluster.rank_table.values import (
    address_family,
    is_plain,
    number_of,
    split_addresses,
)

__all__ = ["Fields"]

_LONGEST = 60  # characters of a value that are shown
_HIGHEST_PORT = 65535
_MOST_UNKNOWN = 20  # keys


class Fields:
    """Reads the fields of objects and collects what is wrong with them.

    Attributes:
        found: The findings.
        complete: Whether every device could be read; rules on all of them need that.
    """

    def __init__(self, found: Optional[Findings] = None, severity: str = ERROR) -> None:
        self.found = Findings() if found is None else found
        self.complete = True
        self._severity = severity
        self._nearest: Dict[str, Optional[str]] = {}

    def lenient(self) -> "Fields":
        """One for fields that HCCL does not read in every job: what is wrong is a warning."""
        return Fields(self.found, WARNING)

    def refuse(self, kind: str, place: str, said: str, hint: Optional[str] = None) -> None:
        """Adds an error."""
        self.found.add(self._severity, kind, place, said, hint)

    def text(
        self, holder: Mapping[str, Any], key: str, place: str, *, needed: bool = True
    ) -> Optional[str]:
        """A text; None if it is not there or is no text that could be meant."""
        value = holder.get(key, _ABSENT)
        if isinstance(value, str):
            return value
        if value is _ABSENT and not needed:
            return None
        path = f"{place}.{key}" if place else key
        if value is _ABSENT:
            self.refuse(f"no {key}", path, "is missing; HCCL needs it.")
            return None
        meant = _meant(value)
        hint = None if meant is None else f'Write "{key}": "{meant}".'
        self.refuse(f"type {key}", path, f"is {shown(value)}; HCCL takes texts only.", hint)
        return meant

    def number(
        self, holder: Mapping[str, Any], key: str, place: str, *, needed: bool = True
    ) -> Optional[int]:
        """A number that is written as a text; None if there is none."""
        text = self.text(holder, key, place, needed=needed)
        if text is None:
            return None
        value = number_of(text)
        if value is not None and is_plain(text):
            return value
        path = f"{place}.{key}" if place else key
        if value is None:
            said = f"is {shown(text)}, no number from 0 to 4294967295."
            self.refuse(f"number {key}", path, said)
        else:
            said = f"is {shown(text)}, which HCCL reads as {value}."
            self.found.add(WARNING, f"odd {key}", path, said, f'Write "{value}".')
        return value

    def port(self, holder: Mapping[str, Any], key: str, place: str) -> Optional[int]:
        """A port; None if there is none."""
        value = self.number(holder, key, place, needed=False)
        if value is not None and not 1 <= value <= _HIGHEST_PORT:
            self.refuse(f"port {key}", f"{place}.{key}", f"is {value}, no port from 1 to 65535.")
            return None
        return value

    def addresses(
        self, holder: Mapping[str, Any], key: str, place: str, *, several: bool = True
    ) -> Tuple[str, ...]:
        """The addresses in a text with commas; none if the text is empty or not there."""
        text = self.text(holder, key, place, needed=False)
        if not text:
            return ()
        parts = split_addresses(text) if several else [text]
        good = tuple(part for part in parts if address_family(part) is not None)
        if len(good) < len(parts):
            wrong = next(part for part in parts if part not in good)
            said = f"is {shown(text)}; {shown(wrong)} is no IPv4 or IPv6 address."
            self.refuse(f"address {key}", f"{place}.{key}", said)
        return good

    def objects(
        self, holder: Mapping[str, Any], key: str, place: str
    ) -> List[Tuple[str, Dict[str, Any]]]:
        """The objects of a list, each with its place."""
        path = f"{place}.{key}" if place else key
        value = holder.get(key, _ABSENT)
        if value is _ABSENT:
            self.refuse(f"no {key}", path, "is missing; HCCL needs it.")
        elif not isinstance(value, list):
            self.refuse(f"type {key}", path, f"is {shown(value)}, not a list.")
        elif not value:
            self.refuse(f"empty {key}", path, "is an empty list; HCCL refuses that.")
        else:
            return self._objects(value, path)
        self.complete = False
        return []

    def _objects(self, value: Sequence[Any], path: str) -> List[Tuple[str, Dict[str, Any]]]:
        found = []
        for index, one in enumerate(value):
            if isinstance(one, dict):
                found.append((f"{path}[{index}]", one))
            else:
                self.complete = False
                self.refuse("no object", f"{path}[{index}]", f"is {shown(one)}, not an object.")
        return found

    def unread(
        self, holder: Mapping[str, Any], known: Sequence[str], ignored: Sequence[str], place: str
    ) -> None:
        """Says which keys HCCL does not read; ``ignored`` are those that other tools write."""
        said = "is not read by HCCL, and left out."
        for key in sorted(holder.keys() - known):
            path = f"{place}.{key}" if place else key
            near = None if key in ignored else self._near(key, known)
            kind = f"unread {key}" if key in self._nearest or key in ignored else "unread"
            if near is None:
                self.found.add(INFO, kind, path, said)
            else:
                self.found.add(WARNING, kind, path, said, f"Did you mean {near!r}?")

    def _near(self, key: str, known: Sequence[str]) -> Optional[str]:
        """The key that was meant; of very many unknown keys only the first are looked at."""
        if key not in self._nearest and len(self._nearest) < _MOST_UNKNOWN:
            import difflib  # only where a key is not known

            close = difflib.get_close_matches(key[:_LONGEST], known, 1, 0.8)
            self._nearest[key] = close[0] if close else None
        return self._nearest.get(key)


_ABSENT = object()


def shown(value: Any) -> str:
    """A value as a sentence names it."""
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
        return f"the text {text!r}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "an object"


def _meant(value: Any) -> Optional[str]:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return str(value) if whole else None
