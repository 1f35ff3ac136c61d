"""Writing tables: their text, and a file that is never there in part.

HCCL fails at once on half a table (launch_facts.md, A2 rule 2), so the text goes into a file beside
it first, and takes the name only when it is whole and on the disk.
"""

import contextlib
import errno
import json
import os
import stat
from typing import Dict, Iterable, Iterator, List, Optional

from ascend_session.cluster.rank_table.contents import V1_0, V1_2, Contents
from ascend_session.cluster.rank_table.parts import TableDevice, TableServer
from ascend_session.cluster.rank_table.source import name_fault
from ascend_session.errors import JobError

__all__ = ["text_of", "write_text"]

_MOST_NAMED = 3
_json = json.JSONEncoder(ensure_ascii=False).encode


def text_of(table: Contents, version: str) -> str:
    """The table as JSON text, one device on a line.

    Raises:
        JobError: If ``version`` is not 1.0 or 1.2, or the table has not what 1.2 needs.
    """
    if version not in (V1_0, V1_2):
        raise JobError(
            f"version={version!r}: rank tables are written in version 1.0 or 1.2.",
            hint='Write "1.2" for A3 with superpods, "1.0" for all else.',
        )
    if version == V1_2:
        _check_pods(table)
    servers = ",\n".join(_server(server, version) for server in table.servers)
    head = {"version": version, "status": table.status, "server_count": str(len(table.servers))}
    lines = [f"  {_json(key)}: {_json(value)},\n" for key, value in head.items()]
    tail = f",\n{_super_pods(table)}" if version == V1_2 else ""
    return "".join(["{\n", *lines, f'  "server_list": [\n{servers}\n  ]{tail}\n}}\n'])


def write_text(path: str, text: str, force: bool = False) -> None:
    """Writes a file so that whoever opens it sees all of it, or what was there before.

    Args:
        path: Its name; a link is followed.
        text: What goes into it.
        force: Whether a file that is there may be replaced; its permissions are kept.

    Raises:
        JobError: If HCCL takes no table of that name, if there is a file already, or if it cannot
            be written. Nothing is left behind then.
    """
    fault = name_fault(path)
    if fault:
        raise JobError(f"{path}: {fault}", hint="Name it hccl.json, for example.")
    target = os.path.realpath(path)
    if os.path.lexists(path) and not force:
        raise _exists(path)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".rank-table-{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        mode = _mode_of(target)
        with _removed_if_left(temporary):
            _write_whole(temporary, text, mode)
            _name(temporary, target, force)
        _settle(folder)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise JobError(f"{path}: cannot be written: {error.strerror}.") from error


def _mode_of(target: str) -> Optional[int]:
    """The permissions of the file that is replaced; None if there is none."""
    try:
        facts = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "It is no file, but a pipe or a device")
    return stat.S_IMODE(facts.st_mode)


def _write_whole(temporary: str, text: str, mode: Optional[int]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o666), "w", encoding="utf-8") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _name(temporary: str, target: str, force: bool) -> None:
    if force:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike a renaming, it never takes the place of another file
    except FileExistsError:
        raise
    except OSError:  # not every file system has links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "File exists") from None
        os.replace(temporary, target)


def _settle(folder: str) -> None:
    """Puts the name on the disk as well, where the file system knows how."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _removed_if_left(temporary: str) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _exists(path: str) -> JobError:
    return JobError(f"{path}: is there already.", hint="Give force to replace it.")


def _check_pods(table: Contents) -> None:
    outside = [server.server_id for server in table.servers if not server.super_pod_id]
    bare = [f"rank {one.rank_id}" for one in table.devices if one.super_device_id is None]
    missing = []
    if outside:
        missing.append(f"the superpod (super_pod_id) of server {_some(outside)}")
    if bare:
        missing.append(f"the super_device_id of {_some(bare)}")
    if missing:
        raise JobError(
            f"Version 1.2 needs {' and '.join(missing)}.",
            hint="`npu-smi info -t spod-info -i <id> -c <chip>` says both, as Super Pod ID and "
            "SDID. Without superpods, version 1.0 is the one to write.",
        )


def _some(names: List[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _server(server: TableServer, version: str) -> str:
    host = f', "host_ip": {_json(server.host_ip)}' if server.host_ip else ""
    devices = ",\n".join(_device(one, version == V1_2) for one in server.devices)
    named = f'    {{"server_id": {_json(server.server_id)}{host}, "device": ['
    return f"{named}\n{devices}\n    ]}}"


def _device(device: TableDevice, with_pods: bool) -> str:
    """The fields of a device that are known, in the order of the manual."""
    fields = (
        ("device_id", device.device_id),
        ("super_device_id", device.super_device_id if with_pods else None),
        ("device_ip", ",".join(device.device_ip) or None),
        ("device_port", device.device_port),
        ("device_vnic_port", device.device_vnic_port),
        ("backup_device_ip", ",".join(device.backup_device_ip) or None),
        ("backup_device_port", device.backup_device_port),
        ("host_port", device.host_port),
        ("net_position", device.net_position),
        ("net_protocol", device.net_protocol),
        ("rank_id", device.rank_id),
    )
    known = ", ".join(f'"{key}": {_json(str(value))}' for key, value in fields if value is not None)
    return f"      {{{known}}}"


def _super_pods(table: Contents) -> str:
    pods: Dict[str, List[str]] = {}
    for server in table.servers:
        pods.setdefault(server.super_pod_id or "", []).append(server.server_id)
    lines = ",\n".join(_pod(pod_id, servers) for pod_id, servers in pods.items())
    return f'  "super_pod_list": [\n{lines}\n  ]'


def _pod(pod_id: str, servers: Iterable[str]) -> str:
    listed = ",\n".join(f'      {{"server_id": {_json(server_id)}}}' for server_id in servers)
    return f'    {{"super_pod_id": {_json(pod_id)}, "server_list": [\n{listed}\n    ]}}'
