"""Find messages of the vendor whose code the table of known failures does not have.

The vendor's own message says what is wrong and what to do:

    EX0099: [PID: 1] 2026-03-02-11:57:54.167.645 The text.
            Possible Cause: 1. One. 2. Another.
            Solution: Do that.
            TraceBack (most recent call last):

or with a name before the code, as in ``Inner_Error(EX0099): The text.``
Source: guides/facts/failures.md#codes-that-the-table-does-not-have
"""

import re
from typing import Callable, Iterator, List, Tuple

from ascend_session.failures.failure import Code, Definition, FailureClass

_LABELS = ("Possible Cause:", "Solution:")
_LABELLED = re.compile(r"[ \t]*(?:Possible Cause|Solution):")
# W stands for warnings.
_HEAD = re.compile(
    r"(?<![0-9A-Za-z_-])((?!W)[A-Z][A-Z0-9][0-9]{4})(?:\)?:|(?=\[PID))[ ]?"
    r"(?:\[PID: [0-9]+\] ?)?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9:.]+ )?"
)
_MOST_HEAD_LINES, _MOST_LINES = 4, 20  # before the first label, and in all
_SOURCE = "the vendor's own message; the table does not have this code"


def find_unlisted(
    text: str, is_listed: Callable[[str], bool]
) -> Iterator[Tuple[int, str, Definition]]:
    """Find the vendor's messages that explain themselves and are not in the table.

    Args:
        text: Any text.
        is_listed: Whether the table has a code.

    Yields:
        The index of a code in the text, the code, and a definition with the vendor's own words.
    """
    if not any(label in text for label in _LABELS):
        return
    lines = text.split("\n")
    start = 0  # of the line
    for number, line in enumerate(lines):
        head = _HEAD.search(line)
        if head is not None and not is_listed(head[1]):
            message = _take_message(lines, number)
            if message:
                meaning = " ".join([line[head.end() :], *message[0]]).strip().rstrip(".")
                yield start + head.start(1), head[1], _define(head[1], meaning, message[1])
        start += len(line) + 1


def _take_message(lines: List[str], number: int) -> Tuple[List[str], ...]:
    """Take the lines of a message below its first: the rest of its text, and causes with advice."""
    text: List[str] = []
    advice: List[str] = []
    for line in lines[number + 1 : number + _MOST_LINES]:
        is_label = _LABELLED.match(line) is not None
        is_over = not line[:1].isspace() or not line.strip() or "TraceBack" in line
        if is_over or (not advice and not is_label and len(text) >= _MOST_HEAD_LINES):
            break
        (advice if advice or is_label else text).append(line.strip())
    return (text, advice) if advice else ()


def _define(code: str, meaning: str, advice: List[str]) -> Definition:
    """Make the row that the table lacks; HCCL's codes (EI) may come from another rank's failure."""
    return Definition(
        FailureClass.PERMANENT,
        " ".join(advice),
        _SOURCE,
        codes=(Code(code, meaning),),
        is_secondary=code.startswith("EI"),
        is_vague=True,
        is_listed=False,
    )
