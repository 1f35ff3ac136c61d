"""What the grammars of structured options share: ASCII numbers, lists, and how a refusal is said.

A grammar raises ValueError with one sentence without the option's name; the caller adds it.
"""

import re
from typing import Optional, Sequence

from typing_extensions import TypeGuard

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_LONGEST = 100
# std::regex and atoi know the ten ASCII digits only; twenty of them hold any 64-bit number.
# Patterns stay text: re compiles them at their first use, so that the import does not pay.
_DIGITS = "[0-9]{1,20}"


def quoted(given: object) -> str:
    """Write ``given`` as Python does, shortened in the middle when it is long."""
    text = repr(given)
    return text if len(text) <= _LONGEST else f"{text[:70]}...{text[-20:]}"


def refused(given: object, wrong: str, example: object) -> ValueError:
    """Make the error for a value: what was given, what is wrong with it, and a right one."""
    return ValueError(f"{quoted(given)} cannot be used: {wrong}; write for example {example!r}.")


def wrong_type(given: object, forms: str, example: object) -> ValueError:
    """Make the error for a value whose type no form of the option has."""
    if isinstance(given, (bytes, bytearray)):
        return refused(given, "it is bytes and text is needed, so decode it first", example)
    kind = "None" if given is None else f"a value of type {type(given).__name__}"
    return refused(given, f"{kind} is not among the accepted forms ({forms})", example)


def whole(text: str, low: int, high: int) -> Optional[int]:
    """Read the number that ``text`` writes in ASCII digits, or None if it is not ``low..high``."""
    if re.fullmatch(_DIGITS, text) is None:
        return None
    number = int(text)
    return number if low <= number <= high else None


def has_blank(text: str) -> bool:
    """Say whether a space, tab, line break or the like stands anywhere in ``text``."""
    return any(character.isspace() for character in text)


def is_whole(value: object) -> TypeGuard[int]:
    """Say whether ``value`` is an int; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Say whether ``value`` is a list, tuple or the like; text and bytes are none."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
