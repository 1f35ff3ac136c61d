"""Grammars of single values: sizes and paths.

Source: guides/facts/options.md.
"""

import os
from typing import TYPE_CHECKING, Union

from typing_extensions import Annotated

from ascend_session.config.grammars.grammar import (
    COUNT,
    TEXT,
    Grammar,
    UnusableError,
    grammar,
    is_whole,
    parse_whole,
    wrong_type,
)

if TYPE_CHECKING:
    PathLike = os.PathLike[str]
else:
    PathLike = os.PathLike  # Python 3.7 has no os.PathLike[str]

_MOST_BYTES = 2**64 - 1


@grammar("a number of bytes, as an int or as decimal text", 2**30)
def memory_size(value: object) -> str:
    """A size in bytes, above 0: an int or decimal text."""
    text = str(value) if is_whole(value) else value
    if not isinstance(text, str):
        raise UnusableError
    if parse_whole(text, 1, _MOST_BYTES) is None:
        raise UnusableError("a number of bytes above 0 is needed, in digits only", str(2**30))
    return text


MemorySize = Annotated[
    Union[str, int],
    Grammar(memory_size, {"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, COUNT]}),
]


@grammar("text, os.PathLike", "dump/step0")
def path_text(value: object) -> str:
    """A path as text: str or any os.PathLike.

    Raises:
        ValueError: For an empty path, one with a NUL character or a name that is not UTF-8 text
            (the adapter gets its options as UTF-8), and bytes.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise wrong_type(path, "text, os.PathLike", "dump/step0")
    if not path:
        raise UnusableError("it is empty (leave the option out to use the default)")
    if "\0" in path:
        raise UnusableError("a path has no NUL character in it")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise UnusableError("it is not UTF-8 text (half a surrogate pair)") from None
    return path


PathText = Annotated[Union[str, PathLike], Grammar(path_text, TEXT, "path")]
