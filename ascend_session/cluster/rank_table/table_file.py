"""Read the JSON of a table file, at once or when it is completed.

HCCL skips a byte order mark, takes the last of two equal keys, and does not read on after the JSON
value. A table has at most 40 MiB without blanks (STRING_MAX_LENGTH). Source: HCOMM,
TopoInfoRanktableParser::ReadFile, which uses nlohmann::json's stream operator.

HCCL silently rereads a table at "initializing" each second, for up to 1800 seconds, and fails at
once on half a file. `look_for_table` treats half a file as not completed yet.
"""

import os
from typing import Any, Callable, List, NamedTuple, Optional, Tuple, cast

from ascend_session.cluster.rank_table.contents import COMPLETED, V1_0, V1_2
from ascend_session.errors import JobError
from ascend_session.files import UnreadableError, read_regular_file
from ascend_session.findings import WARNING, Finding, TextPlaces
from ascend_session.jsonfile import BOM, JsonError, load_json
from ascend_session.text import is_writable, printable

_MOST_BYTES = 64 << 20
_MOST_WITHOUT_BLANKS = 40 << 20  # bytes
_LONGEST_NAME = 4095  # bytes
_MOST_REPEATED_KEYS = 20  # in findings
_BLANKS = " \t\r\n"
_WRONG_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x1f\x8b", "compressed"))
_NAMES = "HCCL takes a name that ends in .json and has no other .json before it, folders included."


class UnfinishedError(JobError):
    """The file is missing or incomplete, perhaps only for a moment.

    Attributes:
        why: The reason in a few words, as in ``it is empty``.
    """

    def __init__(self, message: str, *, why: str, hint: Optional[str] = None) -> None:
        super().__init__(message, hint=hint)
        self.why = why


class WaitProgress(NamedTuple):
    """The progress of a wait for a table.

    Attributes:
        left: Seconds until the timeout.
        why: Why the table is not read yet, as in ``it is empty``.
    """

    left: float
    why: str


Tell = Callable[[WaitProgress], None]


def find_name_fault(path: str) -> str:
    """Return why GE refuses the file name of a rank table, in a sentence; empty if it does not.

    Source: guides/facts/rank_tables.md#reading-a-rank-table
    """
    try:
        real = os.path.realpath(path)
        longest = max(len(os.fsencode(path)), len(os.fsencode(real)))
    except ValueError:
        return "this is not a file name."
    if longest > _LONGEST_NAME:
        return f"the name is longer than {_LONGEST_NAME} bytes, the limit of HCCL."
    return "" if _is_json_name(path) else _NAMES


def find_target_fault(path: str) -> str:
    """Return why HCCL's C API, which checks the resolved path, refuses a table; empty if not."""
    real = os.path.realpath(path)
    if _is_json_name(real) or not _is_json_name(path):
        return ""
    return f"{real} is its whole name, which HCCL's C API uses and TensorFlow does not: {_NAMES}"


def _is_json_name(path: str) -> bool:
    return path.endswith(".json") and path.count(".json") == 1


def read_text(path: str) -> str:
    """Read the text of a rank table.

    Raises:
        UnfinishedError: If the file is missing or no UTF-8 text.
        JobError: If it cannot be read or is too large. A pipe is refused, because HCCL reads a
            table several times.
    """
    try:
        content = read_regular_file(path, _MOST_BYTES, "a rank table")
    except UnreadableError as error:
        if error.is_missing:
            raise UnfinishedError(
                f"{path}: does not exist.",
                hint="Every rank reads the table, so it has to be on every server.",
                why="it does not exist",
            ) from error
        raise JobError(f"{printable(path)}: {error}.", hint=error.hint) from error
    if len(content) > _MOST_WITHOUT_BLANKS:
        size = len(content.translate(None, _BLANKS.encode()))
        if size > _MOST_WITHOUT_BLANKS:
            raise JobError(
                f"{path}: has {size / (1 << 20):,.1f} MiB without its blanks; HCCL takes tables of "
                "up to 40 MiB.",
                hint="Check whether this is a rank table at all.",
            )
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


def parse_json(name: str, text: str) -> Tuple[Any, List[Finding]]:
    """Parse the JSON value in a text.

    Returns:
        The value, and warnings about what HCCL accepts and other readers of JSON do not.

    Raises:
        UnfinishedError: If it is empty or no JSON; the message has line and column.
        JobError: If it is no str, or cannot be encoded as UTF-8.
    """
    if not isinstance(cast(Any, text), str) or not is_writable(text, strict=True):
        raise JobError(f"{name}: the text of a table is a str that can be encoded as UTF-8.")
    findings: List[Finding] = []
    if text.startswith(BOM):
        message = "The file begins with a byte order mark, which other readers refuse."
        findings.append(Finding(WARNING, message, rule="text", place=""))
    if not text.strip(_BLANKS + BOM):
        raise UnfinishedError(
            f"{name}: is empty.",
            hint="`ascend-session ranktable make` makes a table.",
            why="it is empty",
        )
    try:
        value, end, repeated = load_json(text)
    except JsonError as error:
        raise _refuse_json(f"{name}:{TextPlaces(text).locate(error.at)}", error) from None
    rest = text[end:]
    if rest:
        line = TextPlaces(text).locate(end).line
        message = f"From line {line} on, {rest[:20]!r} follows the table; HCCL never reads it."
        findings.append(Finding(WARNING, message, rule="text", place=""))
    for path, key in repeated[:_MOST_REPEATED_KEYS]:
        message = f"The key {key!r} occurs twice here; HCCL takes the last one."
        findings.append(Finding(WARNING, message, rule="text", place=path))
    return value, findings


def _refuse_json(place: str, error: JsonError) -> UnfinishedError:
    if error.is_cut_off:
        return UnfinishedError(
            f"{place}: the file ends in the middle of its JSON.",
            hint="It was cut off, or is being written just now. HCCL fails at once on such a "
            "file: write a table to another name and rename it.",
            why="its JSON is not complete",
        )
    if error.is_comment:
        return UnfinishedError(
            f"{place}: {error.reason}.",
            hint="Take the comments out; the vendor's examples have them as explanations only.",
            why="it has a comment, and is not JSON",
        )
    return UnfinishedError(f"{place}: {error.reason}.", why="it is not JSON")


def look_for_table(path: str) -> Tuple[Optional[str], str]:
    """Return the text of a completed table; or None, and what is missing.

    Raises:
        JobError: If it can never be a table, as a folder. Fields are not checked.
    """
    try:
        text = read_text(path)
        table, _ = parse_json(path, text)
    except UnfinishedError as error:
        return None, error.why
    status = table.get("status") if isinstance(table, dict) else None
    is_supported = isinstance(table, dict) and table.get("version", V1_0) in (V1_0, V1_2)
    if not isinstance(status, str) or status == COMPLETED or not is_supported:
        return text, ""
    return None, printable(f"its status is {status!r}")
