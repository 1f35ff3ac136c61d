"""What a rank table says, whatever format it is written in."""

from dataclasses import dataclass, field
from typing import Iterator, Tuple

from ascend_session.cluster.rank_table.parts import TableDevice, TableServer

__all__ = ["COMPLETED", "INITIALIZING", "LAB", "TEMPLATE_2", "V1_0", "V1_2", "Contents"]

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

    def placed(self) -> Iterator[Tuple[str, TableDevice]]:
        """The devices in the order of the table, each with its place."""
        for number, server in enumerate(self.servers):
            for index, device in enumerate(server.devices):
                yield self.place(number, index), device

    def place(self, server: int, device: int) -> str:
        """Where a device stands: a path, or in the older formats words.

        Args:
            server: Index of its server in `servers`.
            device: Index of the device in that server.
        """
        if self.concise:
            return f"server_list[{server}].device[{device}]"
        found = self.servers[server].devices[device]
        return f"server {found.server_id}, device {found.device_id}"
