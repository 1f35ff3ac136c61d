"""A file as the vendor's C++ reads it, and the findings about it.

GE compares bytes, so bytes that are not UTF-8 are kept (``surrogateescape``). Source: hicann/ge,
common/string_utils.h (Trim strips the characters of isspace), and C++'s getline, for which only a
line feed ends a line.
"""

from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, WARNING, Finding, Place, TextPlaces
from ascend_session.jsonfile import JsonError, JsonMember, Node, parse_json
from ascend_session.text import is_writable, join_words, shorten

_BLANKS = " \t\n\v\f\r"
_FOREIGN_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x1f\x8b", "compressed"))
_MOST_KEPT = 1000  # errors, and as many warnings
_MOST_RAISED = 20  # errors that a ConfigError lists

Hint = Union[None, str, Callable[[], str]]


def detect_foreign_encoding(content: bytes) -> Optional[str]:
    """Return ``UTF-16`` or ``compressed`` if the first bytes show that; else None."""
    return next((name for mark, name in _FOREIGN_MARKS if content.startswith(mark)), None)


def encode(text: str) -> bytes:
    """Encode a text that `SourceFile` decoded."""
    return text.encode("utf-8", "surrogateescape")


def trim(text: str) -> str:
    """Strip the six ASCII blanks from both ends."""
    return text.strip(_BLANKS)


def split_lines(text: str) -> Iterator[str]:
    """Yield the lines with carriage returns but without line feeds; no empty last line."""
    start = 0
    end = text.find("\n")
    while end >= 0:
        yield text[start:end]
        start = end + 1
        end = text.find("\n", start)
    if start < len(text):
        yield text[start:]


