"""The network interface of each device: ``/etc/hccn.conf`` and ``hccn_tool``.

Both number the devices physically and ignore ``ASCEND_RT_VISIBLE_DEVICES``.

Source: launch_facts.md, A8 (file and outputs), B3 (numbering).
"""

import ipaddress
import math
import os
import re
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, TypeVar

from ascend_session.hardware._text import lines, pairs
from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.program import Program

__all__ = [
    "HccnTool",
    "Interface",
    "conf_address",
    "parse_address",
    "parse_conf",
    "parse_link",
    "parse_net_health",
    "parse_tls",
    "read_conf",
]

_Parsed = TypeVar("_Parsed")

_ENTRY = re.compile(r"\s*([A-Za-z]\w{0,99}?)_([0-9]{1,9})\s*=\s*(.*)")
_TLS = re.compile(r"\btls\s+switch\s*\[\s*([01])\s*\]", re.IGNORECASE)
_TOOL_PLACES = ("usr/local/Ascend/driver/tools",)


class Interface(NamedTuple):
    """Address of a device's network interface; the netmask is None for IPv6."""

    address: str
    netmask: Optional[str]


def parse_conf(text: str) -> Dict[int, Dict[str, str]]:
    """Reads ``/etc/hccn.conf``: per physical id the keys without their number, in any order."""
    found: Dict[int, Dict[str, str]] = {}
    for line in lines(text):
        entry = _ENTRY.fullmatch(line)
        if entry:
            found.setdefault(int(entry.group(2)), {})[entry.group(1)] = entry.group(3).strip()
    return found


def conf_address(entries: Mapping[str, str]) -> Optional[str]:
    """The address in the entries of one device, IPv4 before IPv6; None if there is no valid one."""
    keys = {key.lower(): value for key, value in entries.items()}
    return _address(keys.get("address", "")) or _address(keys.get("ipv6address", ""))


def read_conf(root: str, notes: List[str]) -> Dict[int, Dict[str, str]]:
    """Reads the file below ``root``; a file that is there and cannot be read gives a note."""
    try:
        with open(os.path.join(root, "etc/hccn.conf"), encoding="utf-8", errors="replace") as file:
            return parse_conf(file.read())
    except FileNotFoundError:
        return {}
    except OSError as error:
        notes.append(f"/etc/hccn.conf could not be read: {error.strerror}.")
        return {}


def parse_address(text: str) -> Optional[Interface]:
    """Reads ``-ip -g`` and ``-ip -inet6 -g``; None if no valid address is in it."""
    said = dict(pairs(text))
    address = _address(said.get("ipaddr", "")) or _address(said.get("ipv6_address", ""))
    if address is None:
        return None
    return Interface(address, _address(said.get("netmask", "")))


def parse_link(text: str) -> Optional[bool]:
    """Reads ``-link -g``: whether the link is up; None if it does not say."""
    state = dict(pairs(text)).get("link status", "").upper()
    return {"UP": True, "DOWN": False}.get(state)


def parse_tls(text: str) -> Optional[bool]:
    """Reads ``-tls -g``: whether TLS is switched on; None if it does not say."""
    match = _TLS.search("\n".join(lines(text)))
    return None if match is None else match.group(1) == "1"


def parse_net_health(text: str) -> Optional[str]:
    """Reads ``-net_health -g``: ``Success``, ``Fault``, ...; None if it does not say."""
    return dict(pairs(text)).get("net health status") or None


class HccnTool(Program):
    """One round of questions to ``hccn_tool``. Nothing here raises; see `notes`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        root: str = "/",
        timeout: float = TIME_LIMIT,
        total: float = math.inf,
        say: Optional[Callable[[str], None]] = None,
    ) -> None:
        """Looks for the program below ``root`` and on the ``PATH`` of ``environ``.

        Args:
            environ: The environment that it runs in.
            root: Root of the host to look at.
            timeout: Seconds for one answer. After one that did not come no more is asked.
            total: Seconds for all answers together, after which no more is asked.
            say: Is told once that it takes its time.
        """
        super().__init__("hccn_tool", _TOOL_PLACES, environ, root, timeout, total, say)

    def address(self, physical_id: int) -> Optional[Interface]:
        """The device's IPv4 address, else its IPv6 address, else None."""
        return self._asked(parse_address, physical_id, "-ip", "-g") or self._asked(
            parse_address, physical_id, "-ip", "-inet6", "-g"
        )

    def link(self, physical_id: int) -> Optional[bool]:
        """Whether the link is up."""
        return self._asked(parse_link, physical_id, "-link", "-g")

    def tls(self, physical_id: int) -> Optional[bool]:
        """Whether TLS is switched on; it must be the same on all devices of a job."""
        return self._asked(parse_tls, physical_id, "-tls", "-g")

    def net_health(self, physical_id: int) -> Optional[str]:
        """What the tool says of the network: ``Success``, ``Fault``, ..."""
        return self._asked(parse_net_health, physical_id, "-net_health", "-g")

    def _asked(
        self, parse: Callable[[str], Optional[_Parsed]], physical_id: int, *arguments: str
    ) -> Optional[_Parsed]:
        # A device without an address is no fault of the tool's.
        return self.ask(
            parse, "-i", str(int(physical_id)), *arguments, may_be_empty=parse is parse_address
        )


def _address(text: str) -> Optional[str]:
    first = text.split("/")[0].strip()
    try:
        return str(ipaddress.ip_address(first))
    except ValueError:
        return None
