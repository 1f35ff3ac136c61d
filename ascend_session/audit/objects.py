"""The objects that a script builds, as far as its text shows."""

import ast
from itertools import islice
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ascend_session.findings import Place


class Unknown(NamedTuple):
    """A value that the text does not show."""


class Known(NamedTuple):
    """A constant: None, bool, int, float, str, bytes, or a list, tuple or dict of those."""

    value: Any


class OneOf(NamedTuple):
    """One of two constants; which of them is decided when the script runs."""

    values: Tuple[Known, ...]


class EnvironmentText(NamedTuple):
    """The text of an environment variable, or None if it is not set."""

    name: str


UNKNOWN = Unknown()
_MOST_ARMS = 40  # in which assignments are compared


Branch = Tuple[Tuple[int, int], ...]
"""The arms of ``if`` statements on the way to a place: (statement, arm) from outside in."""


def compatible(first: Branch, second: Branch) -> bool:
    """Return whether one run of the script may reach both places."""
    return extend_branch(dict(first), second)


def implied(outer: Branch, inner: Branch) -> bool:
    """Return whether each run that reaches ``inner`` also reaches ``outer``."""
    return set(outer) <= set(inner)


def extend_branch(arms: Dict[int, int], branch: Branch) -> bool:
    """Add the arms of ``branch`` if one run may pass them besides ``arms``; else return False."""
    may_pass = all(arms.get(statement, arm) == arm for statement, arm in branch)
    if may_pass:
        arms.update(branch)
    return may_pass


class Assignment(NamedTuple):
    """``parameter_map[key].field = value``, or ``field = value`` of an entry or a rewriter."""

    key: str  # empty in the second case
    field: str
    value: Any
    place: Place
    branch: Branch


def last_assignments(assignments: Iterable[Assignment]) -> List[Assignment]:
    """List the assignments that no later one overwrites in each run."""
    later: Dict[Tuple[str, str], Dict[Branch, None]] = {}
    kept: List[Assignment] = []
    for each in reversed(list(assignments)):
        # One key has one value, whatever its field is.
        branches = later.setdefault((each.key, "" if each.key else each.field), {})
        if not any(implied(branch, each.branch) for branch in islice(branches, _MOST_ARMS)):
            kept.append(each)
        branches[each.branch] = None
    return kept[::-1]


class Proto:
    """A ``tf.ConfigProto``.

    Attributes:
        place: Where it is made, or first seen.
        is_local: True if this file makes it; False for arguments and results of other code.
        shared: Whether code that is not seen may add to it.
        entries: Its entries of custom_optimizers.
        toggles: The assignments to its rewriter options.
        to_run_config: Where it is given to an NPURunConfig as session_config, or None.
        to_session: Whether a session, or a function that makes one, gets it here.
        completed: The arms on the way to where npu_init adds the first entry, or None.
        names: Its names, each with the syntax tree of the function (or module) to which the name
            is local, or None if other code may see it.
        kinds: The message that a name stands for, where that is known: ConfigProto, or
            GraphOptions or RewriterConfig, which are parts of it.
    """

    def __init__(self, place: Place, is_local: bool) -> None:
        self.place = place
        self.is_local = is_local
        self.shared = not is_local
        self.entries: List[OptimizerEntry] = []
        self.toggles: List[Assignment] = []
        self.to_run_config: Optional[Place] = None
        self.to_session = False
        self.completed: Optional[Branch] = None
        self.names: List[Tuple[str, Any]] = []
        self.kinds: Dict[str, str] = {}


class OptimizerEntry:
    """One entry of ``custom_optimizers``.

    Attributes:
        place: Where it is added, or first seen.
        is_local: True if this file adds it; False for an argument, for example.
        shared: Whether code that is not seen may write into it.
        branch: The arms on the way to where it is added.
        in_loop: Whether it is added in a loop.
        names: The assignments to its name.
        settings: The assignments to its parameter_map.
        opaque: Whether keys are written whose names are not known.
    """

    def __init__(self, place: Place, proto: Optional[Proto], branch: Branch, in_loop: bool) -> None:
        self.place = place
        self.is_local = proto is not None
        self.shared = proto is None or (proto.shared and proto.is_local)
        self.branch = branch
        self.in_loop = in_loop
        self.names: List[Assignment] = []
        self.settings: List[Assignment] = []
        self.opaque = False


class RunConfigCall(NamedTuple):
    """A call of NPURunConfig or of one of its parts.

    Attributes:
        name: The class.
        arguments: The values by keyword, in order.
        places: The place of each argument.
        place: The place of the call.
        opaque: Whether there are arguments by ``*`` or ``**``.
    """

    name: str
    arguments: Dict[str, Any]
    places: Dict[str, Place]
    place: Place
    opaque: bool


_MOST_PARTS = 20  # of a name with dots


def dotted_name(node: Optional[ast.AST]) -> str:
    """Return ``a.b.c`` for names and attributes of names; empty for anything else."""
    parts: List[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _MOST_PARTS:
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))


def mark_shared(value: Any) -> None:
    """Record that unseen code gets a configuration or entry, and may change it."""
    if isinstance(value, (Proto, OptimizerEntry)):
        value.shared = True
    if isinstance(value, Proto):
        for entry in value.entries:
            entry.shared = True
