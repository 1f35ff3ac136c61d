"""The network interface of each device: ``/etc/hccn.conf`` and ``hccn_tool``.

Both number the devices physically and ignore ``ASCEND_RT_VISIBLE_DEVICES``.

Source: guides/facts/devices.md#hccn.
"""

import ipaddress
import re
from typing import Dict, List, Mapping, Optional

from ascend_session.hardware.nodes import open_host_file
from ascend_session.hardware.program import Program, clean_lines, parse_pairs

_ENTRY = re.compile(r"\s*([A-Za-z]\w{0,99}?)_([0-9]{1,9})\s*=\s*(.*)")
_TLS = re.compile(r"\btls\s+switch\s*\[\s*([01])\s*\]", re.IGNORECASE)


def parse_conf(text: str) -> Dict[int, Dict[str, str]]:
    """Parse ``/etc/hccn.conf``: ``address_0=10.0.0.1`` gives ``{0: {"address": "10.0.0.1"}}``."""
    devices: Dict[int, Dict[str, str]] = {}
    for line in clean_lines(text):
        entry = _ENTRY.fullmatch(line)
        if entry:
            devices.setdefault(int(entry.group(2)), {})[entry.group(1)] = entry.group(3).strip()
    return devices


def conf_address(entries: Mapping[str, str]) -> Optional[str]:
    """Return a device's IPv4 address, else its IPv6 address; None without a valid one."""
    keys = {key.lower(): value for key, value in entries.items()}
    return _parse_ip(keys.get("address", "")) or _parse_ip(keys.get("ipv6address", ""))


def read_conf(root: str, notes: List[str]) -> Dict[int, Dict[str, str]]:
    """Read ``/etc/hccn.conf`` below ``root``; add a note if it exists and cannot be read."""
    try:
        with open_host_file(root, "etc/hccn.conf") as file:
            return parse_conf(file.read())
    except FileNotFoundError:
        return {}
    except (OSError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is a pipe"
        notes.append(f"/etc/hccn.conf could not be read: {reason}.")
        return {}


def parse_address(text: str) -> Optional[str]:
    """Parse the answer to ``-ip -g`` or ``-ip -inet6 -g``; None without a valid address."""
    values = dict(parse_pairs(text))
    return _parse_ip(values.get("ipaddr", "")) or _parse_ip(values.get("ipv6_address", ""))


def parse_link(text: str) -> Optional[bool]:
    """Parse the answer to ``-link -g``: True for UP, False for DOWN, None for anything else."""
    state = dict(parse_pairs(text)).get("link status", "").upper()
    return {"UP": True, "DOWN": False}.get(state)


def parse_tls(text: str) -> Optional[bool]:
    """Parse the answer to ``-tls -g``: True for on, False for off, None for anything else."""
    match = _TLS.search("\n".join(clean_lines(text)))
    return None if match is None else match.group(1) == "1"


class HccnTool(Program):
    """Asks ``hccn_tool``; never raises, see `notes`."""

    name = "hccn_tool"
    places = ("usr/local/Ascend/driver/tools",)

    def address(self, physical_id: int) -> Optional[str]:
        """Ask for a device's IPv4 address, else its IPv6 address; None if it has neither."""
        device = ("-i", str(int(physical_id)), "-ip")
        # A device may have no address: that is no failure of the tool.
        return self.ask(parse_address, *device, "-g", may_be_empty=True) or self.ask(
            parse_address, *device, "-inet6", "-g", may_be_empty=True
        )

    def link(self, physical_id: int) -> Optional[bool]:
        """Ask whether the link is up; None if there is no answer."""
        return self.ask(parse_link, "-i", str(int(physical_id)), "-link", "-g")

    def tls(self, physical_id: int) -> Optional[bool]:
        """Ask whether TLS is on, which all devices of a job must agree on; None without answer."""
        return self.ask(parse_tls, "-i", str(int(physical_id)), "-tls", "-g")


def _parse_ip(text: str) -> Optional[str]:
    try:
        return str(ipaddress.ip_address(text.split("/")[0].strip()))
    except ValueError:
        return None
