"""What ``ascend-session ranktable make`` makes a table of."""

from typing import List, Optional, Sequence

import typer

from ascend_session.cli._flags import with_flags
from ascend_session.cli._output import complain
from ascend_session.cluster.rank_table import RankTable
from ascend_session.errors import DeviceError

__all__ = ["made_of_host", "made_of_tables"]


def made_of_host(
    asked: Optional[str],
    server_id: Optional[str],
    host_ip: Optional[str],
    version: Optional[str],
    force: bool,
) -> RankTable:
    """A table of this host's devices.

    Args:
        asked: Logical ids, as in ``0-3,6``; None means all.
        server_id: The server's name; that of the host if None.
        host_ip: Its address, if the table is to have it.
        version: ``1.2`` for a table with superpods.
        force: Whether to make one that the manual advises against.

    Raises:
        DeviceError: If a device that is asked for is not there.
        JobError: If there is no device, or HCCL would refuse the table.
    """
    from ascend_session.hardware.devices import devices

    report = devices()
    used = report.visible
    if not used:
        for note in report.notes:
            complain(note)
    elif asked is not None:
        ids = [int(number) for number in _parsed(asked)]
        if max(ids) >= len(used):
            raise DeviceError(
                f"Device {max(ids)} was asked for, but a process here gets 0 to {len(used) - 1}.",
                hint="`ascend-session devices` shows them.",
            )
        used = tuple(used[number] for number in ids)
    table = RankTable.of_host(
        used, server_id=server_id, host_ip=host_ip, version=version or "1.0", force=force
    )
    bare = [str(one.device_id) for one in table.devices if not one.device_ip]
    if bare:
        complain(
            f"note: the address of device {', '.join(bare)} is not known; a job of several servers "
            "needs it."
        )
    return table


def _parsed(asked: str) -> Sequence[int]:
    from ascend_session.launcher.devices import parse_devices

    try:
        return parse_devices(asked)
    except DeviceError as error:
        raise typer.BadParameter(with_flags(f"{error.message} {error.hint}")) from None


def made_of_tables(files: List[str]) -> RankTable:
    """One table of those in the files.

    Raises:
        JobError: If one cannot be read, two have the same server, or HCCL would refuse the result.
    """
    return RankTable.merge([RankTable.read(name) for name in files])
