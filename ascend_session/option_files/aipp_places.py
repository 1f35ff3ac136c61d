"""Where a field stands in an AIPP file, for messages: protobuf's parser does not tell."""

import re
from typing import Dict, List, Sequence, Tuple

from ascend_session.option_files.lines import BOM
from ascend_session.option_files.remarks import Place
from ascend_session.option_files.source import Source

__all__ = ["FieldPlaces", "plain"]

_COMMENT_OR_TEXT = re.compile(r"#[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_SLASHES = re.compile(r"(?m)^([ \t]*)//[^\n]*")
_FIELD = re.compile(r"\b([A-Za-z_]\w*)[ \t\r\n]*[:{<]")
_BLOCK = re.compile(r"\baipp_op\b")


def plain(text: str, fix: bool) -> str:
    """``text`` as protobuf gets it; bytes that are no UTF-8 are legal in its comments only.

    Args:
        text: The text of the file.
        fix: Whether a byte order mark and comments behind ``//`` are left out.
    """
    if fix:
        text = _SLASHES.sub(r"\1#", text[1:] if text.startswith(BOM) else text)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class FieldPlaces:
    """Finds fields in the text."""

    def __init__(self, source: Source, text: str) -> None:
        self._source = source
        # Of the same length, so that places stay what they are.
        self._text = _COMMENT_OR_TEXT.sub(lambda found: " " * len(found.group()), text)
        self._blocks: List[int] = [found.start() for found in _BLOCK.finditer(self._text)]

    def others(self, known: Sequence[str]) -> List[Tuple[str, Place]]:
        """Names of fields that are not among ``known``, each where it first stands."""
        found: Dict[str, Place] = {}
        for match in _FIELD.finditer(self._text):
            name = match.group(1)
            if name not in known and name not in found:
                found[name] = self._source.places.of(min(match.start(), len(self._source.text)))
        return list(found.items())

    def of(self, block: int, name: str) -> Place:
        """Line and column of the last ``name`` in a block counted from 0, or of the block."""
        if block >= len(self._blocks):
            return (1, 1)
        start = self._blocks[block]
        end = self._blocks[block + 1] if block + 1 < len(self._blocks) else len(self._text)
        found = list(re.finditer(rf"\b{name}\b", self._text[start:end]))
        at = start + (found[-1].start() if found else 0)
        return self._source.places.of(min(at, len(self._source.text)))
