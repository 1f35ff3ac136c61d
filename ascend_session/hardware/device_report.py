"""The devices of this machine: one record each, from all sources that can be read.

Device nodes list the devices; ``npu-smi``, ``/proc`` and the network configuration add facts. If a
source is missing or broken, its fields are None, and a note says why.
"""

import os
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ascend_session.errors import DeviceError
from ascend_session.hardware.families import family, has_nic
from ascend_session.hardware.hccn import HccnTool, conf_address, read_conf
from ascend_session.hardware.installation import Component, read_versions
from ascend_session.hardware.nodes import (
    VISIBLE_VARIABLE,
    Visible,
    control_node_notes,
    host_root,
    node_note,
    processor_nodes,
    read_visible,
)
from ascend_session.hardware.npu_smi import ChipKey, ChipListing, NpuSmi
from ascend_session.hardware.processes import Holder, OpenDevices, list_holders, open_devices
from ascend_session.hardware.program import TIME_LIMIT
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.text import shorten

_AskAddress = Callable[[int], Optional[str]]
_AskSuperPod = Callable[[int, int], Optional[Tuple[str, str]]]

_MOST_NOTES = 4  # of one program that fails


@dataclass(frozen=True)
class Device:
    """One device, which is one chip: an A3 processor is two of them.

    Attributes:
        index: Its place in the report. Devices that this process may use come first, so that their
            index equals their logical id.
        physical_id: The N of ``/dev/davinciN``; rank tables use it. None if it has no node and
            ``npu-smi`` does not tell.
        logical_id: The number for ``session_device_id`` and ``ASCEND_DEVICE_ID`` in this process;
            None if ``ASCEND_RT_VISIBLE_DEVICES`` hides the device, or it has no node.
        driver_id: The number for ``ASCEND_RT_VISIBLE_DEVICES``; None without a node.
        npu_id: Number of its card in ``npu-smi``.
        chip_id: Number of the chip on the card.
        name: As ``npu-smi`` prints it: ``910B3``, ``310P3``.
        family: ``Atlas training (910A)``, ``A2 (910B)``, ``A3``, ``A5 (950)``, ``310P``, ``310B``
            or ``310``.
        health: ``OK``, ``Warning``, ``Alarm``, ``Critical`` or ``UNKNOWN``, as ``npu-smi`` says.
        memory_kind: ``HBM`` or ``DDR``.
        memory_used_mb: Memory in use, MB. An idle 910B has about 3,000.
        memory_total_mb: Total memory, MB.
        temperature_c: Degrees Celsius.
        power_w: Watts.
        bus_id: PCI address.
        address: IP address of its own network interface.
        holders: The processes that hold it.
        notes: Problems and peculiarities, in sentences.
    """

    index: int
    physical_id: Optional[PhysicalDeviceId]
    logical_id: Optional[LogicalDeviceId]
    driver_id: Optional[int] = None
    npu_id: Optional[int] = None
    chip_id: Optional[int] = None
    name: Optional[str] = None
    family: Optional[str] = None
    health: Optional[str] = None
    memory_kind: Optional[str] = None
    memory_used_mb: Optional[int] = None
    memory_total_mb: Optional[int] = None
    temperature_c: Optional[int] = None
    power_w: Optional[float] = None
    bus_id: Optional[str] = None
    address: Optional[str] = None
    holders: Tuple[Holder, ...] = ()
    notes: Tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceReport:
    """All devices of this machine; iterating, ``len`` and an index work on `devices`.

    Attributes:
        devices: The devices that this process may use, by logical id, then the others.
        driver: The driver's version; None if unknown.
        firmware: The firmware's version; None if unknown.
        toolkits: The installed toolkits (CANN); the one that the environment selects comes first.
        notes: What could not be read, and traps in ``ASCEND_RT_VISIBLE_DEVICES``, in sentences.
        unanswered: The notes about questions that ``npu-smi`` did not answer.
    """

    devices: Tuple[Device, ...]
    driver: Optional[Component] = None
    firmware: Optional[Component] = None
    toolkits: Tuple[Component, ...] = ()
    notes: Tuple[str, ...] = ()
    unanswered: Tuple[str, ...] = ()

    @property
    def visible(self) -> Tuple[Device, ...]:
        """The devices that this process may use; their positions are their logical ids."""
        return tuple(device for device in self.devices if device.logical_id is not None)

    @property
    def ask_address(self) -> Optional[_AskAddress]:
        """Function that asks ``hccn_tool`` for an address, given a physical id; None without tool.

        `Device.address` may be out of date: it comes from ``/etc/hccn.conf`` if that exists, which
        may be a file of a container's image.
        """
        return self.__dict__.get("_ask_address")

    @property
    def ask_super_pod(self) -> Optional[_AskSuperPod]:
        """Function that asks ``npu-smi`` for an A3 chip's SDID and superpod; None without it."""
        return self.__dict__.get("_ask_super_pod")

    def with_tools(
        self, ask_address: _AskAddress, ask_super_pod: Optional[_AskSuperPod] = None
    ) -> "DeviceReport":
        """Copy the report with functions that ask tools; they are no fields, so JSON lacks them."""
        report = replace(self)
        object.__setattr__(report, "_ask_address", ask_address)
        object.__setattr__(report, "_ask_super_pod", ask_super_pod)
        return report

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)

    def __len__(self) -> int:
        return len(self.devices)

    def __getitem__(self, index: int) -> Device:
        return self.devices[index]


