"""What is on this machine: one record per device, put together from whatever can be read.

Nodes say which devices there are; ``npu-smi``, ``/proc`` and the network configuration add what
they know. Each of them may be missing or broken: then its part stays None, and a note says why.
"""

import os
from dataclasses import dataclass, replace
from typing import Callable, Iterator, Mapping, Optional, Tuple

from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.hccn import Interface
from ascend_session.hardware.nodes import host_root, processor_nodes
from ascend_session.hardware.occupancy import Holder
from ascend_session.hardware.versions import Component
from ascend_session.hardware.visible import VISIBLE_VARIABLE, read_visible
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

__all__ = ["Device", "DeviceReport", "device_count", "devices", "is_available"]

_Ask = Callable[[int], Optional[Interface]]


@dataclass(frozen=True)
class Device:
    """One device, which is one chip: an A3 processor is two of them.

    Attributes:
        index: Its place in the report. Those that this process gets come first, in the order of
            their logical ids, so that for them it is the logical id.
        physical_id: The N of ``/dev/davinciN``; what rank tables name. None if it has no node and
            nobody says it.
        logical_id: What ``session_device_id`` and ``ASCEND_DEVICE_ID`` name in this process; None
            if ``ASCEND_RT_VISIBLE_DEVICES`` hides it or it cannot be opened.
        driver_id: What ``ASCEND_RT_VISIBLE_DEVICES`` names; None without a node.
        npu_id: Number of its card in ``npu-smi``.
        chip_id: Number of the chip on the card.
        name: As ``npu-smi`` prints it: ``910B3``, ``310P3``.
        family: ``Atlas training (910A)``, ``A2 (910B)``, ``A3``, ``A5 (950)``, ``310P``, ``310B``
            or ``310``.
        health: ``OK``, ``Warning``, ``Alarm``, ``Critical`` or ``UNKNOWN``, as ``npu-smi`` says.
        memory_kind: ``HBM`` or ``DDR``.
        memory_used_mb: Memory in use, MB. An idle 910B has about 3,000.
        memory_total_mb: Memory in all, MB.
        temperature_c: Degrees Celsius.
        power_w: Watts.
        bus_id: PCI address.
        address: IP address of its own network interface.
        holders: The processes that hold it.
        notes: What is odd about it, in sentences.
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
        devices: Those that this process gets, in the order of their logical ids, then the rest.
        driver: The driver's version; None if unknown.
        firmware: The firmware's version.
        toolkits: The toolkits (CANN) found, the one that the environment selects first.
        notes: What could not be read, and traps in ``ASCEND_RT_VISIBLE_DEVICES``, in sentences.
        unanswered: Those of the notes that say what ``npu-smi`` did not answer, and why.
    """

    devices: Tuple[Device, ...]
    driver: Optional[Component] = None
    firmware: Optional[Component] = None
    toolkits: Tuple[Component, ...] = ()
    notes: Tuple[str, ...] = ()
    unanswered: Tuple[str, ...] = ()

    @property
    def visible(self) -> Tuple[Device, ...]:
        """The devices that this process gets; the place of each is its logical id."""
        return tuple(device for device in self.devices if device.logical_id is not None)

    @property
    def ask_address(self) -> Optional[_Ask]:
        """Asks ``hccn_tool`` for the address of a device, by its physical id; None if nobody can.

        The file ``/etc/hccn.conf``, where `Device.address` is from if it is there, may be an old
        one, as that of a container's image.
        """
        ask: Optional[_Ask] = self.__dict__.get("_ask_address")
        return ask

    def asking(self, ask_address: _Ask) -> "DeviceReport":
        """The same report, with somebody to ask; which is no field, and never written."""
        made = replace(self)
        object.__setattr__(made, "_ask_address", ask_address)
        return made

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)

    def __len__(self) -> int:
        return len(self.devices)

    def __getitem__(self, index: int) -> Device:
        return self.devices[index]


def devices(
    environ: Optional[Mapping[str, str]] = None,
    root: Optional[str] = None,
    timeout: float = TIME_LIMIT,
) -> DeviceReport:
    """Looks at the machine; needs neither root nor the network, and never raises.

    Args:
        environ: The environment to go by; that of this process if None.
        root: Root of the host; ``ASCEND_SESSION_HOST_ROOT`` or ``/`` if None.
        timeout: Seconds that one answer of ``npu-smi`` or ``hccn_tool`` may take. One that does
            not come in time is the last that is asked for.
    """
    from ascend_session.hardware.survey import survey

    given = _given(environ)
    return survey(given, root or host_root(given), timeout)


def device_count(environ: Optional[Mapping[str, str]] = None, root: Optional[str] = None) -> int:
    """How many devices this process gets; runs no other program.

    Counts the device nodes that ``ASCEND_RT_VISIBLE_DEVICES`` leaves, read as the runtime does.

    Args:
        environ: The environment to go by; that of this process if None.
        root: Root of the host; ``ASCEND_SESSION_HOST_ROOT`` or ``/`` if None.
    """
    given = _given(environ)
    nodes = processor_nodes(root or host_root(given))
    return len(read_visible(given.get(VISIBLE_VARIABLE), len(nodes)).ids)


def is_available(environ: Optional[Mapping[str, str]] = None, root: Optional[str] = None) -> bool:
    """Whether this process gets at least one device; see `device_count`."""
    return device_count(environ, root) > 0


def _given(environ: Optional[Mapping[str, str]]) -> Mapping[str, str]:
    return os.environ if environ is None else environ
