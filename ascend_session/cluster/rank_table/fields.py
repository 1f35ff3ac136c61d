"""Taking the fields out of a table's JSON, each fault with its path.

HCCL wants texts everywhere, also for numbers (HCOMM, topoinfo_ranktableParser.cc). What has the
wrong type is an error, and is read all the same where its meaning is clear, so that the other rules
can be looked at too.
"""

import re
import socket
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.cluster.rank_table.findings import make_finding
from ascend_session.findings import ERROR, INFO, WARNING, Finding
from ascend_session.text import did_you_mean

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_LARGEST_NUMBER, _MODULUS = 0xFFFFFFFF, 1 << 64
_LARGEST_PORT = 65535
_LONGEST_SHOWN = 60  # characters of a value
_MOST_UNKNOWN = 20  # keys for which a known one is looked for
_ABSENT = object()

Objects = List[Tuple[str, Dict[str, Any]]]
"""Objects of a list, each with its place."""


class Fields:
    """Reads the fields of objects and collects what is wrong with them.

    Attributes:
        findings: What is wrong.
        is_complete: Whether every device could be read; rules on all of them need that.
    """

    def __init__(self, findings: Optional[List[Finding]] = None, severity: str = ERROR) -> None:
        self.findings: List[Finding] = [] if findings is None else findings
        self.is_complete = True
        self._severity = severity
        self._nearest: Dict[str, Optional[str]] = {}

    def lenient(self) -> "Fields":
        """Read on for fields that HCCL does not read in every job: what is wrong is a warning."""
        return Fields(self.findings, WARNING)

    def add(
        self, severity: str, rule: str, place: str, message: str, hint: Optional[str] = None
    ) -> None:
        """Add a finding."""
        self.findings.append(make_finding(severity, rule, place, message, hint))

    def refuse(self, rule: str, place: str, message: str, hint: Optional[str] = None) -> None:
        """Add an error; a warning where these fields are read leniently."""
        self.add(self._severity, rule, place, message, hint)

    def text(
        self, holder: Mapping[str, Any], key: str, place: str, *, needed: bool = True
    ) -> Optional[str]:
        """Read a text; None if it is not there or is no text that could be meant."""
        value = holder.get(key, _ABSENT)
        if isinstance(value, str):
            return value
        if value is _ABSENT:
            if needed:
                self.refuse(f"no {key}", join_path(place, key), "is missing; HCCL needs it.")
            return None
        is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        text = str(value) if is_whole else None
        hint = None if text is None else f'Write "{key}": "{text}".'
        message = f"is {describe(value)}; HCCL takes texts only."
        self.refuse(f"type {key}", join_path(place, key), message, hint)
        return text

    def number(
        self, holder: Mapping[str, Any], key: str, place: str, *, needed: bool = True
    ) -> Optional[int]:
        """Read a number that is written as a text; None if there is none."""
        text = self.text(holder, key, place, needed=needed)
        if text is None:
            return None
        value = parse_number(text)
        if value is None:
            message = f"is {describe(text)}, no number from 0 to {_LARGEST_NUMBER}."
            self.refuse(f"number {key}", join_path(place, key), message)
        elif not _is_plain(text):
            message = f"is {describe(text)}, which HCCL reads as {value}."
            self.add(WARNING, f"odd {key}", join_path(place, key), message, f'Write "{value}".')
        return value

    def port(self, holder: Mapping[str, Any], key: str, place: str) -> Optional[int]:
        """Read a port; None if there is none."""
        port = self.number(holder, key, place, needed=False)
        if port is not None and not 1 <= port <= _LARGEST_PORT:
            message = f"is {port}, no port from 1 to {_LARGEST_PORT}."
            self.refuse(f"port {key}", join_path(place, key), message)
            return None
        return port

    def addresses(
        self, holder: Mapping[str, Any], key: str, place: str, *, several: bool = True
    ) -> Tuple[str, ...]:
        """Read addresses between commas; none if the text is empty or not there."""
        text = self.text(holder, key, place, needed=False)
        if not text:
            return ()
        parts = text.split(",") if several else [text]
        if several and not parts[-1]:  # HCCL takes no address from a comma at the end
            parts.pop()
        good = tuple(part for part in parts if address_family(part) is not None)
        if len(good) < len(parts):
            wrong = next(part for part in parts if part not in good)
            message = f"is {describe(text)}; {describe(wrong)} is no IPv4 or IPv6 address."
            self.refuse(f"address {key}", join_path(place, key), message)
        return good

    def objects(self, holder: Mapping[str, Any], key: str, place: str) -> Objects:
        """Read the objects of a list, which may not be empty."""
        path = join_path(place, key)
        values = holder.get(key, _ABSENT)
        if not isinstance(values, list) or not values:
            self.is_complete = False
            if values is _ABSENT:
                self.refuse(f"no {key}", path, "is missing; HCCL needs it.")
            elif isinstance(values, list):
                self.refuse(f"empty {key}", path, "is an empty list; HCCL refuses that.")
            else:
                self.refuse(f"type {key}", path, f"is {describe(values)}, not a list.")
            return []
        objects = []
        for index, value in enumerate(values):
            if isinstance(value, dict):
                objects.append((f"{path}[{index}]", value))
            else:
                self.is_complete = False
                message = f"is {describe(value)}, not an object."
                self.refuse("no object", f"{path}[{index}]", message)
        return objects

    def report_unread(
        self, holder: Mapping[str, Any], known: Sequence[str], others: Sequence[str], place: str
    ) -> None:
        """Report the keys that HCCL does not read; ``others`` are those that other tools write."""
        message = "is not read by HCCL, and left out."
        for key in sorted(holder.keys() - known):
            near = None if key in others else self._find_near(key, known)
            rule = f"unread {key}" if key in self._nearest or key in others else "unread"
            if near is None:
                self.add(INFO, rule, join_path(place, key), message)
            else:
                hint = f"Did you mean {near!r}?"
                self.add(WARNING, rule, join_path(place, key), message, hint)

    def _find_near(self, key: str, known: Sequence[str]) -> Optional[str]:
        """Find the key that was meant; of very many unknown keys only for the first."""
        if key not in self._nearest and len(self._nearest) < _MOST_UNKNOWN:
            self._nearest[key] = did_you_mean(key, known, 0.8)
        return self._nearest.get(key)