def common_family(devices: Iterable[Device]) -> Optional[str]:
    """Return the product family that all devices share; None if one is unknown, or they differ."""
    families = {device.family for device in devices}
    return families.pop() if len(families) == 1 else None


def devices(
    environ: Optional[Mapping[str, str]] = None,
    root: Optional[str] = None,
    timeout: float = TIME_LIMIT,
) -> DeviceReport:
    """Return the devices of this machine; needs neither root rights nor the network.

    Missing or broken sources do not raise: the report's notes name them.

    Args:
        environ: The environment to read; None means that of this process.
        root: Root of the host; None means ``ASCEND_SESSION_HOST_ROOT``, else ``/``.
        timeout: Seconds that one answer of ``npu-smi`` or ``hccn_tool`` may take. After a timeout
            that program is not asked again.

    Raises:
        DeviceError: If an argument has the wrong type, or ``timeout`` is not above 0.
    """
    environ, root = _choose_host(environ, root)
    given: Any = timeout
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not is_number or not given > 0:
        raise DeviceError(f"timeout takes a number of seconds above 0, not {timeout!r}.")
    return survey(environ, root, timeout)


def device_count(environ: Optional[Mapping[str, str]] = None, root: Optional[str] = None) -> int:
    """Count the devices that this process may use; runs no other program.

    Counts the device nodes that ``ASCEND_RT_VISIBLE_DEVICES`` selects, as the runtime reads it.

    Args:
        environ: The environment to read; None means that of this process.
        root: Root of the host; None means ``ASCEND_SESSION_HOST_ROOT``, else ``/``.

    Raises:
        DeviceError: If an argument has the wrong type.
    """
    environ, root = _choose_host(environ, root)
    nodes = processor_nodes(root)
    return len(read_visible(environ.get(VISIBLE_VARIABLE), len(nodes)).ids)


def is_available(environ: Optional[Mapping[str, str]] = None, root: Optional[str] = None) -> bool:
    """Return whether this process may use at least one device; see `device_count`."""
    return device_count(environ, root) > 0


def _choose_host(environ: Any, root: Any) -> Tuple[Mapping[str, str], str]:
    """Return the given environment and root, checked, or the defaults of `devices`."""
    environ = os.environ if environ is None else environ
    if not isinstance(environ, Mapping):
        hint = "Call it without arguments to look at this machine."
        raise DeviceError(f"environ takes a mapping of variables, not {environ!r}.", hint=hint)
    for name, value in environ.items():
        if not _is_variable(name, value):
            raise DeviceError(
                "environ must map names to values, both str without NUL; "
                f"{name!r} is {shorten(repr(value))}.",
                hint="A name has no '=' either, and nothing has half a surrogate pair."
                if isinstance(value, str)
                else f"Write {{{name!r}: str(value)}}, or leave it out.",
            )
    root = root or host_root(environ)
    path = os.fspath(root) if isinstance(root, os.PathLike) else root
    if not isinstance(path, str) or "\0" in path:
        raise DeviceError(f"root takes the path of a folder, not {root!r}.")
    return environ, path


def _is_variable(name: Any, value: Any) -> bool:
    """Return whether a process could have this variable in its environment."""
    if not isinstance(name, str) or not isinstance(value, str) or "=" in name:
        return False
    try:
        return b"\0" not in os.fsencode(name + value)
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def survey(
    environ: Mapping[str, str],
    root: str,
    timeout: float,
    addresses: bool = True,
    tool: Optional[HccnTool] = None,
) -> DeviceReport:
    """Make the report; see `devices`.

    Args:
        environ: The environment to read.
        root: Root of the host.
        timeout: Seconds that one answer of a program may take.
        addresses: Whether to read network addresses; False is faster, for polling the holders.
        tool: The ``hccn_tool`` to ask, if the caller needs its notes; None makes one.
    """
    versions = read_versions(environ, root)
    report = DeviceReport((), versions.driver, versions.firmware, versions.toolkits)
    nodes = processor_nodes(root)
    npu_smi = NpuSmi(environ, root, timeout)
    if not nodes and not npu_smi.is_installed:
        note = "This machine has no Ascend device (there is no /dev/davinci<N>)."
        return replace(report, notes=tuple(dict.fromkeys([note, *versions.notes])))
    listing = ChipListing(npu_smi, nodes)
    visible = read_visible(environ.get(VISIBLE_VARIABLE), len(nodes))
    opened = open_devices(root)
    key_of = {physical: key for key, physical in listing.physical.items()}
    pairs: List[Tuple[Optional[PhysicalDeviceId], Optional[ChipKey]]]
    pairs = [(node, key_of.get(node)) for node in nodes]
    with_physical = ((listing.physical.get(key), key) for key in listing.names)
    pairs += [(physical, key) for physical, key in with_physical if physical not in nodes]
    described = [
        _describe(physical, key, listing, opened, visible, environ, root) for physical, key in pairs
    ]
    described.sort(key=_visible_first)
    notes = [*visible.traps]
    if nodes:
        notes += control_node_notes(root)
    else:
        notes.append("This process cannot open a device: there is no /dev/davinci<N>.")
    unanswered = _first_notes(npu_smi.notes)
    notes += [*unanswered, *opened.notes]
    if addresses:
        tool = tool or HccnTool(environ, root, timeout)
        described = _add_addresses(described, tool, root, notes)
    if report.driver is None and listing.driver_version:
        report = replace(report, driver=Component(listing.driver_version, None, None))
    report = replace(
        report,
        devices=tuple(replace(device, index=index) for index, device in enumerate(described)),
        notes=tuple(dict.fromkeys([*notes, *versions.notes])),
        unanswered=tuple(unanswered),
    )
    return report.with_tools(HccnTool(environ, root, timeout).address, npu_smi.super_pod)


