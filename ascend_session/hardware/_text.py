"""What all outputs of the vendor's programs have in common: how dirty they may be.

Colour codes, carriage returns, NUL bytes, lines of any length and numbers of any size are what a
sick card, a pager or a log collector makes of them; nothing here raises.
"""

import re
from typing import Iterator, List, Optional

__all__ = ["lines", "number", "pairs", "quoted", "real"]

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# Longer than any line that the vendor's programs print, short enough for every pattern used here.
_LONGEST_LINE = 1000
_NUMBER = re.compile(r"[0-9]{1,9}")
_REAL = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")
# The second is the wide colon of translated output.
_PAIR = re.compile(r"\s*([^\s:\uff1a][^:\uff1a]*?)\s*[:\uff1a]\s*(.*)")


def lines(text: str) -> List[str]:
    """The lines without colour codes and control characters; overlong lines are left out."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    found = (_UNPRINTED.sub("", line).rstrip() for line in plain.split("\n"))
    return [line for line in found if len(line) <= _LONGEST_LINE]


def number(text: str) -> Optional[int]:
    """The text as a number of at most nine digits, 0 or more; None for all else (``NA``, ``-``)."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None


def real(text: str) -> Optional[float]:
    """The text as a decimal number; None for all else (``NA``, ``-``)."""
    return float(text) if _REAL.fullmatch(text.strip()) else None


def pairs(text: str) -> Iterator[List[str]]:
    """The ``key : value`` lines, keys in lower case with single blanks."""
    for line in lines(text):
        match = _PAIR.fullmatch(line)
        if match:
            yield [" ".join(match.group(1).lower().split()), match.group(2).strip()]


def quoted(text: str, longest: int = 120) -> str:
    """The first line that says something, in quotes, for a message; ``nothing`` if none does."""
    said = [line.strip() for line in lines(text) if line.strip()]
    if not said:
        return "nothing"
    shown = said[0]
    return repr(shown if len(shown) <= longest else shown[:longest] + "...")
