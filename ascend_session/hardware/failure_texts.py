"""What the texts mean that ``npu-smi`` and ``hccn_tool`` print instead of an answer.

Source: launch_facts.md, B2 (failure texts); the rest is plain English of the tools.
"""

import re
from typing import List, Tuple

from ascend_session.hardware._text import lines

__all__ = ["DEVICES_HELD", "known_failures"]

DEVICES_HELD = (
    "The driver says that a device is in use (dcmi error -8020): another container holds it, or "
    "this container lacks mounts. One held device hides all of them; end the other container, or "
    "pass in other devices."
)
_NO_DRIVER = (
    "The driver cannot be reached (dcmi error -8005): the devices are occupied, or the driver's "
    "folders are not mounted into this container."
)
_NO_LIBRARIES = (
    "The driver's libraries are not visible (DrvMngGetConsoleLogLevel failed): mount "
    "/usr/local/Ascend/driver, or put its lib64 folders into LD_LIBRARY_PATH."
)
_NO_MANAGEMENT = "The driver's management library could not be started (dcmi error {0})."
_NO_LIBRARY = (
    "The library {0} was not found; the driver's lib64 folders have to be in LD_LIBRARY_PATH."
)
_NOT_SUPPORTED = "npu-smi does not support querying {0} on this device."
_NO_CARD = "npu-smi says that there is no NPU card on this server."
_INCOMPLETE = (
    "npu-smi says that the driver may not be completely installed (Driver_Install_Status in "
    "/etc/ascend_install.info)."
)
_KNOWN: Tuple[Tuple[str, str], ...] = (
    (r"ret is -8020\b", DEVICES_HELD),
    (r"ret is -8005\b", _NO_DRIVER),
    (r"DrvMngGetConsoleLogLevel failed", _NO_LIBRARIES),
    (r"dcmi \w+ initiali\w+ failed.*?ret is (-(?!8020\b|8005\b)[0-9]{1,6})", _NO_MANAGEMENT),
    (r"error while loading shared libraries: ([^\s:]{1,100})", _NO_LIBRARY),
    (r"does not support querying ([\w-]{1,50})", _NOT_SUPPORTED),
    (r"There is no NPU card", _NO_CARD),
    (r"driver package may not be completely installed", _INCOMPLETE),
)
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), said) for pattern, said in _KNOWN]


def known_failures(text: str) -> List[str]:
    """One sentence for each failure that is recognised in the text; empty if none is."""
    plain = "\n".join(lines(text))
    found = ((pattern.search(plain), sentence) for pattern, sentence in _PATTERNS)
    return [sentence.format(*match.groups()) for match, sentence in found if match]
