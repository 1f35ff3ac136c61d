"""Parse TensorFlow's errors about a failed operator: the reason, and where it was created.

TensorFlow 1.15 puts the reason first, unless several operators failed, and at the end the stack
that created the operator. TensorFlow 2 begins with "Graph execution error:" and such a stack, then
comes the reason. Both may put "2 root error(s) found." before numbered reasons.
Source: ``_do_call`` in tensorflow/python/client/session.py, ``interpolate`` in
tensorflow/python/framework/error_interpolation.py, ``StatusGroup`` in
tensorflow/core/platform/status.cc.
"""

import itertools
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ascend_session.failures.reason import find_reason
from ascend_session.failures.record import Frame

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
