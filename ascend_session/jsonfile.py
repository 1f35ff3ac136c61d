"""Parse JSON as the vendor's programs do, with the place of each value and error.

GE and HCCL read JSON with nlohmann::json's stream operator: strict JSON, the last of two equal keys
counts, a byte order mark is skipped, and text after the first value is never read.
Source: hicann/ge, its config parsers; HCOMM, TopoInfoRanktableParser::ReadFile.
"""

import contextlib
import json
import json.decoder
import math
import re
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ascend_session.text import find_stray_byte, is_writable, shorten

BOM = "\ufeff"
_DEEPEST = 64  # no file that is read here has more than a few levels
_LONGEST_INT = 20  # digits; Python is slow with longer ones, and refuses thousands
_BLANKS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WORDS = (("true", True), ("false", False), ("null", None))


class Node(NamedTuple):
    """A JSON value.

    Attributes:
        at: Index of its first character in the text.
        value: Text, a number, True, False, None, a list of `Node`, or a tuple of `JsonMember`.
    """

    at: int
    value: Any

    @property
    def kind(self) -> str:
        """The JSON type of the value, with its article."""
        return _KINDS.get(type(self.value), "a number")

    @property
    def plain(self) -> Any:
        """The value as `json.loads` returns it; the last of two equal keys counts."""
        if isinstance(self.value, tuple):
            return {member.key: member.node.plain for member in self.value}
        if isinstance(self.value, list):
            return [node.plain for node in self.value]
        return self.value


class JsonMember(NamedTuple):
    """A member of a JSON object; ``at`` is where its key begins."""

    key: str
    at: int
    node: Node


_KINDS = {
    tuple: "an object",
    list: "an array",
    str: "text",
    bool: "true or false",
    type(None): "null",
}


class JsonError(ValueError):
    """The text is not JSON.

    Attributes:
        at: Index of the error in the text.
        reason: The error, as a sentence without capital and full stop.
        hint: What to do about it; None if the reason says enough.
        is_comment: True if a comment stands there.
        is_cut_off: True if the text ends before its value does.
    """

    def __init__(
        self,
        at: int,
        reason: str,
        hint: Optional[str] = None,
        *,
        is_comment: bool = False,
        is_cut_off: bool = False,
    ) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.hint = hint
        self.is_comment = is_comment
        self.is_cut_off = is_cut_off


def parse_json(text: str) -> Tuple[Node, int]:
    """Read the first JSON value of a text, with the place of every value in it.

    Args:
        text: The text; bytes that are not UTF-8 as ``surrogateescape`` decodes them.

    Returns:
        The value, and the index of the next token after it (or the text's length).

    Raises:
        JsonError: If the text is not JSON.
    """
    return _Parser(text).parse()


def load_json(text: str) -> Tuple[Any, int, List[Tuple[str, str]]]:
    """Read the first JSON value of a text as Python's own types; fast enough for megabytes.

    Returns:
        The value, the index of the next token after it, and duplicate keys with the path of their
        object: ``("server_list[0]", "device")``.

    Raises:
        JsonError: If the text is not JSON.
    """

    def build_object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a key occurs twice")
        return members

    def parse_int(digits: str) -> Any:
        return int(digits) if len(digits) <= _LONGEST_INT else parse_float(digits)

    def parse_float(digits: str) -> float:
        if math.isinf(float(digits)):
            raise ValueError
        return float(digits)

    def refuse_constant(word: str) -> float:
        raise ValueError(f"{word} is not a JSON value")

    decoder = json.JSONDecoder(
        object_pairs_hook=build_object,
        parse_int=parse_int,
        parse_float=parse_float,
        parse_constant=refuse_constant,
    )
    start = 1 if text.startswith(BOM) else 0
    if _SURROGATE.search(text) is None:
        with contextlib.suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, _BLANKS.match(text, start).end())  # type: ignore[union-attr]
            return value, _BLANKS.match(text, end).end(), []  # type: ignore[union-attr]
    node, end = parse_json(text)  # slow, but knows where the error or the duplicate key is
    return node.plain, end, list(_find_repeated(node, ""))


