"""The network interface of each device: its link, its address, and whether TLS is equal.

Source: launch_facts.md, A2 (rule 10), A8 (outputs) and E (EJ0002: link down; EI0016: TLS on some
cards only).
"""

from typing import Iterator, Mapping, Optional, Tuple

from ascend_session.checks.finding import ERROR, NOT_CHECKED, OK, WARNING, Finding, listed
from ascend_session.hardware.families import family, has_nic
from ascend_session.hardware.hccn import HccnTool

__all__ = ["Interfaces", "may_have_interfaces", "need_addresses"]

_LINK, _ADDRESS, _TLS = "network link", "network address", "tls"
_NO_TOOL = "hccn_tool, which comes with the driver, was not found or does not answer."


def may_have_interfaces(product: Optional[str]) -> bool:
    """Whether devices of the product have interfaces of their own; an unknown one may."""
    return product is None or has_nic(product)


def need_addresses(product: Optional[str], leaves_server: Optional[bool]) -> bool:
    """Whether a job needs addresses of its devices (launch_facts.md, A2 rule 10)."""
    return leaves_server is True or product == family("910A")


class Interfaces:
    """The interfaces of some devices. Nothing here raises.

    Args:
        addresses: The address of each device by its physical id; None if none is known.
        tool: What asks ``hccn_tool``.
    """

    def __init__(self, addresses: Mapping[int, Optional[str]], tool: HccnTool) -> None:
        self._addresses = addresses
        self._ids = sorted(addresses)
        self._tool = tool

    def check_links(self, leaves_server: Optional[bool]) -> Iterator[Finding]:
        """Looks whether the links are up.

        Args:
            leaves_server: Whether the job has ranks on other servers; None if that is not known.
                On one server a link that is down may not matter, which is then a warning.
        """
        states = {number: self._tool.link(number) for number in self._ids}
        down = [number for number, state in states.items() if state is False]
        unknown = [number for number, state in states.items() if state is None]
        up = [number for number, state in states.items() if state]
        if down:
            severity = WARNING if leaves_server is False else ERROR
            said = f"The network link of device(s) {listed(down)} is down."
            shown = f"`hccn_tool -i {down[0]} -link -g` shows it"
            hint = f"Look at cable and switch; {shown}, and `-cfg recovery` restores its settings."
            yield Finding(_LINK, severity, said, hint)
        if unknown and leaves_server is not False:
            yield Finding(_LINK, NOT_CHECKED, f"The links of {listed(unknown)}: {self._why()}")
        if up:
            yield Finding(_LINK, OK, f"The network link of device(s) {listed(up)} is up.")

    def check_addresses(self, needed: bool) -> Iterator[Finding]:
        """Looks whether the cards have addresses.

        Args:
            needed: Whether a job needs addresses of these devices.
        """
        lacking = [number for number in self._ids if self._addresses[number] is None]
        have = [number for number in self._ids if number not in lacking]
        if lacking and needed and self._tool.answers:
            said = f"The network interface of device(s) {listed(lacking)} has no address."
            hint = f"An administrator sets it; `hccn_tool -i {lacking[0]} -ip -g` shows it."
            yield Finding(_ADDRESS, ERROR, said, hint)
        elif lacking and needed:
            said = f"The addresses of device(s) {listed(lacking)}: {self._why()}"
            yield Finding(_ADDRESS, NOT_CHECKED, said)
        if have:
            yield Finding(_ADDRESS, OK, f"Device(s) {listed(have)} have network addresses.")

    def check_tls(self) -> Iterator[Finding]:
        """Looks whether the TLS switch is the same on all of them."""
        states = {number: self._tool.tls(number) for number in self._ids}
        on = [number for number, state in states.items() if state]
        off = [number for number, state in states.items() if state is False]
        unknown = [number for number, state in states.items() if state is None]
        if on and off:
            said = f"TLS is on for device(s) {listed(on)} and off for {listed(off)}."
            hint = "HCCL wants it equal on all cards of a job; `hccn_tool -i N -tls -g` shows it."
            yield Finding(_TLS, ERROR, said, hint)
        elif on or off:
            said = f"TLS is {'on' if on else 'off'} for device(s) {listed(on or off)}."
            yield Finding(_TLS, OK, said)
        if unknown:
            yield Finding(_TLS, NOT_CHECKED, f"TLS of device(s) {listed(unknown)}: {self._why()}")

    def _why(self) -> str:
        notes: Tuple[str, ...] = tuple(self._tool.notes[:2])
        return " ".join(notes) or _NO_TOOL
