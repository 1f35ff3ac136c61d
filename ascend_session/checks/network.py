"""Checks of the devices' network interfaces, and of HCCL's ports on this host.

Sources: guides/facts/rank_tables.md#device-addresses, guides/facts/devices.md#hccn,
guides/facts/failures.md#network-of-a-device (link down, TLS on some cards only); HCOMM,
IsNeedNicInit and SetInterModeInSuperPod (on A3, ranks in one superpod use HCCS and open no
interface).

Sources for the ports: guides/facts/launch.md#hccl-ports (32 ports from ``HCCL_IF_BASE_PORT``, and
16666; the manual advises ``net.ipv4.ip_local_reserved_ports``),
guides/facts/failures.md#ports-in-use; HCOMM, GetHostPort, and HOST_CONTROL_BASE_PORT in
topoinfo_detect.cc (each rank takes the ports of its device's physical id).
"""

import contextlib
import errno
import ipaddress
import socket
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.rank_table import RankTable
from ascend_session.cluster.variables import read_number
from ascend_session.config.hccl_variables import find_refusals
from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.families import has_nic
from ascend_session.hardware.hccn import HccnTool
from ascend_session.text import format_ranges
from ascend_session.vendor import A3, TRAINING

_LINK, _ADDRESS, _TLS = "network link", "network address", "tls"
_NO_TOOL = "hccn_tool, which comes with the driver, was not found or does not answer."


def may_have_interfaces(product: Optional[str]) -> bool:
    """Return whether devices of the product may have network interfaces of their own."""
    return product is None or has_nic(product)


class Need(NamedTuple):
    """How much a job needs the network interfaces of its devices.

    Attributes:
        links: The severity of a link that is down.
        addresses: The severity of a missing address; None if the job needs no addresses.
        is_alone: Whether the job is known to stay on one server.
    """

    links: str
    addresses: Optional[str]
    is_alone: bool = False


def find_need(
    product: Optional[str],
    leaves_server: Optional[bool],
    table: Optional[RankTable],
    environ: Mapping[str, str],
) -> Need:
    """Find how much a job needs the network interfaces.

    Args:
        product: The family of its devices; None if not known.
        leaves_server: Whether it has ranks on several servers; None if not known.
        table: Its rank table; None if there is none, or it could not be read.
        environ: The environment of its ranks.
    """
    if leaves_server:
        is_linked = product == A3 and _uses_hccs(table, environ)
        return Need(WARNING, WARNING) if is_linked else Need(ERROR, ERROR)
    is_training = product == TRAINING
    links = ERROR if is_training and leaves_server is None else WARNING
    return Need(links, ERROR if is_training else None, is_alone=leaves_server is False)


def _uses_hccs(table: Optional[RankTable], environ: Mapping[str, str]) -> bool:
    """Return whether HCCS may connect the servers, as it does within one superpod."""
    if environ.get("HCCL_INTER_HCCS_DISABLE", "").lower() == "true":
        return False
    pods = set() if table is None else {server.super_pod_id for server in table.servers}
    return table is None or (len(pods) == 1 and None not in pods)


class Interfaces:
    """The network interfaces of some devices; nothing here raises.

    Args:
        addresses: The address of each device, by physical id; None if it is not known.
        tool: The ``hccn_tool`` that was asked for the addresses.
    """

    def __init__(self, addresses: Mapping[int, Optional[str]], tool: HccnTool) -> None:
        self._addresses = addresses
        self._ids = sorted(addresses)
        self._tool = tool
        # Later failures of the tool do not concern the addresses.
        self._has_answers = tool.answers and not tool.notes

    def check_links(self, need: Need) -> Iterator[Finding]:
        """Check that the links are up."""
        up, down, unknown = self._ask(self._tool.link)
        if down:
            message = f"The network link of device(s) {format_ranges(down)} is down."
            hint = (
                f"Check cable and switch; `hccn_tool -i {down[0]} -link -g` shows it, and `-cfg "
                "recovery` restores its settings."
            )
            yield Finding(need.links, message, hint, rule=_LINK)
        if unknown and not need.is_alone:
            message = f"The links of {format_ranges(unknown)}: {self._why()}"
            yield Finding(NOT_CHECKED, message, rule=_LINK)
        if up:
            message = f"The network link of device(s) {format_ranges(up)} is up."
            yield Finding(OK, message, rule=_LINK)

    def check_addresses(self, need: Need) -> Iterator[Finding]:
        """Check that the devices have addresses; "not checked" if hccn_tool has failed."""
        lacking = [number for number in self._ids if self._addresses[number] is None]
        have = [number for number in self._ids if number not in lacking]
        if lacking and need.addresses is not None and self._has_answers:
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
        """Check that TLS is on for all of them, or off for all."""
        on, off, unknown = self._ask(self._tool.tls)
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

    def _ask(self, question: Callable[[int], Optional[bool]]) -> List[List[int]]:
        """Ask about each device; return the devices with True, with False and with None."""
        answers = {number: question(number) for number in self._ids}
        return [
            [number for number in self._ids if answers[number] is answer]
            for answer in (True, False, None)
        ]

    def _why(self) -> str:
        return " ".join(self._tool.notes[:2]) or _NO_TOOL


# Ports

DEVICE_PORT = 16666
BASE_PORTS = 32

PORTS = "ports"
"""Name of the check."""

_DEFAULT = 60000
_VARIABLE = "HCCL_IF_BASE_PORT"
_SECOND = 8  # distance from the control port of a device to its data port
_RANGE = "HCCL_HOST_SOCKET_PORT_RANGE"


