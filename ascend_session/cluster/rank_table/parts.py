"""What a rank table is made of."""

from typing import NamedTuple, Optional, Tuple

from ascend_session.ids import PhysicalDeviceId

__all__ = ["TableDevice", "TableServer"]


class TableDevice(NamedTuple):
    """One device of a job, which is one rank.

    Attributes:
        rank_id: Its rank, from 0.
        device_id: The N of its ``/dev/davinciN``.
        server_id: The server it is in.
        device_ip: Addresses of its own network interface; most have one, and it may be left out.
        host_ip: Address of its server.
        super_device_id: Its number in its superpod (SDID), A3 only.
        device_port: Port of its network interface; HCCL takes 16666 if there is none.
        device_vnic_port: Port of its virtual interface; HCCL takes ``device_port``.
        backup_device_ip: Addresses of the interface that takes over, A3 only.
        backup_device_port: Port of that interface.
        host_port: Port of the server for this device.
        net_position: ``device`` or ``host``: whose network interface is used.
        net_protocol: ``rdma`` or ``tcp``.
        pod_name: The container it is in, which template 2 goes by.
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
    pod_name: Optional[str] = None


class TableServer(NamedTuple):
    """One server of a job.

    Attributes:
        server_id: Its name in the table, often an address or ``node_0``.
        devices: Its devices, in the order of the table.
        host_ip: Its own address.
        super_pod_id: The superpod it belongs to, A3 only.
    """

    server_id: str
    devices: Tuple[TableDevice, ...]
    host_ip: Optional[str] = None
    super_pod_id: Optional[str] = None
