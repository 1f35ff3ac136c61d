"""Read fields from a table's JSON, and report each fault with its path.

HCCL takes only strings, for numbers too (HCOMM, topoinfo_ranktableParser.cc). A wrong type is an
error, but the value is read if its meaning is clear, so that other rules can be checked.
"""

import re
import socket
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.findings import ERROR, INFO, WARNING, Finding
from ascend_session.text import did_you_mean
from ascend_session.vendor import address_family

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_LARGEST_NUMBER = 0xFFFFFFFF
_MODULUS, _MOST_DIGITS = 1 << 64, 20  # of std::stoull
_LARGEST_PORT = 65535
_LONGEST_VALUE = 60  # characters in a message
_MOST_UNKNOWN = 20  # unknown keys that are compared with the known ones, which takes long
_ABSENT = object()


class Faults:
    """Collects findings about the fields of a table.

    Attributes:
        findings: The findings.
        is_complete: True if every device could be read; rules about all devices need that.
        nearest: Maps unknown keys to the most similar known key, or None.
    """

    def __init__(self, findings: List[Finding]) -> None:
        self.findings = findings
        self.is_complete = True
        self.nearest: Dict[str, Optional[str]] = {}


class JsonObject:
    """Reads the fields of one JSON object of a table.

    Attributes:
        value: The object.
        place: Its path; empty for the table itself.
        faults: Collects the findings.
    """

    def __init__(
        self,
        value: Mapping[str, Any],
        place: str,
        faults: Faults,
        severity: str = ERROR,
        note: str = "",
    ) -> None:
        self.value, self.place, self.faults = value, place, faults
        self._severity, self._note = severity, note

    def lenient(self, severity: str = WARNING, note: str = "") -> "JsonObject":
        """Return a lenient reader for fields that HCCL does not read in every job.

        Args:
            severity: The severity of faults.
            note: A text to add to messages.
        """
        return JsonObject(self.value, self.place, self.faults, severity, note)

    def path(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self.place}.{key}" if self.place else key

    def warn(self, rule: str, key: str, message: str, hint: Optional[str] = None) -> None:
        """Add a warning about a field."""
        self._add(WARNING, rule, key, message, hint)

    def refuse(self, rule: str, key: str, message: str, hint: Optional[str] = None) -> None:
        """Add an error about a field; a lenient reader has its own severity."""
        self._add(self._severity, rule, key, message + self._note, hint)

    def _add(
        self, severity: str, rule: str, key: str, message: str, hint: Optional[str] = None
    ) -> None:
        self.faults.findings.append(Finding(severity, message, hint, rule, None, self.path(key)))

    def text(self, key: str, *, needed: bool = True) -> Optional[str]:
        """Read a string; None if it is missing or its meaning is not clear."""
        value = self.value.get(key, _ABSENT)
        if isinstance(value, str):
            return value
        if value is _ABSENT:
            if needed:
                self.refuse(f"no {key}", key, "is missing; HCCL needs it.")
            return None
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_whole = is_number and value >= 0 and not key.endswith("_ip")
        text = str(value) if is_whole else None
        hint = None if text is None else f'Write "{key}": "{text}".'
        self.refuse(f"type {key}", key, f"is {describe(value)}; HCCL takes texts only.", hint)
        return text

    def number(self, key: str, *, needed: bool = True) -> Optional[int]:
        """Read a number written as a string; None without one."""
        text = self.text(key, needed=needed)
        if text is None:
            return None
        value = _parse_number(text)
        if value is None:
            message = f"is {describe(text)}, not a number from 0 to {_LARGEST_NUMBER}."
            self.refuse(f"number {key}", key, message)
        elif not (text.isdigit() and text.isascii() and len(text) <= _MOST_DIGITS):
            message = f"is {describe(text)}, which HCCL reads as {value}."
            self.warn(f"odd {key}", key, message, f'Write "{value}".')
        return value

    def port(self, key: str) -> Optional[int]:
        """Read an optional port; None if it is missing or wrong."""
        port = self.number(key, needed=False)
        if port is not None and not 1 <= port <= _LARGEST_PORT:
            self.refuse(f"port {key}", key, f"is {port}, not a port from 1 to {_LARGEST_PORT}.")
            return None
        return port

    def addresses(self, key: str, *, several: bool = True) -> Tuple[str, ...]:
        """Read an optional list of IP addresses with commas, or one if not ``several``."""
        text = self.text(key, needed=False)
        if not text or not isinstance(self.value[key], str):
            return ()
        parts = text.split(",") if several else [text]
        if several and not parts[-1]:  # HCCL ignores a comma at the end
            parts.pop()
        addresses = tuple(part for part in parts if address_family(part) is not None)
        if len(addresses) < len(parts):
            wrong = next(part for part in parts if part not in addresses)
            which = f"; {describe(wrong)} is" if len(parts) > 1 else ","
            message = f"is {describe(text)}{which} no IPv4 or IPv6 address."
            self.refuse(f"address {key}", key, message)
        elif key in ("device_ip", "backup_device_ip") and any(map(is_unset, addresses)):
            message = f"is {describe(text)}; HCCL takes 0.0.0.0 for no address, and refuses it."
            self.refuse(f"address {key}", key, message)
        return addresses

    def objects(self, key: str) -> "List[JsonObject]":
        """Read the objects of a list; an empty list is an error."""
        values = self.value.get(key, _ABSENT)
        if values is _ABSENT:
            self.refuse(f"no {key}", key, "is missing; HCCL needs it.")
        elif not isinstance(values, list):
            self.refuse(f"type {key}", key, f"is {describe(values)}, not a list.")
        elif not values:
            self.refuse(f"empty {key}", key, "is an empty list; HCCL refuses that.")
        listed = values if isinstance(values, list) else []
        objects = []
        for index, value in enumerate(listed):
            if isinstance(value, dict):
                place = self.path(f"{key}[{index}]")
                objects.append(JsonObject(value, place, self.faults, self._severity, self._note))
            else:
                message = f"is {describe(value)}, not an object."
                self.refuse("no object", f"{key}[{index}]", message)
        # No device depends on what is read leniently.
        if self._severity == ERROR and not (objects and len(objects) == len(listed)):
            self.faults.is_complete = False
        return objects

    def report_unread(self, keys: Sequence[str], others: Sequence[str]) -> None:
        """Report the keys that HCCL does not read; other tools write those in ``others``."""
        message = "is not read by HCCL, and left out."
        nearest = self.faults.nearest
        for key in sorted(self.value.keys() - keys):
            if key not in others and key not in nearest and len(nearest) < _MOST_UNKNOWN:
                nearest[key] = did_you_mean(key, keys, 0.8)
            near = None if key in others else nearest.get(key)
            rule = f"unread {key}" if key in nearest or key in others else "unread"
            if near is None:
                self._add(INFO, rule, key, message)
            else:
                self.warn(rule, key, message, f"Did you mean {near!r}?")


def describe(value: Any) -> str:
    """Describe a JSON value in words, as in ``the text '1'`` or ``a list``."""
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}..."
        return f"the text {text!r}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "an object"


def _parse_number(text: str) -> Optional[int]:
    """Read a number as HCCL does, 0 to 4294967295; None if HCCL refuses it.

    As std::stoull does, it skips leading blanks, accepts a sign, and ignores text after the digits.
    Source: HCOMM, SalStrToULong.
    """
    match = _NUMBER.match(text)
    digits = match[2].lstrip("0") or "0" if match else ""
    if match is None or len(digits) > _MOST_DIGITS or int(digits) >= _MODULUS:
        return None
    value = -int(digits) % _MODULUS if match[1] == "-" else int(digits)
    return value if value <= _LARGEST_NUMBER else None


def is_unset(address: str) -> bool:
    """Return whether an address is 0.0.0.0, HCCL's for none (HCOMM, HcclIpAddress::IsInvalid)."""
    return address.split("%")[0] == "0.0.0.0"


def pack_address(address: str) -> bytes:
    """Return the bytes of an IP address, without an interface after ``%``, to compare it."""
    family, plain = address_family(address), address.split("%")[0]
    return plain.encode() if family is None else socket.inet_pton(family, plain)
