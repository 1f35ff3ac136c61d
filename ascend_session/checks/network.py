"""The network interface of each device: its link, its address, and whether TLS is equal.

Sources: guides/facts/rank_tables.md#device-addresses, guides/facts/devices.md#hccn,
guides/facts/failures.md#network-of-a-device (link down, TLS on some cards only); HCOMM,
IsNeedNicInit and SetInterModeInSuperPod (on A3, ranks in one superpod use HCCS and open no
interface).
"""

from typing import Iterator, Mapping, NamedTuple, Optional

from ascend_session.cluster.rank_table import RankTable
from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.families import family, has_nic
from ascend_session.hardware.hccn import HccnTool
from ascend_session.text import format_ranges

_LINK, _ADDRESS, _TLS = "network link", "network address", "tls"
_NO_TOOL = "hccn_tool, which comes with the driver, was not found or does not answer."


def may_have_interfaces(product: Optional[str]) -> bool:
    """Tell whether devices of the product have own interfaces; those of an unknown one may."""
    return product is None or has_nic(product)


class Need(NamedTuple):
    """How much a job needs the interfaces of its devices.

    Attributes:
        links: The severity of a link that is down.
        addresses: That of an address that is missing; None if none is needed.
        is_alone: Whether the job is known to stay on one server.
    """

    links: str
    addresses: Optional[str]
    is_alone: bool = False


def need_of(
    product: Optional[str],
    leaves_server: Optional[bool],
    table: Optional[RankTable],
    environ: Mapping[str, str],
) -> Need:
    """Decide how much a job needs the interfaces.

    Args:
        product: The family of its devices; None if not known.
        leaves_server: Whether it has ranks on several servers; None if not known.
        table: Its rank table; None without one, or if it could not be read.
        environ: The environment of its ranks.
    """
    if leaves_server:
        is_linked = product == family("910C") and _uses_hccs(table, environ)
        return Need(WARNING, WARNING) if is_linked else Need(ERROR, ERROR)
    is_training = product == family("910A")
    links = ERROR if is_training and leaves_server is None else WARNING
    return Need(links, ERROR if is_training else None, is_alone=leaves_server is False)


def _uses_hccs(table: Optional[RankTable], environ: Mapping[str, str]) -> bool:
    """Tell whether servers are linked by HCCS, as in one superpod; without a table they may."""
    if environ.get("HCCL_INTER_HCCS_DISABLE", "").lower() == "true":
        return False
    pods = set() if table is None else {server.super_pod_id for server in table.servers}
    return table is None or (len(pods) == 1 and None not in pods)


class Interfaces:
    """The interfaces of some devices. Nothing here raises.

    Args:
        addresses: The address of each device by its physical id; None if none is known.
        tool: What asks ``hccn_tool``, and has asked for the addresses that are not known.
    """

    def __init__(self, addresses: Mapping[int, Optional[str]], tool: HccnTool) -> None:
        self._addresses = addresses
        self._ids = sorted(addresses)
        self._tool = tool
        # What fails from here on says nothing of the addresses.
        self._are_known = tool.answers and not tool.notes

    def check_links(self, need: Need) -> Iterator[Finding]:
        """Check whether the links are up."""
        states = {number: self._tool.link(number) for number in self._ids}
        down = [number for number, state in states.items() if state is False]
        unknown = [number for number, state in states.items() if state is None]
        up = [number for number, state in states.items() if state]
        if down:
            message = f"The network link of device(s) {format_ranges(down)} is down."
            hint = (
                f"Look at cable and switch; `hccn_tool -i {down[0]} -link -g` shows it, and "
                "`-cfg recovery` restores its settings."
            )
            yield Finding(need.links, message, hint, rule=_LINK)
        if unknown and not need.is_alone:
            message = f"The links of {format_ranges(unknown)}: {self._why()}"
            yield Finding(NOT_CHECKED, message, rule=_LINK)
        if up:
            message = f"The network link of device(s) {format_ranges(up)} is up."
            yield Finding(OK, message, rule=_LINK)

    def check_addresses(self, need: Need) -> Iterator[Finding]:
        """Check whether the cards have addresses; a tool that failed does not say it."""
        lacking = [number for number in self._ids if self._addresses[number] is None]
        have = [number for number in self._ids if number not in lacking]
        if lacking and need.addresses is not None and self._are_known:
            message = f"The network interface of device(s) {format_ranges(lacking)} has no address."
            hint = f"An administrator sets it; `hccn_tool -i {lacking[0]} -ip -g` shows it."
            yield Finding(need.addresses, message, hint, rule=_ADDRESS)
        elif lacking and need.addresses is not None:
            message = f"The addresses of device(s) {format_ranges(lacking)}: {self._why()}"
            yield Finding(NOT_CHECKED, message, rule=_ADDRESS)
        if have:
            message = f"Device(s) {format_ranges(have)} have network addresses."
            yield Finding(OK, message, rule=_ADDRESS)

    def check_tls(self) -> Iterator[Finding]:
        """Check whether the TLS switch is the same on all of them."""
        states = {number: self._tool.tls(number) for number in self._ids}
        on = [number for number, state in states.items() if state]
        off = [number for number, state in states.items() if state is False]
        unknown = [number for number, state in states.items() if state is None]
        if on and off:
            message = (
                f"TLS is on for device(s) {format_ranges(on)} and off for {format_ranges(off)}."
            )
            hint = "HCCL requires the same on all cards; `hccn_tool -i N -tls -g` shows it."
            yield Finding(ERROR, message, hint, rule=_TLS)
        elif on or off:
            message = f"TLS is {'on' if on else 'off'} for device(s) {format_ranges(on or off)}."
            yield Finding(OK, message, rule=_TLS)
        if unknown:
            message = f"TLS of device(s) {format_ranges(unknown)}: {self._why()}"
            yield Finding(NOT_CHECKED, message, rule=_TLS)

    def _why(self) -> str:
        return " ".join(self._tool.notes[:2]) or _NO_TOOL
