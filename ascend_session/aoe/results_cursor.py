"""Goes through a JSON text level by level, and leaves the values below to the C code of `json`.

So the tasks of a file that ends in the middle are known up to there, every value has a place, and
of a large file no more than one operator at a time is a tree of dictionaries.
"""

import json
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple, Union

from ascend_session.option_files.lines import BOM
from ascend_session.option_files.remarks import Remark

__all__ = ["Cursor", "DamageError", "Notes", "place_of", "word_for"]

_BLANKS = re.compile(r"[ \t\r\n]*")
_MOST = 1000  # doubts of a file that are kept
_MOST_WALKED = 1_000_000  # letters that are gone through for their places; then they are rougher
_SHOWN = 100  # letters of a name in a sentence
_DIGITS = 300  # of a whole number; longer ones Python 3.11 refuses to convert
_ENDS = "The file ends here, in the middle."
_LONGEST = 20  # letters that are looked at where a value is none
# What may stand at the end of a file that ends in the middle of a number, or of a word.
_HALF_NUMBERS = ("", ".", "e", "e+", "e-", "E", "E+", "E-")
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")


class DamageError(Exception):
    """Here the text is no JSON any more.

    Attributes:
        at: The place, counted in letters from 0.
        message: What is wrong.
        is_end: Whether the text just ends too early.
    """

    def __init__(self, at: int, message: str, is_end: bool) -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.is_end = is_end


class _Note(NamedTuple):
    at: int
    message: str