class SourceFile:
    """The text of a file, and the findings about it.

    The first thousand errors and warnings are kept; further ones are only counted.

    Attributes:
        name: The name for messages: its path, as given.
        text: The text; bytes that are not UTF-8 as ``surrogateescape`` decodes them.
        encoding: ``UTF-16`` or ``compressed`` if it is not UTF-8 text, else None.
    """

    def __init__(self, name: str, content: Union[str, bytes]) -> None:
        if isinstance(content, str):  # half a surrogate pair becomes three bytes that are not UTF-8
            errors = "surrogateescape" if is_writable(content) else "surrogatepass"
            content = content.encode("utf-8", errors)
        self.name = name
        self.text = content.decode("utf-8", "surrogateescape")
        self.encoding = detect_foreign_encoding(content)
        self._places = TextPlaces(self.text)
        self._errors: List[Finding] = []
        self._warnings: List[Finding] = []
        self._hidden_errors = 0
        self._hidden_warnings = 0
        self._first_hidden = Place(1, 1)

    @property
    def is_hopeless(self) -> bool:
        """True if there are too many errors to read on."""
        return len(self._errors) >= _MOST_KEPT

    def place(self, at: int) -> Place:
        """Return line and column of the character at index ``at``."""
        return self._places.locate(at)

    def lines(self) -> Iterator[Tuple[Place, str]]:
        """Yield the place and the text of each line."""
        for number, line in enumerate(split_lines(self.text), 1):
            yield Place(number, 1), line

    def refuse(self, where: Union[int, Place], message: str, hint: Optional[str] = None) -> None:
        """Add an error: the vendor's reader refuses the file.

        Args:
            where: A place, or an index of the text.
            message: What is wrong there.
            hint: What to do about it.
        """
        if self.is_hopeless:
            self._hidden_errors += 1
            return
        place = self.place(where) if isinstance(where, int) else where
        self._errors.append(Finding(ERROR, message, hint, place=place))

    def skip(self, where: Union[int, Place], message: str, hint: Hint = None) -> None:
        """Add a warning: the vendor's reader silently skips or changes content.

        Args:
            where: A place, or an index of the text.
            message: What the reader makes of the content there.
            hint: What to write instead, or a slow function that returns it.
        """
        place = self.place(where) if isinstance(where, int) else where
        if len(self._warnings) < _MOST_KEPT:
            advice = hint() if callable(hint) else hint
            self._warnings.append(Finding(WARNING, message, advice, place=place))
            return
        if not self._hidden_warnings:
            self._first_hidden = place
        self._hidden_warnings += 1

    def parse_json(self) -> Optional[Node]:
        """Parse the text as JSON; add an error and return None if it is not JSON."""
        try:
            return self.try_json()
        except JsonError as error:
            self.refuse_json(error)
            return None

    def try_json(self) -> Node:
        """Parse the text as JSON; add a warning if more text follows the value.

        Raises:
            JsonError: If the text is not JSON.
        """
        node, rest = parse_json(self.text)
        if rest < len(self.text):
            rest_text = shorten(self.text[rest : rest + 20], 20)
            self.skip(rest, f"The JSON value is followed by {rest_text!r}, which is never read.")
        return node

    def refuse_json(self, error: JsonError) -> None:
        """Add the error of a text that is not JSON."""
        if error.is_comment:
            self.refuse(
                error.at,
                "JSON has no comments, so GE refuses the whole file. Those in the samples of the "
                "manuals are for the reader only.",
                "Remove the comments.",
            )
        else:
            reason = f"{error.reason[0].upper()}{error.reason[1:]}."
            self.refuse(error.at, reason, error.hint)

    def list_members(
        self, node: Node, name: str, allowed: Sequence[str] = (), trims: bool = False
    ) -> List[JsonMember]:
        """List the members of an object; add a warning if a key occurs twice: the last counts.

        Args:
            node: The object; any other value is refused.
            name: The name for messages; empty for the top level.
            allowed: The allowed keys; others are refused. Empty allows any key.
            trims: Whether a known key may have blanks at its ends.
        """
        if not isinstance(node.value, tuple):
            self.refuse(node.at, f"{name or 'The top level'} is an object, not {node.kind}.")
            return []
        members: Dict[str, JsonMember] = {}
        for member in node.value:
            if member.key in members:
                line = self.place(members[member.key].at).line
                self.skip(
                    member.at,
                    f"The key {member.key!r} is also in line {line}; only this one counts.",
                )
            members[member.key] = member
        for key in list(members) if allowed else ():
            if (trim(key) if trims else key) in allowed:
                continue
            where = f"below {name}" if name else "here"
            message = f"GE knows no key {key!r} {where}."
            self.refuse(members.pop(key).at, message, f"The keys are {join_words(allowed)}.")
        return list(members.values())

    def list_texts(self, node: Node, name: str, kind: str) -> List[Node]:
        """List the items of an array of texts; other items are refused.

        Args:
            node: The array; any other value is refused.
            name: The name for messages.
            kind: Description of an item, with its article, to begin a sentence.
        """
        if not isinstance(node.value, list):
            self.refuse(node.at, f"{name} is an array, not {node.kind}.")
            return []
        texts = []
        for item in node.value:
            if isinstance(item.value, str):
                texts.append(item)
            else:
                self.refuse(item.at, f"{kind} is text, not {item.kind}.")
        return texts

    def note_encoding(self, what: str, reader: str) -> None:
        """If the file is not UTF-8 text, make that its only finding.

        Args:
            what: Description of such a file, with its article.
            reader: Name of the vendor's program that reads it.
        """
        if self.encoding is None:
            return
        message = (
            f"This is {self.encoding}, not UTF-8 text; {reader} reads {what} as bytes, and finds "
            "nothing that it knows."
        )
        hint = "Unpack it."
        if self.encoding != "compressed":
            hint = "Save it as UTF-8 without a byte order mark."
        self._warnings = [Finding(WARNING, message, hint, place=Place(1, 1))]
        self._hidden_warnings = 0
        if self._errors:  # errors about such bytes would not help
            self._errors = [Finding(ERROR, message, hint, place=Place(1, 1))]
            self._hidden_errors = 0

    def errors(self) -> Tuple[Finding, ...]:
        """Return the errors, in the order of the file."""
        return tuple(sorted(self._errors, key=lambda finding: finding.place))  # type: ignore[arg-type,return-value]

    def warnings(self) -> Tuple[Finding, ...]:
        """Return the warnings, in the order of the file; a last one counts those left out."""
        warnings = sorted(self._warnings, key=lambda finding: finding.place)  # type: ignore[arg-type,return-value]
        if self._hidden_warnings:
            verb = "remark is" if self._hidden_warnings == 1 else "remarks are"
            message = f"{self._hidden_warnings:,} more such {verb} left out here."
            warnings.append(Finding(WARNING, message, place=self._first_hidden))
        return tuple(warnings)

    def raise_errors(self, option: str) -> None:
        """Raise one ConfigError for all errors, with the option that names the file.

        Raises:
            ConfigError: If there is an error.
        """
        errors = self.errors()
        if not errors:
            return
        problems = [
            Finding(ERROR, f"{self.name}:{error.place}: {error.message}", error.hint, option=option)
            for error in errors[:_MOST_RAISED]
        ]
        if len(errors) > _MOST_RAISED:
            least = "at least " if self.is_hopeless else ""
            count = len(errors) - _MOST_RAISED + self._hidden_errors
            message = f"{self.name}: has {least}{count:,} more such faults."
            problems.append(Finding(ERROR, message, option=option))
        raise ConfigError.from_problems(problems, self.name)