def read_base_port(environ: Mapping[str, str]) -> int:
    """Return the first of HCCL's ports on the host: ``HCCL_IF_BASE_PORT``, else 60000."""
    return read_number(environ, _VARIABLE) or _DEFAULT


def list_hccl_ports(environ: Mapping[str, str]) -> Tuple[int, ...]:
    """List the ports that HCCL opens on the host, as far as they are below 65536."""
    first = read_base_port(environ)
    return (DEVICE_PORT, *(port for port in range(first, first + BASE_PORTS) if port < 65536))


def check_ports(
    environ: Mapping[str, str], physical: Optional[Sequence[int]] = None
) -> Iterator[Finding]:
    """Check that HCCL's ports are free, by binding each for a moment.

    Args:
        environ: The environment of the ranks, for ``HCCL_IF_BASE_PORT``.
        physical: The physical ids of the job's devices: another job on this server uses other
            ports. None means all ports.
    """
    if _VARIABLE in find_refusals(environ):
        message = f"The ports of HCCL: {_VARIABLE}={environ[_VARIABLE]!r} is not valid."
        yield Finding(NOT_CHECKED, message, rule=PORTS)
        return
    ports = _select_ports(environ, physical)
    busy, problem = _find_busy(ports)
    if problem:
        yield Finding(NOT_CHECKED, f"The ports of HCCL: {problem}", rule=PORTS)
        return
    users = _find_users(busy)
    # A connection may have ended meanwhile.
    busy = [port for port in busy if port in users or _find_busy([port])[0]]
    taken = [port for port in busy if port not in users or not users[port].is_local]
    if not taken:
        yield Finding(OK, f"The ports {format_ranges(ports)} are free.", rule=PORTS)
        return
    yield from _report_taken(taken, users, environ)


def _select_ports(environ: Mapping[str, str], physical: Optional[Sequence[int]]) -> Tuple[int, ...]:
    ports = list_hccl_ports(environ)
    # A2 and later take ports of this range instead.
    if environ.get(_RANGE):
        return ports[:1]
    if not physical:
        return ports
    firsts = (read_base_port(environ), read_base_port(environ) + _SECOND)
    device_ports = {first + int(number) for first in firsts for number in physical}
    return tuple(port for port in ports if port == DEVICE_PORT or port in device_ports)


class _User(NamedTuple):
    """The user of a port: name, whether it listens, and whether only on a loopback address."""

    name: str
    listens: bool
    is_local: bool = False


def _find_busy(ports: Sequence[int]) -> Tuple[List[int], str]:
    """Return the ports that cannot be bound, and why that could not be checked (or empty)."""
    busy = []
    for port in ports:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
                # A port with lingering connections of an ended job counts as free.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                return [], f"{error.strerror}."
            busy.append(port)
    return busy, ""


def _report_taken(
    busy: Sequence[int], users: Mapping[int, _User], environ: Mapping[str, str]
) -> Iterator[Finding]:
    first = read_base_port(environ)
    ranges = f"{DEVICE_PORT},{first}-{first + BASE_PORTS - 1}"
    reserve = f"sysctl net.ipv4.ip_local_reserved_ports={ranges}"
    by_user: Dict[Optional[_User], List[int]] = {}
    for port in (port for port in busy if port != DEVICE_PORT):
        by_user.setdefault(users.get(port), []).append(port)
    for user, ports in by_user.items():
        which = f"Port(s) {format_ranges(ports)} of HCCL"
        move = f"export {_VARIABLE} as the first of {BASE_PORTS} others"
        if user is None:
            message = f"{which} cannot be bound, and no process that uses them was found."
            yield Finding(WARNING, message, f"If HCCL fails there (EJ0003), {move}.", rule=PORTS)
        elif user.listens:
            hint = f"Stop it, {move}, and reserve them: {reserve}."
            yield Finding(ERROR, f"{which} are used by {user.name}.", hint, rule=PORTS)
        else:
            message = f"{which} are used by a connection of {user.name} at the moment."
            yield Finding(WARNING, message, f"Reserve them for HCCL: {reserve}.", rule=PORTS)
    if DEVICE_PORT in busy:
        owner = users.get(DEVICE_PORT)
        who = "an unknown process" if owner is None else owner.name.rstrip(",")
        message = (
            f"Port {DEVICE_PORT} of this host is in use by {who}. HCCL needs it on the cards, and "
            "on the host only if these have no network of their own."
        )
        yield Finding(WARNING, message, f"Reserve it for HCCL: {reserve}.", rule=PORTS)


def _find_users(busy: Sequence[int]) -> Dict[int, _User]:
    """Find the user of each port, as far as permissions allow."""
    import psutil  # only where a port is taken

    users: Dict[int, _User] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if not connection.laddr or connection.laddr.port not in busy:
                continue
            port = connection.laddr.port
            listens = connection.status == psutil.CONN_LISTEN
            is_local = False
            if listens:
                with contextlib.suppress(ValueError):  # HCCL does not bind loopback addresses
                    ip = ipaddress.ip_address(connection.laddr.ip)
                    is_local = (getattr(ip, "ipv4_mapped", None) or ip).is_loopback
            user = _User(_name_process(connection.pid), listens, is_local)
            if port not in users or _weight(user) > _weight(users[port]):
                users[port] = user
    return users


def _weight(user: _User) -> int:
    """Rank the users of a port; the one that disturbs HCCL most is reported."""
    return 0 if user.is_local else 2 if user.listens else 1


def _name_process(pid: object) -> str:
    if not isinstance(pid, int):
        return "another process, which this user may not see,"
    import psutil

    with contextlib.suppress(psutil.Error):
        return f"process {pid} ({psutil.Process(pid).name()})"
    return f"process {pid}"
