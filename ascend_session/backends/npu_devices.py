"""The devices that a process gets, and a check of those that variables and options name."""

from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.variables import read_number
from ascend_session.errors import DeviceError
from ascend_session.hardware.nodes import (
    VISIBLE_VARIABLE,
    control_node_notes,
    host_root,
    processor_nodes,
    read_visible,
)
from ascend_session.ids import PhysicalDeviceId


class Devices(NamedTuple):
    """The devices that a process gets, according to the device nodes.

    Attributes:
        physical: The physical ids of its devices, by logical id.
        nodes: The physical ids of all device nodes of this host.
        traps: Sentences about unexpected effects of ``ASCEND_RT_VISIBLE_DEVICES``.
        notes: Sentences about reasons why no device can be opened.
    """

    physical: Tuple[PhysicalDeviceId, ...]
    nodes: Tuple[PhysicalDeviceId, ...]
    traps: Tuple[str, ...]
    notes: Tuple[str, ...]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Devices":
        """Read the devices of a process with this environment."""
        root = host_root(environ)
        nodes = processor_nodes(root)
        if not nodes:
            note = "There is no /dev/davinci<N>: initialising will abort this process."
            return cls((), (), (), (note,))
        visible = read_visible(environ.get(VISIBLE_VARIABLE), len(nodes))
        physical = tuple(nodes[driver] for driver in visible.ids)
        return cls(physical, tuple(nodes), visible.traps, tuple(control_node_notes(root)))

    def logical(self, physical: int) -> Optional[int]:
        """Return the logical id of a device; None if the process does not get it."""
        ids = (logical for logical, node in enumerate(self.physical) if int(node) == physical)
        return next(ids, None)

    def check(self, environ: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
        """Check that the process gets the devices that variables and options name.

        Raises:
            DeviceError: If not; lists all of them.
        """
        if not self.nodes:
            return  # nothing to compare with; the notes say so
        if not self.physical:
            raise DeviceError(self.traps[0])
        problems: List[str] = []
        logical = {"session_device_id": parameters.get("session_device_id")}
        if environ.get("ASCEND_DEVICE_ID"):
            device_id = read_number(environ, "ASCEND_DEVICE_ID")
            logical = {"ASCEND_DEVICE_ID": device_id, **logical}
        else:
            number = read_number(environ, "DEVICE_ID")
            if number is not None and self.logical(number) is None:
                ids = ", ".join(str(node) for node in self.physical)
                problems.append(
                    f"DEVICE_ID={number} is not the physical id of a device that this process "
                    f"gets: {ids}."
                )
        count = len(self.physical)
        problems += [
            f"{name}={number}: this process gets {count} device(s), 0 to {count - 1}."
            for name, number in logical.items()
            if number is not None and number >= count
        ]
        if problems:
            raise DeviceError("\n".join(problems), hint="ascend-session devices")
