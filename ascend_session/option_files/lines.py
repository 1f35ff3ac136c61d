"""Lines and words as the vendor's C++ sees them, which is not quite as Python does.

Source: hicann/ge, common/string_utils.h (Trim, which strips what isspace takes), and the standard's
getline, for which only a line feed ends a line.
"""

import re
from typing import Iterator, Optional

__all__ = ["BOM", "lines_of", "shortened", "strange_bytes", "trimmed"]

BOM = "\ufeff"
_BLANKS = " \t\n\v\f\r"
_ESCAPED = re.compile("[\udc80-\udcff]")


def lines_of(text: str) -> Iterator[str]:
    """The lines of ``text``, carriage returns included; what follows the last line feed is one."""
    start = 0
    end = text.find("\n")
    while end >= 0:
        yield text[start:end]
        start = end + 1
        end = text.find("\n", start)
    if start < len(text):
        yield text[start:]


def trimmed(text: str) -> str:
    """``text`` without the six ASCII blanks at its ends."""
    return text.strip(_BLANKS)


def strange_bytes(text: str) -> Optional[int]:
    """Where the first byte that is no UTF-8 stands in ``text``; None if there is none."""
    found = _ESCAPED.search(text)
    return None if found is None else found.start()


def shortened(text: str, most: int = 60) -> str:
    """``text`` for a message: what is too long or no UTF-8 at its end becomes three dots."""
    at = strange_bytes(text)
    shown = text if at is None else text[:at] + "..."
    return shown if len(shown) <= most else shown[: most - 3] + "..."
