"""From a file to what stands in it: bytes, text, JSON, each fault with its place.

Source: launch_facts.md, A2 (HCOMM: TopoInfoRanktableParser::ReadFile, which reads one JSON value
with nlohmann::json's stream operator: a byte order mark is skipped, of two equal keys the last one
counts, and what follows the value is not read). A table has at most 40 MiB without its blanks
(STRING_MAX_LENGTH in HCOMM).
"""

import json
import os
import re
import stat
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ascend_session.errors import JobError

__all__ = ["Document", "UnfinishedError", "name_fault", "parse", "read_text"]

_MOST_BYTES = 64 << 20
_MOST_WITHOUT_BLANKS = 40 << 20
_LONGEST_NAME = 4095
_BOM = "\ufeff"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WRONG_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x1f\x8b", "compressed"))


class UnfinishedError(JobError):
    """A file that is not there or not whole, which may be so for a moment only.

    Attributes:
        why: What is missing, in a few words.
    """

    def __init__(self, message: str, *, hint: Optional[str] = None, why: str = "") -> None:
        super().__init__(message, hint=hint)
        self.why = why


class Document(NamedTuple):
    """A JSON value and what is odd about its text.

    Attributes:
        value: The value.
        oddities: What HCCL takes and other readers do not, in sentences, with the place of each.
    """

    value: Any
    oddities: Tuple[Tuple[str, str], ...]


def name_fault(path: str) -> str:
    """Why HCCL takes no table of this name; empty if it does. A link's target counts as well."""
    try:
        real = os.path.realpath(path)
        longest = max(len(os.fsencode(path)), len(os.fsencode(real)))
    except ValueError:
        return "this is no file name."
    if longest > _LONGEST_NAME:
        return f"the name is longer than {_LONGEST_NAME} bytes, which is what HCCL takes."
    if all(name.find(".json") + len(".json") == len(name) for name in (path, real)):
        return ""
    shown = "" if real == path else f" ({real} in full)"
    return (
        f"HCCL takes a name that ends in .json and has no other .json before it, folders "
        f"included{shown}."
    )


