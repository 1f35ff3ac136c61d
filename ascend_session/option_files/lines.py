"""Lines and words as the vendor's C++ sees them, which is not quite as Python does.

Source: hicann/ge, common/string_utils.h (Trim, which strips what isspace takes), and the standard's
getline, for which only a line feed ends a line.
"""

import re
from typing import List, Optional

from ascend_session.option_files.remarks import Findings

__all__ = ["BOM", "held", "lines_of", "strange_bytes", "trimmed"]

BOM = "\ufeff"
_BLANKS = " \t\n\v\f\r"
_ESCAPED = re.compile("[\udc80-\udcff]")


def lines_of(text: str) -> List[str]:
    """The lines of ``text``, carriage returns included; what follows the last line feed is one."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def trimmed(text: str) -> str:
    """``text`` without the six ASCII blanks at its ends."""
    return text.strip(_BLANKS)


def strange_bytes(text: str) -> Optional[int]:
    """Where the first byte that is no UTF-8 stands in ``text``; None if there is none."""
    found = _ESCAPED.search(text)
    return None if found is None else found.start()


def held(line: str, number: int, findings: Findings) -> bool:
    """Whether ``line`` is text; if not, it is refused."""
    at = strange_bytes(line)
    if at is not None:
        findings.refuse(
            (number, at + 1),
            "this is not UTF-8 text, so that it names nothing in a graph.",
            "Save the file as UTF-8.",
        )
    return at is None
