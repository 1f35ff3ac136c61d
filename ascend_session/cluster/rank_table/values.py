"""Numbers and addresses, read as HCCL reads them.

Source: launch_facts.md, A2 (HCOMM: SalStrToULong, which is std::stoull into 32 bits, and
HcclIpAddress::SetReadableAddress, which is inet_pton).
"""

import re
import socket
from typing import List, Optional

__all__ = ["address_family", "is_plain", "number_of", "packed", "split_addresses"]

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_LARGEST, _MODULUS = 0xFFFFFFFF, 1 << 64


def number_of(text: str) -> Optional[int]:
    """The number that HCCL reads in ``text``, 0 to 4294967295; None if it refuses it.

    Leading blanks and a sign are skipped, and what comes behind the digits is ignored.
    """
    if is_plain(text):
        value = int(text)
        return value if value <= _LARGEST else None
    match = _NUMBER.match(text)
    digits = match[2].lstrip("0") or "0" if match else ""
    if match is None or len(digits) > 20 or int(digits) >= _MODULUS:
        return None
    value = -int(digits) % _MODULUS if match[1] == "-" else int(digits)
    return value if value <= _LARGEST else None


def is_plain(text: str) -> bool:
    """Whether ``text`` is nothing but a few digits."""
    return text.isdigit() and text.isascii() and len(text) <= 20


def packed(address: str) -> bytes:
    """What is the same for all ways to write an address, without the interface behind ``%``."""
    family, plain = address_family(address), address.split("%")[0]
    return plain.encode() if family is None else socket.inet_pton(family, plain)


def split_addresses(text: str) -> List[str]:
    """The addresses of a list with commas; a comma at the end adds none."""
    parts = text.split(",")
    return parts if parts[-1] else parts[:-1]


def address_family(text: str) -> Optional[int]:
    """``socket.AF_INET`` or ``AF_INET6``; None if HCCL takes it for no address.

    An interface may stand behind ``%``.
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
