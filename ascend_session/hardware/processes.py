"""Find the processes that hold a device, in ``/proc`` and in the list of ``npu-smi``.

The scan of ``/proc/*/fd`` works even if one busy card makes ``npu-smi`` fail for all. In a
container ``npu-smi`` prints the pids of the host, which mean nothing there; only the newest tables
give the pid in the container as well. Memory in use is no sign of a process.

Source: guides/facts/devices.md#processes-on-a-device; proc(5).
"""

import os
import pwd
import re
from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Optional, Sequence, Set

from ascend_session.hardware.npu_smi import Process
from ascend_session.ids import PhysicalDeviceId

_DEVICE = re.compile(r"(.*)/dev/v?davinci([0-9]{1,9})(?: \(deleted\))?")
# Field 22 of /proc/<pid>/stat, counted from 0 after the command's closing parenthesis
_START_FIELD = 19


@dataclass(frozen=True)
class Holder:
    """A process that holds a device.

    Attributes:
        pid: Its pid here, or on the host if it belongs to another container.
        command: Its command line, or the name that ``npu-smi`` gives; empty if neither is known.
        since: When it started, in seconds since 1970; None if unknown.
        memory_mb: Memory on the device in MB, as ``npu-smi`` says; None if it does not.
        own: Whether it is this process.
        here: Whether ``/proc`` shows the process.
        user: Name of its user, or the number if there is no name; None if not ``here``.
    """

    pid: int
    command: str
    since: Optional[float]
    memory_mb: Optional[int]
    own: bool
    here: bool
    user: Optional[str] = None


class OpenDevices(NamedTuple):
    """The processes that have a device node open.

    Attributes:
        pids: For each device, the pids that have its node open, ascending.
        notes: What could not be inspected, in sentences.
    """

    pids: Dict[PhysicalDeviceId, List[int]]
    notes: List[str]


def list_holders(root: str, listed: Sequence[Process], pids: Sequence[int]) -> List[Holder]:
    """List the processes that hold one device, ascending by pid.

    Args:
        root: Root of the host.
        listed: The processes that ``npu-smi`` lists for the device.
        pids: The processes that have its node open; empty if the node is not known.
    """
    by_pid: Dict[int, Optional[Process]] = dict.fromkeys(pids)
    by_pid.update({process.container_pid or process.pid: process for process in listed})
    holders = []
    for pid, process in sorted(by_pid.items()):
        command = read_command(root, pid)
        if command is not None and process and pid not in pids:
            command = None if _is_another(root, pid, process, command) else command
        here = command is not None
        holders.append(
            Holder(
                pid=pid,
                command=command or (process.name if process else ""),
                since=read_start(root, pid) if here else None,
                memory_mb=process.memory if process else None,
                own=here and pid == os.getpid(),
                here=here,
                user=_read_user(root, pid) if here else None,
            )
        )
    return holders


def _is_another(root: str, pid: int, process: Process, command: str) -> bool:
    """Return whether a local process merely has the same pid as one that ``npu-smi`` lists.

    In a container the list has the host's pids. A local process with such a pid is another one for
    certain if its open files are known, none of them is a device, and it has another name.
    """
    # npu-smi cuts long names.
    name = os.path.basename(process.name)[:15].rstrip(".")
    if process.container_pid or not name:
        return False
    try:
        _find_open_devices(root, pid)
    except OSError:
        return False
    has_files = os.path.isdir(os.path.join(root, "proc", str(pid), "fd"))
    return has_files and name not in command and name not in (_read_name(root, pid) or "")


def open_devices(root: str) -> OpenDevices:
    """Find the processes that have device nodes open, from ``/proc/*/fd`` below ``root``.

    A note counts processes of other users that cannot be read.
    """
    try:
        names = os.listdir(os.path.join(root, "proc"))
    except OSError as error:
        note = (
            f"/proc could not be read: {error.strerror}. Who holds a device is known only if "
            "npu-smi lists it."
        )
        return OpenDevices({}, [note])
    pids: Dict[PhysicalDeviceId, List[int]] = {}
    unreadable = 0
    for pid in sorted(int(name) for name in names if re.fullmatch("[0-9]{1,9}", name)):
        try:
            devices = _find_open_devices(root, pid)
        except OSError:
            # Kernel threads have no command line, and hold no devices.
            unreadable += bool(_read(root, pid, "cmdline"))
            continue
        for device in devices:
            pids.setdefault(device, []).append(pid)
    notes = []
    if unreadable:
        notes.append(
            f"The open files of {unreadable} process(es) of other users could not be inspected; a "
            "holder among them is known only if npu-smi lists it."
        )
    return OpenDevices(pids, notes)


def _find_open_devices(root: str, pid: int) -> Set[PhysicalDeviceId]:
    """Find the devices that a process has open; empty if it has ended meanwhile.

    Raises:
        OSError: If its open files cannot be listed.
    """
    folder = os.path.join(root, "proc", str(pid), "fd")
    # Seen from the real host, a container's /dev may be below any folder.
    prefixes = ("", root, os.path.realpath(root))
    devices = set()
    try:
        for name in os.listdir(folder):
            try:
                target = os.readlink(os.path.join(folder, name))
            except PermissionError:
                raise
            except OSError:  # closed meanwhile
                continue
            match = _DEVICE.fullmatch(target)
            if match and (root == "/" or match[1] in prefixes):
                devices.add(PhysicalDeviceId(int(match[2])))
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        pass
    return devices


def proc_problem(root: str) -> Optional[str]:
    """Return why ``/proc`` below ``root`` shows no processes; None if it does."""
    try:
        os.listdir(os.path.join(root, "proc"))
    except OSError as error:
        return error.strerror
    return None


def read_command(root: str, pid: int) -> Optional[str]:
    """Return the command line, else the short name; None if the process is gone."""
    line = _read(root, pid, "cmdline") or b""
    words = [word.decode("utf-8", "replace") for word in line.split(b"\0") if word]
    return " ".join(words) if words else _read_name(root, pid)


def _read_name(root: str, pid: int) -> Optional[str]:
    """Return the short name, of at most 15 characters; None if the process is gone."""
    name = _read(root, pid, "comm")
    return None if name is None else name.decode("utf-8", "replace").strip()


def read_start(root: str, pid: int) -> Optional[float]:
    """Return when the process started, in seconds since 1970; None if unknown."""
    try:
        with open(os.path.join(root, "proc/stat"), "rb") as file:
            boot = re.search(rb"^btime ([0-9]{1,12})$", file.read(), re.MULTILINE)
        fields = (_read(root, pid, "stat") or b"").rpartition(b")")[2].split()
        ticks = int(fields[_START_FIELD])
        return int(boot.group(1)) + ticks / os.sysconf("SC_CLK_TCK") if boot else None
    except (OSError, ValueError, IndexError, OverflowError):
        return None


def _read_user(root: str, pid: int) -> Optional[str]:
    """Return the name of the process's user, or its number; None if the process is gone."""
    try:
        number = os.stat(os.path.join(root, "proc", str(pid))).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _read(root: str, pid: int, name: str) -> Optional[bytes]:
    try:
        with open(os.path.join(root, "proc", str(pid), name), "rb") as file:
            return file.read()
    except OSError:
        return None
