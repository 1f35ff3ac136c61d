"""Find the reason in the text of an exception, and where a failed operator was created.

Most libraries put the reason in the first line. Some begin with a heading, and the reason follows:
TensorFlow's restoring of a checkpoint ("Original error:"), AutoGraph ("in user code:"), Keras
("Exception encountered when calling"), pydantic ("1 validation error for"), PyTorch ("Error(s) in
loading state_dict for Net:", "Original Traceback"), numpy ("IMPORTANT: PLEASE READ THIS"), PyYAML
("while parsing"), groups of exceptions ("(2 sub-exceptions)").

Of TensorFlow's errors about a failed operator, 1.15 puts the reason first, unless several operators
failed, and at the end the stack that created the operator. TensorFlow 2 begins with "Graph
execution error:" and such a stack, then comes the reason. Both may put "2 root error(s) found."
before numbered reasons. Source: ``_do_call`` in tensorflow/python/client/session.py,
``interpolate`` in tensorflow/python/framework/error_interpolation.py, ``StatusGroup`` in
tensorflow/core/platform/status.cc.
"""

import itertools
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ascend_session.failures.record import Frame

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
TRACEBACK = "Traceback (most recent call last)"
"""Begin of a traceback of Python's."""

# Source: tensorflow/python/autograph/pyct/error_utils.py, errors.py in TensorFlow 1.15.
_IN_CODE = re.compile(r"in (?:user|converted) code(?: \(relative to .*\))?:$")
_FRAME_INDENT = 4  # of AutoGraph's frames and of what was raised below them
_RAISED = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: |$)")
_ORIGINAL = re.compile(r"(?:original|underlying) (?:error|exception)(?: was)?:", re.IGNORECASE)
_HEADING = re.compile(
    r".*:$"
    r"|[0-9]+ (?:validation )?errors? (?:for|in) "
    r"|Exception encountered when calling "
    r"|.*\([0-9]+ sub-exceptions?\)$"
    r"|while (?:parsing|scanning|constructing) "
)
_NO_REASON = re.compile(r'in "[^"]{0,400}", line [0-9]|For further information visit ')
_COMMAND = re.compile(
    r"Command .{1,20000} (?:returned non-zero exit status|died with|timed out after) [^\n]*\Z", re.S
)
_SENTENCE = re.compile(r"(.*?[^.][.!])\s+[A-Z]")
_ENDS = (".", "!", "?", "]", ")")
_LONGEST_HEADING, _LONGEST_LIST, _LONGEST_COMMAND = 200, 300, 160  # characters
_MOST_LINES, _MOST_HEADINGS = 1000, 6  # that are looked at


def find_reason(message: str) -> str:
    """Find what went wrong, as one line: a heading goes on with what stands below it.

    Args:
        message: The text of an exception, of any size.

    Returns:
        The reason, without a blank at its ends; empty for an empty message. Of a long heading
        there is only the first sentence.
    """
    text = _COLOUR.sub("", message).strip("\n")
    command = _COMMAND.match(text) if "\n" in text else None
    if command is not None:
        return _shorten_command(" ".join(text.split()))
    return _read(text.split("\n")[:_MOST_LINES], _MOST_HEADINGS)


def _read(lines: List[str], depth: int) -> str:
    """Find the reason in lines, below so many headings at most."""
    lines = _skip(lines)
    if not lines:
        return ""
    first, rest = lines[0].strip(), lines[1:]
    if depth == 0:
        return first
    if _IN_CODE.match(first):
        raised = _find_raised_in_code(rest)
        return _read(raised, depth - 1) if raised else first
    start = next((n for n, line in enumerate(lines) if TRACEBACK in line), None)
    if start is not None:
        raised = _find_raised(lines[start + 1 :])
        before = lines[:start]
        if raised and not (before and _RAISED.sub("", raised[0], 1) in first):
            reason = _read(raised, depth - 1)
            return f"{_head(first)}: {reason}" if before else reason
        if before:
            rest = before[1:]
    original = next((n for n, line in enumerate(rest) if _ORIGINAL.match(line.strip())), None)
    if original is not None:
        line = rest[original].strip()
        reason = _read([_ORIGINAL.sub("", line, 1), *rest[original + 1 :]], depth - 1)
        return f"{_head(first)}: {reason}" if reason else first
    is_label = depth < _MOST_HEADINGS and _is_above_indented(lines)
    if not _HEADING.match(first) and not is_label:
        return first
    reason = _read(rest, depth - 1)
    if not reason:
        return first.rstrip(":")
    return f"{_head(first)}: {_list_alike(lines[0], _skip(rest), reason)}"


def _skip(lines: List[str]) -> List[str]:
    """Leave out what stands before a reason: blank lines, places, and lines that only shout."""
    for number, line in enumerate(lines):
        text = line.strip()
        is_shout = text.isupper() and " " in text and any(map(str.strip, lines[number + 1 :]))
        if text and not is_shout and not _NO_REASON.match(text):
            return lines[number:]
    return []


def _find_raised_in_code(lines: List[str]) -> List[str]:
    """Find the text of the exception below AutoGraph's frames, without its type, which is kept."""
    dedented = [line[_FRAME_INDENT:] for line in lines if not line[:_FRAME_INDENT].strip()]
    for number, line in enumerate(dedented):
        match = None if line.startswith('File "') else _RAISED.match(line)
        if match is not None:
            return [line[match.end() :] or line, *dedented[number + 1 :]]
    return []


def _find_raised(lines: List[str]) -> List[str]:
    """Find the exception that ends a traceback, and the rest of its text."""
    for number, line in enumerate(lines):
        if line and not line[0].isspace() and _RAISED.match(line):
            return lines[number:]
    return []