def _find_repeated(node: Node, path: str) -> Iterator[Tuple[str, str]]:
    if isinstance(node.value, list):
        for index, item in enumerate(node.value):
            yield from _find_repeated(item, f"{path}[{index}]")
    elif isinstance(node.value, tuple):
        counts = Counter(member.key for member in node.value)
        yield from ((path, key) for key, count in counts.items() if count > 1)
        for member in node.value:
            yield from _find_repeated(member.node, f"{path}.{member.key}" if path else member.key)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def parse(self) -> Tuple[Node, int]:
        start = self._skip_blanks(1 if self._text.startswith(BOM) else 0)
        if start == len(self._text):
            raise JsonError(0, "the file is empty", is_cut_off=True)
        node, end = self._node(start, 0)
        return node, self._skip_blanks(end)

    def _node(self, at: int, depth: int) -> Tuple[Node, int]:
        if depth > _DEEPEST:
            raise JsonError(at, "this is nested too deeply")
        first = self._text[at : at + 1]
        if first == "{":
            members, end = self._items(at, "}", lambda start: self._member(start, depth + 1))
            return Node(at, tuple(members)), end
        if first == "[":
            nodes, end = self._items(at, "]", lambda start: self._node(start, depth + 1))
            return Node(at, nodes), end
        if first == '"':
            text, end = self._string(at)
            return Node(at, text), end
        for word, value in _WORDS:
            if self._text.startswith(word, at):
                return Node(at, value), at + len(word)
        return self._number(at)

    def _items(
        self, at: int, closing: str, read: Callable[[int], Tuple[Any, int]]
    ) -> Tuple[List[Any], int]:
        """Read the items of the object or array whose opening bracket is at ``at``."""
        items: List[Any] = []
        at = self._skip_blanks(at + 1)
        while self._text[at : at + 1] != closing:
            item, end = read(at)
            items.append(item)
            at = self._skip_blanks(end)
            if self._text[at : at + 1] == ",":
                comma, at = at, self._skip_blanks(at + 1)
                if self._text[at : at + 1] == closing:
                    raise JsonError(comma, f"trailing comma before {closing!r}")
            elif self._text[at : at + 1] != closing:
                raise self._unexpected(at, f"',' or {closing!r}")
        return items, at + 1

    def _member(self, at: int, depth: int) -> Tuple[JsonMember, int]:
        if self._text[at : at + 1] != '"':
            raise self._unexpected(at, "a key in double quotes")
        key, end = self._string(at)
        colon = self._skip_blanks(end)
        if self._text[colon : colon + 1] != ":":
            raise self._unexpected(colon, "':'")
        node, end = self._node(self._skip_blanks(colon + 1), depth)
        return JsonMember(key, at, node), end

    def _string(self, at: int) -> Tuple[str, int]:
        try:
            text, end = json.decoder.scanstring(self._text, at + 1, True)  # type: ignore[attr-defined]
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                reason = "the file ends inside this text"
                raise JsonError(at, reason, is_cut_off=True) from None
            raise JsonError(error.pos, f"this is not JSON: {error.msg}") from None
        stray = find_stray_byte(self._text[at:end])
        if stray is not None:
            raise JsonError(at + stray, "this is not UTF-8 text", "Save the file as UTF-8.")
        if not is_writable(text, strict=True):
            raise JsonError(at, "this text has half a surrogate pair (\\uD8xx) in it")
        return text, end

    def _number(self, at: int) -> Tuple[Node, int]:
        match = _NUMBER.match(self._text, at)
        if match is None or self._text[match.end() : match.end() + 1] in (".", "e", "E"):
            raise self._unexpected(at, "a value")
        digits, fraction, exponent = match.group(), match.group(1), match.group(2)
        if fraction is None and exponent is None and len(digits) <= _LONGEST_INT:
            return Node(at, int(digits)), match.end()
        if math.isinf(float(digits)):
            raise JsonError(at, "this number is too large")
        return Node(at, float(digits)), match.end()

    def _skip_blanks(self, at: int) -> int:
        return _BLANKS.match(self._text, at).end()  # type: ignore[union-attr]

    def _unexpected(self, at: int, needed: str) -> JsonError:
        rest = self._text[at : at + 20]
        if not rest:
            return JsonError(at, f"the file ends where {needed} is needed", is_cut_off=True)
        if rest.startswith(("//", "/*", "#")):
            return JsonError(at, "this is a comment, and JSON has none", is_comment=True)
        return JsonError(at, f"this is not JSON: {needed} is needed, not {shorten(rest)!r}")