class Notes:
    """Collects what there is to say of a text, and finds lines and columns for it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._damage: List[_Note] = []
        self._doubts: List[_Note] = []
        self._more = 0
        self._walked = 0
        self._counted = (0, 1)
        self._known: Dict[int, Dict[str, int]] = {}

    def know(self, at: int, key: str, place: int) -> None:
        """Keeps the place of a member of a large object, which is not gone through again."""
        self._known.setdefault(at, {})[key] = place

    def line_of(self, at: int) -> int:
        """The line of a place, from 1; quick if asked in the order of the text."""
        seen, line = self._counted if self._counted[0] <= at else (0, 1)
        self._counted = at, line + self._text.count("\n", seen, at)
        return self._counted[1]

    def damage(self, at: int, message: str) -> None:
        """Notes what is lost."""
        self._damage.append(_Note(at, message))

    def doubt(self, at: int, path: Sequence[Union[str, int]], message: str) -> None:
        """Notes what cannot be; ``path`` leads from the value at ``at`` to what is meant."""
        if len(self._doubts) >= _MOST:
            self._more += 1
            return
        members = self._known.get(at)
        if members is not None and path:
            known = str(path[0])
            at, path = (members[known], path[1:]) if known in members else (at, ())
        self._doubts.append(_Note(self._place(at, path), message))

    def _place(self, at: int, path: Sequence[Union[str, int]]) -> int:
        if not path or self._walked > _MOST_WALKED:
            return at
        place, walked = place_of(self._text, at, path)
        self._walked += walked
        return place

    def repeated(self, at: int, key: str, both: bool = False) -> None:
        """Notes that an object at ``at`` has a key twice, of which ``both`` or the last counts."""
        counted = "both count" if both else "only the last one counts"
        self.doubt(at, (), f"The key {word_for(key)} stands twice in one object; {counted}.")

    def remarks(self) -> Tuple[Tuple[Remark, ...], Tuple[Remark, ...]]:
        """Damage and doubts, in the order of the text."""
        doubts = self._placed(self._doubts)
        if self._more:
            last = doubts[-1]
            doubts += (last._replace(message=f"There is more to doubt, {self._more:,} times."),)
        return self._placed(self._damage), doubts

    def _placed(self, notes: List[_Note]) -> Tuple[Remark, ...]:
        placed: List[Remark] = []
        line, column, seen = 1, 1, 0
        for at, message in sorted(notes):
            line += self._text.count("\n", seen, at)
            start = self._text.rfind("\n", seen, at)
            column = column + at - seen if start < 0 else at - start
            seen = at
            placed.append(Remark(line, column, message))
        return tuple(placed)


class Cursor:
    """A place in a JSON text.

    Attributes:
        text: The text.
        at: The place, counted in letters.
    """

    def __init__(self, text: str, notes: Notes, at: int = 0) -> None:
        self.text = text
        self.at = at + (at == 0 and text.startswith(BOM))
        self._notes = notes
        self._repeated: List[str] = []
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object, parse_int=_whole)

    def ahead(self) -> str:
        """The next letter that is no blank; empty at the end."""
        found = _BLANKS.match(self.text, self.at)
        self.at = self.at if found is None else found.end()
        return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        """The value that begins here, whose end is gone to.

        Raises:
            DamageError: If there is none.
        """
        start, self._repeated = self.at, []
        try:
            value, self.at = self._decoder.raw_decode(self.text, start)
        except RecursionError:
            raise DamageError(start, "This is nested too deeply.", False) from None
        except json.JSONDecodeError as error:
            raise self._no_value(error) from None
        for key in self._repeated:
            self._notes.repeated(start, key)
        return value

    def members(self, inside: bool = False) -> Iterator[Tuple[str, int]]:
        """Each key of the object that begins here, and its place; its value is what comes next.

        Whoever asks goes to the end of the value before the next key.

        Args:
            inside: Whether to begin with a key, in the middle of an object.

        Raises:
            DamageError: If it is no object.
        """
        if not inside:
            self._take("{")
            if self.ahead() == "}":
                self.at += 1
                return
        while True:
            if self.ahead() != '"':
                raise self._needed("a key in double quotes")
            start = self.at
            key = self.value()
            self._take(":")
            self.ahead()
            yield key, start
            if self.ahead() != ",":
                break
            self.at += 1
        self._take("}", "',' or '}'")

    def items(self) -> Iterator[int]:
        """The number of each item of the array that begins here; as `members`."""
        self._take("[")
        number = 0
        if self.ahead() == "]":
            self.at += 1
            return
        while True:
            self.ahead()
            yield number
            number += 1
            if self.ahead() != ",":
                break
            self.at += 1
        self._take("]", "',' or ']'")

    def _take(self, letter: str, wanted: str = "") -> None:
        if self.ahead() != letter:
            raise self._needed(wanted or repr(letter))
        self.at += 1

    def _needed(self, wanted: str) -> DamageError:
        if self.text[self.at : self.at + _LONGEST] in _HALF_NUMBERS:
            return DamageError(self.at, _ENDS, True)
        return DamageError(
            self.at, f"This is not JSON: {wanted} is needed, not {self._seen()}.", False
        )

    def _no_value(self, error: json.JSONDecodeError) -> DamageError:
        rest = self.text[error.pos : error.pos + _LONGEST]
        begun = rest in _HALF_NUMBERS or any(word.startswith(rest) for word in _WORDS)
        half = error.msg.startswith("Invalid \\u") and len(rest) < len("\\uXXXX")
        if begun or half or error.msg.startswith("Unterminated"):
            return DamageError(error.pos, _ENDS, True)
        self.at = error.pos
        rule = f"{error.msg[:1].lower()}{error.msg[1:]}"
        return DamageError(error.pos, f"This is not JSON: {rule}, not {self._seen()}.", False)

    def _seen(self) -> str:
        """What stands here, in a sentence."""
        return repr(self.text[self.at : self.at + _LONGEST])

    def _object(self, pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen: Set[str] = set()
            twice = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
            self._repeated += dict.fromkeys(twice)
        return made


def place_of(text: str, at: int, path: Sequence[Union[str, int]]) -> Tuple[int, int]:
    """The place of a value inside the one that begins at ``at``, and how far one goes to find it.

    What begins at ``at`` must be whole.

    Args:
        text: The JSON text.
        at: Where to begin.
        path: Keys and numbers of items; where it ends in nothing, the last value on it is meant.
    """
    walked = 0
    for step in path:
        begin = at
        cursor = Cursor(text, Notes(text), at)
        keys: Iterator[Union[str, int]]
        kind = cursor.ahead()
        if kind == "[":
            keys = cursor.items()
        elif kind == "{":
            keys = (name for name, _ in cursor.members())
        else:
            break
        for key in keys:
            if key == step:
                at = cursor.at
            cursor.value()
        walked += cursor.at - begin
    return at, walked


def word_for(value: Any) -> str:
    """A value in a sentence: not longer than a line, and with nothing that controls a terminal."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    said = value if isinstance(value, str) else json.dumps(value)
    if len(said) > _SHOWN:
        said = f"{said[:_SHOWN]}..."
    return repr(said) if isinstance(value, str) else said


def _whole(digits: str) -> Union[int, float]:
    return int(digits) if len(digits) < _DIGITS else float(digits)
