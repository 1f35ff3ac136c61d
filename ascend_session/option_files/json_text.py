"""JSON as the vendor's C++ reads it, with the place of every value.

Source: hicann/ge reads its JSON files with nlohmann::json's stream operator: strict JSON, of two
equal keys the last one counts, a byte order mark is skipped, and what follows the first value is
never read.
"""

import json.decoder
import math
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ascend_session.option_files.remarks import FileFindings, LineAndColumn
from ascend_session.option_files.source import BOM, Source, is_writable, shortened, strange_bytes

__all__ = ["Member", "Node", "NotJsonError", "Reader", "kind_of"]

_DEEPEST = 64  # no file that is read here has more than five levels
_BLANKS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_WORDS = (("true", True), ("false", False), ("null", None))


class Node(NamedTuple):
    """A JSON value.

    Attributes:
        at: Where it begins in the text.
        value: Text, a number, True, False, None, a list of `Node`, or a tuple of `Member`.
    """

    at: int
    value: Any


class Member(NamedTuple):
    """A member of a JSON object; ``at`` is the place of its key."""

    key: str
    at: int
    node: Node


class NotJsonError(Exception):
    """What stands at ``at`` is no JSON."""

    def __init__(self, at: int, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.hint = hint


class Reader:
    """Reads one value.

    Args:
        source: The text.
        findings: Where to note what is refused and what is skipped.
        fix: Whether comments and commas in front of a closing bracket are taken.
    """

    def __init__(self, source: Source, findings: FileFindings, fix: bool) -> None:
        self._source = source
        self._text = source.text
        self._findings = findings
        self._fix = fix

    def place(self, at: int) -> LineAndColumn:
        """Line and column of a character."""
        return self._source.places.of(at)

    def value(self) -> Optional[Node]:
        """The value; None if the text is no JSON, which is noted."""
        try:
            return self.try_value()
        except NotJsonError as error:
            self._findings.refuse(self.place(error.at), error.message, error.hint)
            return None

    def try_value(self) -> Node:
        """The value.

        Raises:
            NotJsonError: If the text is no JSON.
        """
        at = self._blank(1 if self._text.startswith(BOM) else 0)
        if at == len(self._text):
            raise NotJsonError(0, "The file is empty.")
        node, end = self._node(at, 0)
        rest = self._blank(end)
        if rest < len(self._text):
            shown = shortened(self._text[rest : rest + 20], 20)
            self._findings.skip(
                self.place(rest), f"Behind the JSON value stands {shown!r}, which is never read."
            )
        return node

    def members(self, node: Node) -> Dict[str, Member]:
        """The members of an object; a key that occurs twice is noted, and the last one counts."""
        found: Dict[str, Member] = {}
        for member in node.value:
            if member.key in found:
                line = self.place(found[member.key].at)[0]
                self._findings.skip(
                    self.place(member.at),
                    f"The key {member.key!r} stands in line {line} already; only this one counts.",
                )
            found[member.key] = member
        return found

    def _node(self, at: int, depth: int) -> Tuple[Node, int]:
        text = self._text
        first = text[at : at + 1]
        if depth > _DEEPEST:
            raise NotJsonError(at, "This is nested more deeply than any such file.")
        if first == "{":
            members, end = self._object(at, depth)
            return Node(at, members), end
        if first == "[":
            items, end = self._array(at, depth)
            return Node(at, items), end
        if first == '"':
            said, end = self._string(at)
            return Node(at, said), end
        for word, value in _WORDS:
            if text.startswith(word, at):
                return Node(at, value), at + len(word)
        return self._number(at)

    def _object(self, at: int, depth: int) -> Tuple[Tuple[Member, ...], int]:
        members: List[Member] = []
        end = self._blank(at + 1)
        while not self._closed(end, "}", not members):
            if self._text[end : end + 1] != '"':
                raise self._unexpected(end, "a key in double quotes")
            start = end
            key, end = self._string(start)
            end = self._blank(end)
            if self._text[end : end + 1] != ":":
                raise self._unexpected(end, "':'")
            node, end = self._node(self._blank(end + 1), depth + 1)
            members.append(Member(key, start, node))
            end = self._next(end, "}")
        return tuple(members), end + 1

    def _array(self, at: int, depth: int) -> Tuple[List[Node], int]:
        items: List[Node] = []
        end = self._blank(at + 1)
        while not self._closed(end, "]", not items):
            node, end = self._node(end, depth + 1)
            items.append(node)
            end = self._next(end, "]")
        return items, end + 1

    def _closed(self, at: int, bracket: str, first: bool) -> bool:
        """Whether the object or array ends here, where a value may stand."""
        if self._text[at : at + 1] != bracket:
            return False
        comma = -1 if first or self._fix else self._text.rfind(",", 0, at)
        if comma >= 0 and not self._text[comma + 1 : at].strip():
            raise NotJsonError(comma, f"A comma must not stand in front of {bracket!r} in JSON.")
        return True

    def _next(self, at: int, bracket: str) -> int:
        """Behind a value: the closing bracket, or what follows the comma."""
        end = self._blank(at)
        if self._text[end : end + 1] == ",":
            return self._blank(end + 1)
        if self._text[end : end + 1] != bracket:
            raise self._unexpected(end, f"',' or {bracket!r}")
        return end

    def _string(self, at: int) -> Tuple[str, int]:
        try:
            said, end = json.decoder.scanstring(self._text, at + 1, True)  # type: ignore[attr-defined]
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                raise NotJsonError(at, "The file ends in the middle of this text.") from None
            raise NotJsonError(error.pos, f"This is not JSON: {error.msg}.") from None
        strange = strange_bytes(self._text[at:end])
        if strange is not None:
            raise NotJsonError(at + strange, "This is not UTF-8 text.", "Save the file as UTF-8.")
        if not is_writable(said, strict=True):
            raise NotJsonError(at, "This text has half a surrogate pair (\\uD8xx) in it.")
        return said, end

    def _number(self, at: int) -> Tuple[Node, int]:
        found = _NUMBER.match(self._text, at)
        if found is None or self._text[found.end() : found.end() + 1] in (".", "e", "E"):
            raise self._unexpected(at, "a value")
        value = float(found.group())
        if math.isinf(value):
            raise NotJsonError(at, "This number is too large.")
        return Node(at, value), found.end()

    def _blank(self, at: int) -> int:
        """Behind the blanks that begin at ``at``, and comments if they are taken."""
        while True:
            found = _BLANKS.match(self._text, at)
            at = at if found is None else found.end()
            comment = _COMMENT.match(self._text, at) if self._fix else None
            if comment is None:
                return at
            at = comment.end()

    def _unexpected(self, at: int, wanted: str) -> NotJsonError:
        rest = self._text[at : at + 20]
        if not rest:
            return NotJsonError(at, f"The file ends where {wanted} is needed.")
        if rest.startswith(("//", "/*", "#")):
            return NotJsonError(
                at,
                "This is a comment, and JSON has none: the whole file is refused. The samples in "
                "the manuals have comments for the reader only.",
                "Take the comments out, as fixed() and `config check-file --fix` do.",
            )
        return NotJsonError(at, f"This is not JSON: {wanted} is needed, not {shortened(rest)!r}.")


def kind_of(node: Node) -> str:
    """What a value is, in words."""
    if node.value is None:
        return "null"
    return _KINDS.get(type(node.value), "a number")


_KINDS = {tuple: "an object", list: "an array", str: "text", bool: "true or false"}