def read_text(path: str) -> str:
    """The text of a rank table.

    Raises:
        JobError: If there is no such file, or it cannot be read or is no text. A pipe is refused
            and never waited for: HCCL reads a table several times.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError:
        raise JobError(f"{path!r} is no file name.") from None
    try:
        return _decoded(path, _content(path, descriptor))
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)


def parse(name: str, text: str) -> Document:
    """The JSON value in ``text``.

    Raises:
        JobError: If it is no JSON, with line and column.
    """
    oddities: List[Tuple[str, str]] = []
    if text.startswith(_BOM):
        text = text[1:]
        oddities.append(("", "The file begins with a byte order mark, which other readers refuse."))
    if not text.strip(" \t\r\n"):
        raise UnfinishedError(
            f"{name}: is empty.",
            hint="`ascend-session ranktable make` makes a table.",
            why="it is empty",
        )
    twice: List[Tuple[Dict[str, Any], str]] = []
    value = _value(name, text, twice, oddities)
    if twice:
        places = _places(value, [found for found, _ in twice])
        oddities += [
            (places.get(id(found), ""), f"The key {key!r} stands here twice; HCCL takes the last.")
            for found, key in twice[:20]
        ]
    return Document(value, tuple(oddities))


def _value(
    name: str,
    text: str,
    twice: List[Tuple[Dict[str, Any], str]],
    oddities: List[Tuple[str, str]],
) -> Any:
    def keep(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice.extend((made, key) for key in made if counts[key] > 1)
        return made

    start = len(text) - len(text.lstrip(" \t\r\n"))
    decoder = json.JSONDecoder(
        object_pairs_hook=keep, parse_int=_whole, parse_constant=_refuse_constant
    )
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _no_json(name, text, error) from None
    except RecursionError:
        raise JobError(f"{name}: is nested more deeply than any rank table.") from None
    except ValueError as error:
        raise JobError(f"{name}: this is not JSON: {error}.") from None
    if _SURROGATE.search(text):
        _check_surrogates(name, value)
    rest = text[end:].strip(" \t\r\n")
    if rest:
        line = text.count("\n", 0, text.index(rest, end)) + 1
        said = f"Behind the table, from line {line} on, stands {rest[:20]!r}; HCCL never reads it."
        oddities.append(("", said))
    return value


def _content(path: str, descriptor: int) -> bytes:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        kind = "a directory" if stat.S_ISDIR(facts.st_mode) else "a pipe or a device"
        raise JobError(
            f"{path}: is {kind}, not a file; HCCL reads a rank table from a file.",
            hint="Name the table's own file.",
        )
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read(_MOST_BYTES + 1) or b""  # None from what has nothing to read just now
    if len(content) > _MOST_BYTES:
        raise JobError(
            f"{path}: has {facts.st_size / (1 << 20):,.0f} MiB; HCCL takes tables of up to 40 MiB, "
            "and with all its blanks one is read here up to 64 MiB.",
            hint="Look whether this is a rank table at all.",
        )
    if len(content) > _MOST_WITHOUT_BLANKS:
        bare = len(content.translate(None, b" \t\r\n"))
        if bare > _MOST_WITHOUT_BLANKS:
            raise JobError(
                f"{path}: has {bare / (1 << 20):,.1f} MiB without its blanks; HCCL takes tables of "
                "up to 40 MiB.",
                hint="Look whether this is a rank table at all.",
            )
    return content


def _unreadable(path: str, error: OSError) -> JobError:
    if isinstance(error, FileNotFoundError):
        return UnfinishedError(
            f"{path}: is not there.",
            hint="HCCL reads it in every rank: it must be there on every server.",
            why="it is not there",
        )
    return JobError(
        f"{path}: cannot be read: {error.strerror}.",
        hint="HCCL reads it in every rank: whoever runs them must be able to read it.",
    )


def _decoded(path: str, content: bytes) -> str:
    for mark, kind in _WRONG_MARKS:
        if content.startswith(mark):
            raise JobError(f"{path}: is {kind}, not UTF-8 text; HCCL reads UTF-8 only.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnfinishedError(
            f"{path}:{line}: is not UTF-8 text (byte {error.start}); HCCL reads UTF-8 only.",
            why="it is not UTF-8 text",
        ) from None


def _no_json(name: str, text: str, error: json.JSONDecodeError) -> UnfinishedError:
    place = f"{name}:{error.lineno}:{error.colno}"
    if error.pos >= len(text.rstrip(" \t\r\n")) or error.msg.startswith("Unterminated string"):
        return UnfinishedError(
            f"{place}: the file ends in the middle of its JSON.",
            hint="It was cut off, or is being written just now. HCCL fails at once on such a "
            "file: write a table to another name and rename it.",
            why="its JSON is not complete",
        )
    if text.startswith(("//", "/*", "#"), error.pos):
        return UnfinishedError(
            f"{place}: this is a comment, and JSON has none.",
            hint="Take the comments out; the vendor's examples have them as explanations only.",
            why="it has a comment, and is not JSON",
        )
    return UnfinishedError(f"{place}: this is not JSON: {error.msg}.", why="it is not JSON")


def _whole(digits: str) -> Any:
    """A number; Python itself refuses one of thousands of digits."""
    return int(digits) if len(digits) <= 20 else float(digits)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


def _check_surrogates(name: str, value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise JobError(f"{name}: is nested more deeply than any rank table.") from None
    except UnicodeEncodeError:
        raise JobError(
            f"{name}: this is not JSON: a text in it has half a surrogate pair (\\uD8xx)."
        ) from None


def _places(value: Any, wanted: List[Dict[str, Any]]) -> Dict[int, str]:
    """The place of each of the objects in the value."""
    ids = {id(one) for one in wanted}
    found: Dict[int, str] = {}
    waiting: List[Tuple[str, Any]] = [("", value)]
    while waiting and len(found) < len(ids):
        place, one = waiting.pop()
        if id(one) in ids:
            found[id(one)] = place
        if isinstance(one, dict):
            waiting += [(f"{place}.{key}" if place else key, below) for key, below in one.items()]
        elif isinstance(one, list):
            waiting += [(f"{place}[{index}]", below) for index, below in enumerate(one)]
    return found
