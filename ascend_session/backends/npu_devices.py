"""The devices that a process gets, and whether those that it asks for are among them."""

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

__all__ = ["Devices"]


class Devices(NamedTuple):
    """What this process gets, told from the device nodes alone.

    Attributes:
        physical: The physical id of each device; its place here is its logical id.
        nodes: All nodes of processors.
        traps: What ``ASCEND_RT_VISIBLE_DEVICES`` does that it does not seem to do.
        notes: What stands in the way of opening any device.
    """

    physical: Tuple[PhysicalDeviceId, ...]
    nodes: Tuple[PhysicalDeviceId, ...]
    traps: Tuple[str, ...]
    notes: Tuple[str, ...]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Devices":
        """Looks at the host that ``environ`` names."""
        root = host_root(environ)
        nodes = processor_nodes(root)
        if not nodes:
            note = "There is no /dev/davinci<N>: initialising will abort this process."
            return cls((), (), (), (note,))
        visible = read_visible(environ.get(VISIBLE_VARIABLE), len(nodes))
        physical = tuple(nodes[driver] for driver in visible.ids)
        return cls(physical, tuple(nodes), visible.traps, tuple(control_node_notes(root)))

    def logical(self, physical: int) -> Optional[int]:
        """The logical id of the device with this physical one; None if the process gets it not."""
        places = [place for place, node in enumerate(self.physical) if int(node) == physical]
        return places[0] if places else None

    def check(self, environ: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
        """Refuses devices that this process does not get.

        Raises:
            DeviceError: With all of them.
        """
        if not self.nodes:
            return  # nothing to compare with; the notes say so
        if not self.physical:
            raise DeviceError(self.traps[0])
        wrong = [*self._wrong_own(environ), *self._wrong_session(parameters)]
        if wrong:
            raise DeviceError("\n".join(wrong), hint="ascend-session devices")

    def _wrong_own(self, environ: Mapping[str, str]) -> List[str]:
        if environ.get("ASCEND_DEVICE_ID"):
            return self._wrong_logical(
                "ASCEND_DEVICE_ID", read_number(environ, "ASCEND_DEVICE_ID") or 0
            )
        other = read_number(environ, "DEVICE_ID")
        if other is not None and self.logical(other) is None:
            named = ", ".join(f"{node}" for node in self.physical)
            return [
                f"DEVICE_ID={other} is no physical id of a device that this process gets: {named}."
            ]
        return []

    def _wrong_session(self, parameters: Mapping[str, Any]) -> List[str]:
        asked = parameters.get("session_device_id")
        return [] if asked is None else self._wrong_logical("session_device_id", asked)

    def _wrong_logical(self, name: str, asked: int) -> List[str]:
        if asked < len(self.physical):
            return []
        count = len(self.physical)
        return [f"{name}={asked}: this process gets {count} device(s), 0 to {count - 1}."]
