"""The little languages that options are written in: what their grammars share.

A grammar is a function that takes the vendor's text, which it returns to the letter, or a
structured form, and returns the text that the adapter gets. It raises ValueError with one sentence
without the option's name; the caller adds it. `Grammar` makes a type of it, with a JSON schema of
what may be written, which stands below the function.
"""

import functools
import re
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, TypeVar

from typing_extensions import TypeGuard

_Read = TypeVar("_Read")

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_MOST_QUOTED = 100
# std::regex and atoi know the ten ASCII digits only; twenty of them hold any 64-bit number.
# Patterns stay text: re compiles them at their first use, so that the import does not pay.
_DIGITS = "[0-9]{1,20}"


class UnusableError(Exception):
    """A value that a grammar refuses.

    Attributes:
        reason: What is wrong with it, as half a sentence; None for a type that has no form.
        example: A right value, if the grammar's own example does not show it.
    """

    def __init__(self, reason: Optional[str] = None, example: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.example = example


def grammar(forms: str, example: Any) -> Callable[[Callable[[Any], _Read]], Callable[[Any], _Read]]:
    """Turn the UnusableError of the decorated function into the sentence about its value.

    Args:
        forms: What may be written, in words.
        example: A right value.
    """

    def decorate(read: Callable[[Any], _Read]) -> Callable[[Any], _Read]:
        @functools.wraps(read)
        def read_or_refuse(value: Any) -> _Read:
            try:
                return read(value)
            except UnusableError as error:
                right = example if error.example is None else error.example
                if error.reason is None:
                    raise wrong_type(value, forms, right) from None
                raise refused(value, error.reason, right) from None

        return read_or_refuse

    return decorate


class Grammar:
    """Text that a function takes as it is, or makes from one of the structured forms of a type.

    In a type such as ``Annotated[Union[str, int], Grammar(dump_step, ...)]`` the union is what may
    be written; what is read back is always the text that the adapter gets.

    Attributes:
        read: The function; it raises ValueError with one sentence. The reference shows its
            docstring up to the sections.
        schema: JSON schema of what may be written.
        words: What may be written, where the JSON schema does not say it.
    """

    def __init__(
        self, read: Callable[[Any], Any], schema: Mapping[str, Any], words: str = ""
    ) -> None:
        self.read = read
        self.words = words
        self.schema = schema


def list_of(items: Mapping[str, Any], **limits: int) -> Dict[str, Any]:
    """Give the JSON schema of a list."""
    return {"type": "array", "items": items, **limits}


def mapping_of(items: Mapping[str, Any]) -> Dict[str, Any]:
    """Give the JSON schema of a mapping with any names."""
    return {"type": "object", "additionalProperties": items}


def text_or(*forms: Mapping[str, Any]) -> Dict[str, Any]:
    """Give the JSON schema of a value that is text or of one of the ``forms``."""
    return {"anyOf": [TEXT, *forms]}


TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 1}


def show_value(value: object, write: Callable[[object], str] = repr) -> str:
    """Write a value as Python does; three dots for a number that is too long for that."""
    try:
        return write(value)
    except ValueError:
        return "..."


def refused(given: object, reason: str, example: object) -> ValueError:
    """Make the error for a value: what was given, what is wrong with it, and a right one."""
    quoted = show_value(given)
    if len(quoted) > _MOST_QUOTED:
        quoted = f"{quoted[:70]}...{quoted[-20:]}"
    return ValueError(f"{quoted} cannot be used: {reason}; write for example {example!r}.")


def wrong_type(given: object, forms: str, example: object) -> ValueError:
    """Make the error for a value whose type no form of the option has."""
    if isinstance(given, (bytes, bytearray)):
        return refused(given, "it is bytes and text is needed, so decode it first", example)
    kind = "None" if given is None else f"a value of type {type(given).__name__}"
    return refused(given, f"{kind} is not among the accepted forms ({forms})", example)


def parse_whole(text: str, low: int, high: int) -> Optional[int]:
    """Read the number that ``text`` writes in ASCII digits, or None if it is not ``low..high``."""
    if re.fullmatch(_DIGITS, text) is None:
        return None
    number = int(text)
    return number if low <= number <= high else None


def has_blank(text: str) -> bool:
    """Whether a space, tab, line break or the like stands anywhere in ``text``."""
    return any(character.isspace() for character in text)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an int, not too long to be written; a bool is none."""
    return isinstance(value, int) and type(value) is not bool and value.bit_length() <= 4096


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Whether ``value`` is a list, tuple or the like; text and bytes are none."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
