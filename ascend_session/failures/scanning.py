"""How the known failures are found in a text: block by block, each in one pass for each kind."""

import re
from functools import lru_cache
from typing import Dict, Iterable, Iterator, List, NamedTuple, Pattern, Set, Tuple

from ascend_session.failures.contexts import is_return_code
from ascend_session.failures.definition import Code, Definition, Failure, Message, Position
from ascend_session.failures.rows import ROWS
from ascend_session.text import blanked

__all__ = ["LINE_LENGTH", "classify", "classify_lines"]

LINE_LENGTH = 240  # characters of a line that a Failure keeps
_LEAD = 80  # of these, before the code, if the line has to be cut
_NEAR = 400  # characters before a common wording in which the word it needs must stand
_BLOCK = 1 << 16  # characters that are looked at together

# In a printed exception a line begins with the two characters \n.
_STANDS_ALONE = r"(?:(?<![0-9A-Za-z_/-]E)|(?<=\\[nrt]E))"
_CODE = rf"E{_STANDS_ALONE}(?:[A-Z][0-9]{{4}}|[0-9]{{5}})(?![0-9A-Za-z_-]|\.[a-z])"
_NUMBER = r"[125](?<![0-9A-Za-z_.-][125])0[07][0-9]{3}(?![0-9A-Za-z_]|[.-][0-9])"
_CODES = re.compile(f"{_CODE}|{_NUMBER}")
_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\))")


class _Hit(NamedTuple):
    """Something known at a place in a block."""

    start: int
    code: str
    definition: Definition
    by_words: bool


class _Wording(NamedTuple):
    """A message in the form that the search needs."""

    message: Message
    pattern: Pattern[str]
    definition: Definition


def classify(text: str) -> List[Failure]:
    """Finds the known failures in a text: an exception's message, a log, the end of one.

    Letter codes (``EJ0001``) count wherever they stand alone, which excludes longer names and
    file names; numbers count only where they are printed as return codes, see
    ``failures.contexts``. Colour sequences are ignored. The time needed grows in step with the
    text, the memory does not.

    Args:
        text: Any text of any size.

    Returns:
        Each failure once, in order of appearance; empty if none is known.
    """
    return list(classify_lines(_blocks(text)))


def classify_lines(lines: Iterable[str]) -> Iterator[Failure]:
    """Finds the known failures in lines as they come, as ``classify`` does in a whole text.

    Args:
        lines: Lines with or without their line ends: an open file, a queue, a list.

    Yields:
        Each failure once, as soon as its line was read.
    """
    first = 1
    codes: Set[str] = set()
    rows: Set[int] = set()
    for line in lines:
        block = _COLOUR.sub("", line) if "\x1b" in line else line
        for hit in _hits(block, codes):
            # The wording that goes with a code adds nothing to it.
            if hit.code in codes or (hit.by_words and id(hit.definition) in rows):
                continue
            codes.add(hit.code)
            if not hit.by_words:
                rows.add(id(hit.definition))
            yield _failure(block, hit, first)
        first += block.count("\n") + (not block.endswith("\n"))


def _hits(block: str, known: Set[str]) -> List[_Hit]:
    """What stands in the block for the first time, in order; not what is in ``known``."""
    hits: List[_Hit] = []
    for wording in _wordings():
        if wording.message.words in block and wording.message.name not in known:
            hits += _places(block, wording)
    hits += _codes(block, known)
    return sorted(hits, key=lambda hit: hit.start)


def _codes(block: str, known: Set[str]) -> Iterator[_Hit]:
    """Where each code stands first in the block."""
    table = _definitions()
    seen = set(known)
    for match in _CODES.finditer(block):
        name, start = match.group(), match.start()
        if name in seen or name not in table:
            continue
        if name.startswith("E") or is_return_code(block, start, match.end()):
            seen.add(name)
            yield _Hit(start, name, table[name], False)


def _places(block: str, wording: _Wording) -> Iterator[_Hit]:
    """Where the wording stands first in the block, next to the word it needs; at most once."""
    for match in wording.pattern.finditer(block):
        start = match.start()
        before = block[max(0, start - _NEAR) : start]
        if wording.message.near in before[before.rfind("\n") + 1 :]:
            yield _Hit(start, wording.message.name, wording.definition, True)
            return


def _failure(block: str, hit: _Hit, first: int) -> Failure:
    """The failure at a place of a block whose first line has the number ``first``."""
    begin = block.rfind("\n", 0, hit.start) + 1
    end = block.find("\n", hit.start)
    line = block[begin : len(block) if end < 0 else end]
    position = Position(first + block.count("\n", 0, begin), hit.start - begin + 1)
    return Failure(hit.code, _excerpt(line, position.column), position, hit.definition)


def _excerpt(line: str, column: int) -> str:
    """The line, or the part of it around ``column``, without control characters."""
    part = line.strip()
    if len(part) > LINE_LENGTH:
        begin = max(0, column - _LEAD)
        part = line[begin : begin + LINE_LENGTH]
    return blanked(part).strip()


def _blocks(text: str) -> Iterator[str]:
    """The text in parts that end with a line, so that it is never copied as a whole."""
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin + _BLOCK) + 1
        yield text[begin : end or len(text)]
        begin = end or len(text)


@lru_cache(maxsize=1)
def _definitions() -> Dict[str, Definition]:
    pairs: Iterator[Tuple[Code, Definition]] = ((code, row) for row in ROWS for code in row.codes)
    return {code.name: row for code, row in pairs}


@lru_cache(maxsize=1)
def _wordings() -> List[_Wording]:
    return [
        _Wording(message, re.compile(message.pattern or re.escape(message.words)), row)
        for row in ROWS
        for message in row.messages
    ]