def _describe(
    physical: Optional[PhysicalDeviceId],
    key: Optional[ChipKey],
    listing: ChipListing,
    opened: OpenDevices,
    visible: Visible,
    environ: Mapping[str, str],
    root: str,
) -> Device:
    """Collect the facts about one device, except its index and its address."""
    driver = None if physical is None else listing.driver.get(physical)
    is_visible = driver is not None and driver in visible.ids
    chip = listing.chips.get(key) if key else None
    name = listing.names.get(key, "") if key else ""
    listed = listing.processes.get(key, ()) if key else ()
    pids = () if physical is None else opened.pids.get(physical, ())
    holders = list_holders(root, listed, pids)
    # Where there is HBM the column for DDR counts the chip's own processor, or shows 0 / 0.
    memory = None if chip is None else chip.hbm or chip.ddr
    notes: List[Optional[str]] = []
    if physical is None:
        notes.append("Its node, /dev/davinci<N>, is not known.")
    else:
        notes.append(node_note(root, physical))
    if driver is not None and not is_visible:
        setting = f"{VISIBLE_VARIABLE}={environ.get(VISIBLE_VARIABLE)!r}"
        notes.append(f"{setting} hides it from this process.")
    if listing.names and key is None:
        notes.append(
            "npu-smi does not list it: it may have dropped off the bus, or another container "
            "holds it."
        )
    elsewhere = [str(holder.pid) for holder in holders if not holder.here]
    if elsewhere:
        notes.append(
            f"Process {', '.join(elsewhere)} is listed by npu-smi but not in /proc here: it runs "
            "in another container, or that is the host's number of one listed here."
        )
    return Device(
        index=0,
        physical_id=physical,
        logical_id=LogicalDeviceId(visible.ids.index(driver)) if is_visible else None,
        driver_id=driver,
        npu_id=key[0] if key else None,
        chip_id=key[1] if key else None,
        name=name or None,
        family=family(name),
        health=chip.health if chip else None,
        memory_kind=None if chip is None else "HBM" if chip.hbm else "DDR",
        memory_used_mb=memory.used if memory else None,
        memory_total_mb=memory.total if memory else None,
        temperature_c=chip.temperature if chip else None,
        power_w=chip.power if chip else None,
        bus_id=chip.bus_id if chip else None,
        holders=tuple(holders),
        notes=tuple(note for note in notes if note),
    )


def _visible_first(device: Device) -> Tuple[bool, int, ChipKey]:
    """Order visible devices by their logical ids, then the others by their physical ids."""
    if device.logical_id is not None:
        return False, int(device.logical_id), (0, 0)
    physical = -1 if device.physical_id is None else int(device.physical_id)
    return True, physical, (device.npu_id or 0, device.chip_id or 0)


def _add_addresses(
    described: Sequence[Device], tool: HccnTool, root: str, notes: List[str]
) -> List[Device]:
    """Add the addresses from ``hccn.conf``, and ask the tool about the other devices."""
    conf = read_conf(root, notes)
    with_address = []
    for device in described:
        address = None
        if device.physical_id is not None and (device.family is None or has_nic(device.family)):
            number = int(device.physical_id)
            address = conf_address(conf.get(number, {})) or tool.address(number)
        with_address.append(replace(device, address=address))
    notes += _first_notes(tool.notes)
    return with_address


def _first_notes(notes: Sequence[str]) -> List[str]:
    """Keep the first notes and count the others: a tool may fail for all devices."""
    if len(notes) <= _MOST_NOTES:
        return list(notes)
    more = len(notes) - _MOST_NOTES
    return [*notes[:_MOST_NOTES], f"{more} more answers of this program could not be read either."]
