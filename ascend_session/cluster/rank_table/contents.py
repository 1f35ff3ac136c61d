"""The content of a rank table, independent of its format."""

from dataclasses import dataclass, field
from typing import Iterator, NamedTuple, NoReturn, Optional, Tuple

from ascend_session.errors import UnsupportedError
from ascend_session.findings import Finding
from ascend_session.ids import PhysicalDeviceId

COMPLETED, INITIALIZING = "completed", "initializing"
V1_0, V1_2 = "1.0", "1.2"

Spot = Tuple[int, int]
"""A position in a table: index of the server, and of the device in it."""


class TableDevice(NamedTuple):
    """One device of a job, which is one rank.

    Attributes:
        rank_id: Its rank, from 0.
        device_id: The N of its ``/dev/davinciN``.
        server_id: The server it is in.
        device_ip: IP addresses of its network interface; usually one, empty if the table has none.
        host_ip: IP address of its server.
        super_device_id: Its number in its superpod (SDID), A3 only.
        device_port: Port of its network interface; HCCL's default is 16666.
        device_vnic_port: Port of its virtual interface; HCCL's default is ``device_port``.
        backup_device_ip: IP addresses of the interface that HCCL retries with, A3 only.
        backup_device_port: Port of that interface; HCCL's default is 16667.
        host_port: Port on the server for this device.
        net_position: ``device`` or ``host``: the network interface that is used.
        net_protocol: ``rdma`` or ``tcp``.
    """

    rank_id: int
    device_id: PhysicalDeviceId
    server_id: str
    device_ip: Tuple[str, ...] = ()
    host_ip: Optional[str] = None
    super_device_id: Optional[str] = None
    device_port: Optional[int] = None
    device_vnic_port: Optional[int] = None
    backup_device_ip: Tuple[str, ...] = ()
    backup_device_port: Optional[int] = None
    host_port: Optional[int] = None
    net_position: Optional[str] = None
    net_protocol: Optional[str] = None

    @property
    def pod_name(self) -> NoReturn:
        """Refuse the access: this attribute has been removed."""
        raise UnsupportedError(
            "TableDevice.pod_name has been removed: only tables with a group_list have pods with "
            "names, and those are left to HCCL."
        )


class TableServer(NamedTuple):
    """One server of a job.

    Attributes:
        server_id: Its name, often an IP address or ``node_0``.
        devices: Its devices, in the order of the table.
        host_ip: Its IP address.
        super_pod_id: Its superpod, A3 only.
    """

    server_id: str
    devices: Tuple[TableDevice, ...]
    host_ip: Optional[str] = None
    super_pod_id: Optional[str] = None


@dataclass(frozen=True)
class Contents:
    """A parsed rank table.

    Attributes:
        format: ``1.0`` or ``1.2``.
        status: ``completed``, or ``initializing`` while it is being filled in.
        servers: The servers, in the order of the table. A wrong field has a value if its meaning
            is clear.
        name: The file it was read from; empty for a table that was built.
        remarks: Findings about its text and fields.
        is_complete: True if every device could be read.
        devices: All devices, in order of rank.
    """

    format: str
    status: str
    servers: Tuple[TableServer, ...]
    name: str = field(default="", compare=False)
    remarks: Tuple[Finding, ...] = field(default=(), compare=False, repr=False)
    is_complete: bool = field(default=True, compare=False, repr=False)
    devices: Tuple[TableDevice, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        devices = [device for server in self.servers for device in server.devices]
        devices.sort(key=lambda device: device.rank_id)
        object.__setattr__(self, "devices", tuple(devices))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.devices)

    def iterate(self) -> Iterator[Tuple[Spot, TableDevice]]:
        """Yield the devices in the order of the table, each with its position for `locate`."""
        for number, server in enumerate(self.servers):
            for index, device in enumerate(server.devices):
                yield (number, index), device

    def locate(self, spot: Spot, key: str) -> str:
        """Return the JSON path of a device's field."""
        server, device = spot
        return f"{self.locate_server(server)}.device[{device}].{key}"

    def locate_server(self, index: int) -> str:
        """Return the JSON path of a server."""
        return f"server_list[{index}]"
