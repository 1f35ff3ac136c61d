"""Processes in ``/proc``: which devices they hold open, what they are and since when they run.

Source: launch_facts.md, B2 (the scan of ``/proc/*/fd`` is what remains when one busy card makes
``npu-smi`` fail for all); proc(5).
"""

import os
import pwd
import re
from typing import Dict, List, NamedTuple, Optional

from ascend_session.ids import PhysicalDeviceId

__all__ = [
    "OpenDevices",
    "command_of",
    "files_known",
    "name_of",
    "open_devices",
    "proc_problem",
    "start_of",
    "user_of",
]

_DEVICE = re.compile(r"(.*)/dev/v?davinci([0-9]{1,9})(?: \(deleted\))?")
# Field 22 of /proc/<pid>/stat; the fields are counted after the command's closing parenthesis.
_START_FIELD = 19


class OpenDevices(NamedTuple):
    """Who has which device open.

    Attributes:
        pids: For each device the processes that have its node open, ascending.
        unreadable: How many processes did not let this user see their open files.
    """

    pids: Dict[PhysicalDeviceId, List[int]]
    unreadable: int


def open_devices(root: str) -> OpenDevices:
    """Looks through ``/proc/*/fd`` below ``root`` for links to device nodes."""
    found: Dict[PhysicalDeviceId, List[int]] = {}
    unreadable = 0
    for pid in _pids(root):
        try:
            devices = _devices_of(root, pid)
        except OSError:
            # Kernel threads have no command line, and hold no devices.
            unreadable += bool(_read(root, pid, "cmdline"))
            continue
        for device in sorted(devices):
            found.setdefault(device, []).append(pid)
    return OpenDevices(found, unreadable)


def proc_problem(root: str) -> Optional[str]:
    """Why ``/proc`` below ``root`` shows no processes, in the system's words; None if it does."""
    try:
        os.listdir(os.path.join(root, "proc"))
    except OSError as error:
        return error.strerror
    return None


def files_known(root: str, pid: int) -> bool:
    """Whether this user can see which files a process that runs here has open."""
    try:
        _devices_of(root, pid)
    except OSError:
        return False
    return os.path.isdir(os.path.join(root, "proc", str(pid), "fd"))


def command_of(root: str, pid: int) -> Optional[str]:
    """The command line with blanks between the arguments, else the short name; None if gone."""
    line = _read(root, pid, "cmdline") or b""
    words = [word.decode("utf-8", "replace") for word in line.split(b"\0") if word]
    if words:
        return " ".join(words)
    return name_of(root, pid)


def name_of(root: str, pid: int) -> Optional[str]:
    """The short name, of at most 15 characters; None if the process is gone."""
    name = _read(root, pid, "comm")
    return None if name is None else name.decode("utf-8", "replace").strip()


def start_of(root: str, pid: int) -> Optional[float]:
    """When the process began, in seconds since 1970; None if that cannot be told."""
    try:
        with open(os.path.join(root, "proc/stat"), "rb") as file:
            boot = re.search(rb"^btime ([0-9]{1,12})$", file.read(), re.MULTILINE)
        fields = (_read(root, pid, "stat") or b"").rpartition(b")")[2].split()
        ticks = int(fields[_START_FIELD])
        return int(boot.group(1)) + ticks / os.sysconf("SC_CLK_TCK") if boot else None
    except (OSError, ValueError, IndexError, OverflowError):
        return None


def user_of(root: str, pid: int) -> Optional[str]:
    """The name of the process's user, else the number; None if the process is gone."""
    try:
        number = os.stat(os.path.join(root, "proc", str(pid))).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _pids(root: str) -> List[int]:
    try:
        names = os.listdir(os.path.join(root, "proc"))
    except OSError:
        return []
    return sorted(int(name) for name in names if re.fullmatch("[0-9]{1,9}", name))


def _devices_of(root: str, pid: int) -> List[PhysicalDeviceId]:
    """The devices that a process has open; none for one that has ended meanwhile.

    Raises:
        OSError: If its open files cannot be looked at.
    """
    folder = os.path.join(root, "proc", str(pid), "fd")
    found = set()
    try:
        for name in os.listdir(folder):
            match = _DEVICE.fullmatch(_target(os.path.join(folder, name)))
            if match and _is_on(root, match.group(1)):
                found.add(PhysicalDeviceId(int(match.group(2))))
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        pass
    return list(found)


def _is_on(root: str, before: str) -> bool:
    """Whether ``dev`` below the folder ``before`` is this host's.

    On the real one, containers may have it in any place.
    """
    return root == "/" or before in ("", root, os.path.realpath(root))


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except PermissionError:
        raise
    except OSError:
        # Closed meanwhile.
        return ""


def _read(root: str, pid: int, name: str) -> Optional[bytes]:
    try:
        with open(os.path.join(root, "proc", str(pid), name), "rb") as file:
            return file.read()
    except OSError:
        return None