def join_path(place: str, key: str) -> str:
    """Give the path of a key of the object at ``place``, which is empty for the table itself."""
    return f"{place}.{key}" if place else key


def describe(value: Any) -> str:
    """Describe a value of JSON as a sentence names it."""
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."
        return f"the text {text!r}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "an object"


def parse_number(text: str) -> Optional[int]:
    """Read a number as HCCL does, 0 to 4294967295; None if HCCL refuses it.

    Leading blanks and a sign are skipped, and what comes behind the digits is ignored: HCOMM's
    SalStrToULong is std::stoull into 32 bits.
    """
    if _is_plain(text):
        value = int(text)
        return value if value <= _LARGEST_NUMBER else None
    match = _NUMBER.match(text)
    digits = match[2].lstrip("0") or "0" if match else ""
    if match is None or len(digits) > 20 or int(digits) >= _MODULUS:
        return None
    value = -int(digits) % _MODULUS if match[1] == "-" else int(digits)
    return value if value <= _LARGEST_NUMBER else None


def _is_plain(text: str) -> bool:
    """Whether a text is nothing but a few digits."""
    return text.isdigit() and text.isascii() and len(text) <= 20


def address_family(text: str) -> Optional[int]:
    """``socket.AF_INET`` or ``AF_INET6``; None if HCCL takes the text for no address.

    An interface may stand behind ``%`` (HCOMM, HcclIpAddress::SetReadableAddress: inet_pton).
    """
    place = text.find("%")
    if place == 0 or place == len(text) - 1:
        return None
    plain = text if place < 0 else text[:place]
    family = socket.AF_INET6 if plain.count(":") >= 2 else socket.AF_INET
    try:
        socket.inet_pton(family, plain)
    except (OSError, ValueError):
        return None
    return int(family)


def pack_address(address: str) -> bytes:
    """Give what is the same for all ways to write an address, without an interface behind ``%``."""
    family, plain = address_family(address), address.split("%")[0]
    return plain.encode() if family is None else socket.inet_pton(family, plain)
