"""Device nodes: which Ascend processors are there, can be opened, and are visible to a process.

``ASCEND_RT_VISIBLE_DEVICES`` may select fewer devices than it seems to. The runtime cuts the text
at 128 characters, reads numbers separated by single commas, and silently stops at the first other
character, at the first number out of range, and when it has as many numbers as there are devices.
No device is visible if numbers do not ascend, if one occurs twice, or if the text (even an empty
one) does not begin with a number.

Source: guides/facts/devices.md#device-nodes, guides/facts/devices.md#visible-devices (the
runtime's runtime.cc, GetVisibleDevices).
"""

import os
import re
from typing import List, Mapping, NamedTuple, Optional, Sequence, Set, TextIO, Tuple

from ascend_session.ids import PhysicalDeviceId

HOST_ROOT_VARIABLE = "ASCEND_SESSION_HOST_ROOT"
VISIBLE_VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"
CONTROL_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")

_NODE = r"(v?)davinci([0-9]{1,9})"
_MOUNT = "In a container, pass the node in with --device; on a host, check the driver."
_GROUP = "The user usually has to be in the group HwHiAiUser."
_LONGEST_LIST = 128  # characters
_MOST_CHARACTERS = 100_000
# Only the characters that the C library calls digits.
_LIST = r"[0-9]+(?:,[0-9]+)*"


def host_root(environ: Mapping[str, str]) -> str:
    """Return the root of the host to read: ``ASCEND_SESSION_HOST_ROOT``, default ``/``."""
    return environ.get(HOST_ROOT_VARIABLE) or "/"


def read_host_file(root: str, *path: str) -> Optional[str]:
    """Read the first 100,000 characters of a file below ``root``; None if it cannot be read."""
    try:
        with open_host_file(root, *path) as file:
            return file.read(_MOST_CHARACTERS)
    except (OSError, ValueError, TypeError):  # TypeError: a pipe with a writer yields None
        return None


def open_host_file(root: str, *path: str) -> TextIO:
    """Open a file below ``root`` without blocking: a pipe in its place is read as empty."""

    def open_at_once(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    name = os.path.join(root, *path)
    return open(name, encoding="utf-8", errors="replace", opener=open_at_once)


def find_host_files(root: str, pattern: str) -> List[str]:
    """List the paths below ``root`` that match a glob pattern, sorted."""
    import glob  # a launch on the stub needs this file, but lists nothing

    return sorted(glob.glob(os.path.join(glob.escape(root), pattern)))


def device_nodes(root: str) -> List[PhysicalDeviceId]:
    """List the physical ids of the device nodes below ``root``, ascending."""
    return sorted(_list_nodes(root, "") | _list_nodes(root, "v"))


def processor_nodes(root: str) -> List[PhysicalDeviceId]:
    """List the physical ids of the nodes that the driver counts as devices, ascending.

    Virtual devices (``/dev/vdavinciN``) are parts of processors. They count only in a container
    that has nothing else.
    """
    return sorted(_list_nodes(root, "")) or sorted(_list_nodes(root, "v"))


def _list_nodes(root: str, prefix: str) -> Set[PhysicalDeviceId]:
    try:
        names = os.listdir(os.path.join(root, "dev"))
    except OSError:
        return set()
    matches = (re.fullmatch(_NODE, name) for name in names)
    return {PhysicalDeviceId(int(match[2])) for match in matches if match and match[1] == prefix}


def node_name(root: str, device: PhysicalDeviceId) -> str:
    """Return the name of a device's node: ``davinci3``, or ``vdavinci3`` for a virtual device."""
    name = f"davinci{int(device)}"
    dev = os.path.join(root, "dev")
    is_virtual = not os.path.exists(f"{dev}/{name}") and os.path.exists(f"{dev}/v{name}")
    return f"v{name}" if is_virtual else name


def control_node_notes(root: str) -> List[str]:
    """Return a sentence for each control node that is missing or that this user cannot open."""
    notes = (_access_note(os.path.join(root, "dev", name), name) for name in CONTROL_NODES)
    return [note for note in notes if note]


def node_note(root: str, device: PhysicalDeviceId) -> Optional[str]:
    """Return a sentence if this user cannot open the device's node, else None."""
    name = node_name(root, device)
    path = os.path.join(root, "dev", name)
    if os.path.exists(path):
        return _access_note(path, name)
    return f"There is no /dev/{name}: this process cannot open the device. {_MOUNT}"


def _access_note(path: str, name: str) -> Optional[str]:
    if not os.path.exists(path):
        return f"There is no /dev/{name}, without which no device can be opened. {_MOUNT}"
    if os.path.isdir(path):
        # Docker creates a folder if -v names a node that the host does not have.
        return f"/dev/{name} is a folder, not a device. {_MOUNT}"
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return f"This user may not read and write /dev/{name}. {_GROUP}"
    return None


class Visible(NamedTuple):
    """``ASCEND_RT_VISIBLE_DEVICES`` as the runtime reads it.

    Attributes:
        ids: The driver's numbers of the visible devices; the index of each is its logical id.
        traps: Differences between the text and what the runtime reads, in sentences.
    """

    ids: Tuple[int, ...]
    traps: Tuple[str, ...]


def read_visible(text: Optional[str], count: int) -> Visible:
    """Read the list as the runtime does.

    Args:
        text: The variable's value; None if it is not set.
        count: How many devices the driver has, numbered from 0.
    """
    if text is None:
        return Visible(tuple(range(count)), ())
    match = re.match(_LIST, text[:_LONGEST_LIST])
    written = match.group() if match else ""
    words = written.split(",") if written else []
    ids: List[int] = []
    for word in words:
        # A number of more than nine digits, not counting leading zeros, is out of range.
        value = count if word[:-9].strip("0") else int(word[-9:])
        if len(ids) == count or value >= count:
            break
        if ids and value <= ids[-1]:
            what = (
                f"{value} is given twice" if value == ids[-1] else f"{value} comes after {ids[-1]}"
            )
            trap = (
                f"{VISIBLE_VARIABLE}={text!r}: {what}. The runtime wants ascending numbers and "
                "drops the whole list, so this process gets no device."
            )
            return Visible((), (trap,))
        ids.append(value)
    if not ids:
        usable = f"0 to {count - 1}" if count else "none, for there is no device"
        trap = (
            f"{VISIBLE_VARIABLE}={text!r}: the runtime finds no usable number at its beginning, so "
            f"this process gets no device. Usable are {usable}; to see all, unset the variable."
        )
        return Visible((), (trap,))
    if len(ids) == len(words) and not text[len(written) :].strip(", "):
        return Visible(tuple(ids), ())
    trap = (
        f"{VISIBLE_VARIABLE}={text!r}: the runtime reads only {','.join(map(str, ids))!r}, because "
        f"{_why_it_stops(text, words, ids, count)}; it does not report this. Write numbers with "
        "commas between them and no blanks."
    )
    return Visible(tuple(ids), (trap,))


def _why_it_stops(text: str, words: Sequence[str], ids: Sequence[int], count: int) -> str:
    """Return where the runtime stops after ``ids``, as the end of a sentence."""
    if len(ids) < len(words):
        if len(ids) == count:
            return f"it stops after {count}, the number of devices"
        return f"it stops at {words[len(ids)]!r}, which is not one of 0 to {count - 1}"
    length = len(",".join(words))
    if len(text) > _LONGEST_LIST and length >= _LONGEST_LIST - 1:
        return f"it stops after {_LONGEST_LIST} characters"
    rest = re.sub("^,(?=[^,])", "", text[length:])
    return f"it stops at {rest[:10]!r}"
