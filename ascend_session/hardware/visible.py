"""How the runtime reads ``ASCEND_RT_VISIBLE_DEVICES``, which is not how one would.

It cuts the text at 128 characters, takes numbers separated by single commas, and stops without a
word at the first thing that is none, at the first number that is out of range, and when it has as
many as there are devices. Numbers that do not ascend, or are given twice, cost the whole list; so
does a text without a first number, the empty one included.

Source: launch_facts.md, B3, first row (runtime.cc, GetVisibleDevices).
"""

import re
from typing import List, NamedTuple, Optional, Tuple

from ascend_session.hardware._text import number

__all__ = ["VISIBLE_VARIABLE", "Visible", "read_visible"]

VISIBLE_VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"

_LONGEST = 128
# Only the characters that the C library calls digits.
_LIST = re.compile(r"[0-9]+(?:,[0-9]+)*")


class Visible(NamedTuple):
    """What the runtime makes of the list.

    Attributes:
        ids: The driver's numbers of the devices that the process gets; its own number for each,
            the logical id, is the place in this list.
        traps: What is not as the text looks, in sentences.
    """

    ids: Tuple[int, ...]
    traps: Tuple[str, ...]


def read_visible(text: Optional[str], count: int) -> Visible:
    """Reads the list as the runtime does.

    Args:
        text: The variable's value; None if it is not set.
        count: How many devices the driver has, numbered from 0.
    """
    if text is None:
        return Visible(tuple(range(count)), ())
    begun = _LIST.match(text[:_LONGEST])
    written = begun.group() if begun else ""
    taken: List[int] = []
    for word in written.split(",") if written else []:
        value = number(word[-9:]) if not word[:-9].strip("0") else None
        if len(taken) == count or value is None or value >= count:
            break
        if taken and value <= taken[-1]:
            return Visible((), (_unusable(text, value, taken),))
        taken.append(value)
    return _used(text, written, taken, count)


def _used(text: str, written: str, taken: List[int], count: int) -> Visible:
    if not taken:
        return Visible((), (_nothing(text, count),))
    read = len(written.split(","))
    rest = text[len(written) :]
    if len(taken) == read and not rest.strip(", "):
        return Visible(tuple(taken), ())
    reason = _reason(text, written, taken, count)
    shown = ",".join(map(str, taken))
    return Visible(
        tuple(taken),
        (
            f"{VISIBLE_VARIABLE}={text!r}: the runtime reads only {shown!r}, because {reason}; it "
            "does not say so. Write numbers with commas between them and no blanks.",
        ),
    )


def _reason(text: str, written: str, taken: List[int], count: int) -> str:
    words = written.split(",")
    if len(taken) < len(words):
        if len(taken) == count:
            return f"it stops after {count}, the number of devices"
        return f"it stops at {words[len(taken)]!r}, which is not one of 0 to {count - 1}"
    if len(text) > _LONGEST and len(written) >= _LONGEST - 1:
        return f"it stops after {_LONGEST} characters"
    rest = re.sub("^,(?=[^,])", "", text[len(written) :])
    return f"it stops at {rest[:10]!r}"


def _nothing(text: str, count: int) -> str:
    known = f"0 to {count - 1}" if count else "none, for there is no device"
    return (
        f"{VISIBLE_VARIABLE}={text!r}: the runtime finds no usable number at its beginning, so "
        f"this process gets no device. Usable are {known}; to see all, unset the variable."
    )


def _unusable(text: str, value: int, taken: List[int]) -> str:
    what = f"{value} is given twice" if value == taken[-1] else f"{value} comes after {taken[-1]}"
    return (
        f"{VISIBLE_VARIABLE}={text!r}: {what}. The runtime wants ascending numbers and drops the "
        "whole list, so this process gets no device."
    )
