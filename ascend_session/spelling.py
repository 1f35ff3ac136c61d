"""Placeholders for options in messages, spelt as the reader writes options.

A function that makes a message cannot know whether ``stall_timeout`` was given in Python, as
``--stall-timeout`` in a shell, or in a file. So it names the option by `option`, in an f-string::

    raise JobError(f"{option('stall_timeout', 5)} is too short.", hint=f"Give {option('grace')}.")

Errors and findings make a `Message` of that. As a string it is spelt as in Python; whoever shows it
elsewhere gives `spell` another spelling.
"""

import re
from typing import Any, Callable, Optional, Tuple

Spelling = Callable[[str, Optional[str]], str]
"""Spells an option, given its name, and its value as in Python or None."""

# Two control characters, shift out and shift in. No sentence of this package has them, and `repr`,
# which formats users' values for messages, escapes them.
_START, _END = "\x0e", "\x0f"
_PLACEHOLDER = re.compile(f"{_START}([^{_END}=]*)(?:=([^{_END}]*))?{_END}")

# A third one, the unit separator, stands between the Python spelling and that of a file.
_OR = "\x1f"
_CODE = re.compile(f"{_START}([^{_END}{_OR}]*){_OR}([^{_END}]*){_END}")

_IN_FILES = {"True": "true", "False": "false", "None": "null"}


def option(name: str, *value: Any, write: Callable[[Any], str] = repr) -> str:
    """Return the placeholder of an option, alone or with a value formatted by ``write``."""
    written = "".join(f"={write(each)}" for each in value)
    return f"{_START}{name}{written}{_END}"


def code(python: str, file: str) -> str:
    """Return the placeholder of a text that differs between Python and files."""
    return f"{_START}{python}{_OR}{file}{_END}"


class Message(str):
    """A text with placeholders; as a string it spells options as in Python.

    Attributes:
        template: The text with its placeholders.
    """

    template: str

    def __new__(cls, text: str) -> "Message":
        """Replace the placeholders of a text or message."""
        template = template_of(text)
        message = super().__new__(cls, spell(template, _spell_in_python))
        message.template = template
        return message

    def __reduce__(self) -> Tuple[Any, ...]:
        return Message, (self.template,)


def as_message(text: str) -> str:
    """Return a `Message` for a text with placeholders, any other text unchanged."""
    return Message(text) if _START in text else text


def template_of(text: str) -> str:
    """Return a text with its placeholders, to be put into another message."""
    return text.template if isinstance(text, Message) else text


def spell(text: str, spelling: Spelling) -> str:
    """Spell the options in a text with ``spelling``, and code as in Python."""
    text = _CODE.sub(lambda match: match[1], template_of(text))
    return _PLACEHOLDER.sub(lambda match: spelling(match[1], match[2]), text)


def spell_in_file(text: str) -> str:
    """Spell the options and code in a text as in a YAML or JSON file."""
    return spell(_CODE.sub(lambda match: match[2], template_of(text)), write_in_file)


def write_in_file(name: str, value: Optional[str] = None) -> str:
    """Write an option as a file does; most values look as in Python."""
    return name if value is None else f"{name}: {_IN_FILES.get(value, value)}"


def _spell_in_python(name: str, value: Optional[str]) -> str:
    return name if value is None else f"{name}={value}"
