"""What the grammars of option texts share.

A grammar takes the vendor's text (returned unchanged) or a structured form, and returns the text
for the adapter. `grammar` makes one of a function that raises `UnusableError`, with a JSON schema;
`Annotated`, below each, makes a type of it. The caller adds the option's name to errors.
"""

import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from typing_extensions import TypeGuard

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_MOST_QUOTED = 100
# std::regex and atoi know the ten ASCII digits only; twenty of them hold any 64-bit number.
# Patterns stay text: re compiles them at their first use, so that the import does not pay.
_DIGITS = "[0-9]{1,20}"


class UnusableError(Exception):
    """A value that a grammar refuses.

    Attributes:
        reason: What is wrong with it, as half a sentence; None for a wrong type.
        example: A right value; None for the grammar's own example.
    """

    def __init__(self, reason: Optional[str] = None, example: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.example = example


@dataclass(eq=False)
class Grammar:
    """The grammar of an option text, called with the text or a structured form of it.

    In ``Annotated[Union[str, int], dump_step]`` the union lists the types that may be written; the
    stored value is always the text.

    Attributes:
        read: The function, which raises UnusableError or ValueError. The reference shows its
            docstring up to ``Raises``.
        schema: JSON schema of what may be written.
        words: A description of the values, if the JSON schema is not enough.
        forms: What may be written, in words, for errors.
        example: A right value.
    """

    read: Callable[[Any], Any]
    schema: Mapping[str, Any]
    words: str = ""
    forms: str = ""
    example: Any = None

    def __call__(self, value: Any) -> Any:
        """Return the text for a value.

        Raises:
            ValueError: With one sentence, if the value is refused.
        """
        try:
            return self.read(value)
        except UnusableError as error:
            right = self.example if error.example is None else error.example
            if value == "":
                raise refused(value, error.reason or "it is empty", right, LEFT_OUT) from None
            if error.reason is None:
                raise wrong_type(value, self.forms, right) from None
            raise refused(value, error.reason, right) from None


def grammar(
    forms: str, example: Any, schema: Mapping[str, Any], words: str = ""
) -> Callable[[Callable[[Any], Any]], Grammar]:
    """Make a `Grammar` of the decorated function."""
    return lambda read: Grammar(read, schema, words, forms, example)


def list_of(items: Mapping[str, Any], **limits: int) -> Dict[str, Any]:
    """Return the JSON schema of a list."""
    return {"type": "array", "items": items, **limits}


def mapping_of(items: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the JSON schema of a mapping with any names."""
    return {"type": "object", "additionalProperties": items}


def text_or(*forms: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the JSON schema of a value that is text or of one of the ``forms``."""
    return {"anyOf": [TEXT, *forms]}


TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 1}


def show_value(value: object, write: Callable[[object], str] = repr) -> str:
    """Format a value as Python does; three dots for a number that is too long."""
    try:
        return write(value)
    except ValueError:
        return "..."


LEFT_OUT = "leave the option out, or "


def refused(given: object, reason: str, example: object, advice: str = "") -> ValueError:
    """Return the error for a value: the value, what is wrong with it, and an example."""
    quoted = show_value(given)
    if len(quoted) > _MOST_QUOTED:
        quoted = f"{quoted[:70]}...{quoted[-20:]}"
    return ValueError(f"{quoted} cannot be used: {reason}; {advice}write for example {example!r}.")


def wrong_type(given: object, forms: str, example: object) -> ValueError:
    """Return the error for a value of a wrong type."""
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
    """Return whether ``text`` contains white space."""
    return any(character.isspace() for character in text)


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is an int of bearable length; bool does not count."""
    return isinstance(value, int) and type(value) is not bool and value.bit_length() <= 4096


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether ``value`` is a sequence; text and bytes do not count."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
