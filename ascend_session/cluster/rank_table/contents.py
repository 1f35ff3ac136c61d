"""What a rank table says, whatever format it is written in."""

from dataclasses import dataclass, field
from typing import Iterator, Tuple

from ascend_session.cluster.rank_table.parts import TableDevice, TableServer

__all__ = ["COMPLETED", "INITIALIZING", "LAB", "TEMPLATE_2", "V1_0", "V1_2", "Contents", "Spot"]

Spot = Tuple[int, int]
"""Where a device stands in a table: index of its server, and index among the devices of that."""

COMPLETED, INITIALIZING = "completed", "initializing"
V1_0, V1_2, TEMPLATE_2, LAB = "1.0", "1.2", "template 2", "lab"


@dataclass(frozen=True)
class Contents:
    """What a rank table says.

    Attributes:
        format: ``1.0``, ``1.2``, ``template 2`` or ``lab``: how it is, or was, written.
        status: ``completed``, or ``initializing`` while somebody still fills it in.
        servers: The servers, in the order of the table.
        devices: The devices of all of them, in the order of their ranks.
    """

    format: str
    status: str
    servers: Tuple[TableServer, ...]
    devices: Tuple[TableDevice, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        every = [device for server in self.servers for device in server.devices]
        object.__setattr__(self, "devices", tuple(sorted(every, key=lambda one: one.rank_id)))

    @property
    def size(self) -> int:
        """How many ranks the job has."""
        return len(self.devices)

    @property
    def concise(self) -> bool:
        """Whether it is written as ``server_list[].device[]``, not as one of the older formats."""
        return self.format in (V1_0, V1_2)

    def server_place(self, index: int) -> str:
        """Where a server stands: a path, in the older formats words."""
        if self.concise:
            return f"server_list[{index}]"
        return f"server {self.servers[index].server_id}"

    def placed(self) -> Iterator[Tuple[Spot, TableDevice]]:
        """The devices in the order of the table, each with where it stands, for `place`."""
        for number, server in enumerate(self.servers):
            for index, device in enumerate(server.devices):
                yield (number, index), device

    def place(self, spot: Spot, key: str) -> str:
        """Where a field of a device stands: a path, in the older formats words."""
        server, device = spot
        place = self.server_place(server)
        if self.concise:
            return f"{place}.device[{device}].{key}"
        return f"{place}, device {self.servers[server].devices[device].device_id}, {key}"