def _is_above_indented(lines: List[str]) -> bool:
    """Tell whether a line without an end names what the line below it, indented, is about."""
    first, below = lines[0], lines[1] if len(lines) > 1 else ""
    is_indented = bool(below.strip()) and _indent(below) > _indent(first)
    return is_indented and not first.rstrip().endswith(_ENDS)


def _list_alike(heading: str, lines: List[str], reason: str) -> str:
    """Add the lines of the same list to a reason that is its first line."""
    if lines[0].strip() != reason:
        return reason
    indent = _indent(lines[0])
    separator = "; " if indent > _indent(heading) else " "
    for line in lines[1:]:
        if not line.strip() or _indent(line) != indent or TRACEBACK in line:
            break
        if len(reason) + len(line) > _LONGEST_LIST:
            break
        reason += (" " if reason.endswith(_ENDS[:3]) else separator) + line.strip()
    return reason


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _head(heading: str) -> str:
    """Return the first sentence of a heading, without its end."""
    match = _SENTENCE.match(heading)
    sentence = heading if match is None else match[1]
    if len(sentence) > _LONGEST_HEADING:
        return f"{sentence[:_LONGEST_HEADING]}..."
    return sentence.rstrip(":. ")


def _shorten_command(text: str) -> str:
    """Cut the middle of a long command, so that its fate stays."""
    if len(text) <= 2 * _LONGEST_COMMAND:
        return text
    return f"{text[:_LONGEST_COMMAND]}...{text[-_LONGEST_COMMAND:]}"


_TITLE = "Graph execution error:"
_STACK = re.compile(r"(?:Detected at node|Original stack trace for) '?([^' ]+?)'?(?: defined at|:)")
_FRAME = re.compile(r'\s*File "(.*)", line ([0-9]+), in (.*)')
_OPERATOR_LINE = re.compile(r"\s*\[\[")
_OPERATOR = re.compile(r"\[\[\{?\{?node ([^ }\]]+)")
_ROOTS = re.compile(r"[0-9]+ root error\(s\) found\.")
_ROOT = re.compile(r"\s*\([0-9]+\) ([A-Za-z_ ]+): (.*)")
# Text around a reason: the function in which it happened, and the operation that ran it. Lengths
# are bounded, because a reason may quote user text of any size.
_AROUND = re.compile(
    r"\{\{function_node [^}]{0,1000}\}\}\s{0,9}|\s{0,9}\[Op:[^]]{0,200}\](?: name: \S*)?"
)


class GraphError(NamedTuple):
    """The failure of an operator.

    Attributes:
        reason: What went wrong, in one line.
        operator: Name of the operator in the graph; empty if unknown.
        frames: The stack that created the operator, innermost frame last; empty if unknown, as for
            an operator in a dataset's function.
    """

    reason: str
    operator: str
    frames: Tuple[Frame, ...]


def describe_error(error: BaseException) -> str:
    """Return type and text of an exception, or only the reason if other text is around it."""
    text = str(error)
    graph_error, reason = parse_graph_error(text), find_reason(text)
    is_within = graph_error is not None or not text.startswith(reason)
    reason = reason if graph_error is None else graph_error.reason
    return f"{type(error).__name__}: {reason if is_within else text}".rstrip(": ")


def reason_of(message: str) -> str:
    """Return what went wrong in one line, from the message of any exception; may be empty."""
    graph_error = parse_graph_error(message)
    return find_reason(message) if graph_error is None else graph_error.reason


def parse_graph_error(message: str) -> Optional[GraphError]:
    """Parse the message of an exception; None if it is not about a failed operator."""
    lines, stacks = _split(message)
    is_graph_error = bool(stacks) or _TITLE in lines or any(map(_OPERATOR.search, lines))
    lines = [line for line in lines if line != _TITLE]
    if lines and _ROOTS.fullmatch(lines[0]):
        is_graph_error, lines = True, _pick_root(lines[1:])
    about = itertools.takewhile(lambda line: not _OPERATOR_LINE.match(line), lines)
    reason = find_reason(_AROUND.sub("", "\n".join(about)))
    if not is_graph_error or not reason:
        return None
    operators = [match[1] for match in map(_OPERATOR.search, lines) if match]
    operator = (operators or list(stacks) or [""])[0]
    return GraphError(reason, operator, tuple(stacks.get(operator, ())))


def _split(message: str) -> Tuple[List[str], Dict[str, List[Frame]]]:
    """Split a message into the lines outside of stacks, and the stack of each operator."""
    lines: List[str] = []
    stacks: Dict[str, List[Frame]] = {}
    stack: Optional[List[Frame]] = None
    for line in message.split("\n"):
        head, frame = _STACK.match(line), _FRAME.match(line)
        if head is not None:
            stack = stacks[head[1]] = []
        elif stack is not None and frame is not None:
            stack.append(Frame(frame[1], int(frame[2]), frame[3]))
        elif line.strip() and not (stack is not None and line.startswith(" ")):  # a frame's source
            stack = None
            if not line.startswith("Node: "):
                lines.append(line.rstrip())
    return lines, stacks


def _pick_root(lines: List[str]) -> List[str]:
    """Return the lines about the first failed operator that was not merely cancelled."""
    starts = [(number, match) for number, match in enumerate(map(_ROOT.match, lines)) if match]
    if not starts:
        return lines
    number, match = next(
        (start for start in starts if start[1][1].lower() != "cancelled"), starts[0]
    )
    end = next((other for other, _ in starts if other > number), len(lines))
    return [match[2], *lines[number + 1 : end]]
