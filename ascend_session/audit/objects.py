"""What a script builds, as the reader sees it: configurations, entries, arguments, operations."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ascend_session.audit.finding import Place

__all__ = [
    "Branch",
    "Construction",
    "Entry",
    "Instance",
    "Operation",
    "Part",
    "Proto",
    "Setting",
    "Toggle",
    "compatible",
    "implied",
]

Branch = Tuple[Tuple[int, int], ...]
"""The arms of ``if`` statements on the way to a place: (statement, arm) from outside in."""


def compatible(first: Branch, second: Branch) -> bool:
    """Whether one run of the script may pass both places."""
    arms = dict(first)
    return all(arms.get(statement, arm) == arm for statement, arm in second)


def implied(outer: Branch, inner: Branch) -> bool:
    """Whether a run that passes ``inner`` surely passes ``outer`` too."""
    return set(outer) <= set(inner)


class Setting(NamedTuple):
    """``entry.parameter_map[key].field = value``."""

    key: str
    field: str
    value: Any
    place: Place
    branch: Branch


class Toggle(NamedTuple):
    """``rewrite_options.remapping = value`` or the same of memory_optimization."""

    name: str
    value: Any
    place: Place
    branch: Branch


class Proto:
    """A ``tf.ConfigProto``.

    Attributes:
        place: Where it is made, or first seen.
        own: Whether this file makes it; False for arguments and what other code returns.
        shared: Whether code that the reader cannot see may add to it.
        entries: Its entries of custom_optimizers.
        toggles: Its rewriter options.
        to_run_config: Where it is given to an NPURunConfig as session_config, or None.
        to_session: Whether a session, or what makes one, gets it here.
        completed: The arms on the way to where npu_init adds the first entry, or None.
        names: What it is called, each with the syntax tree of the function (or module) whose
            name that is, or None if other code may see it.
    """

    def __init__(self, place: Place, own: bool) -> None:
        self.place = place
        self.own = own
        self.shared = not own
        self.entries: List[Entry] = []
        self.toggles: List[Toggle] = []
        self.to_run_config: Optional[Place] = None
        self.to_session = False
        self.completed: Optional[Branch] = None
        self.names: List[Tuple[str, Any]] = []


class Entry:
    """One entry of ``custom_optimizers``.

    Attributes:
        place: Where it is added, or first seen.
        own: Whether this file adds it; False if it is an argument, say.
        shared: Whether code that the reader cannot see may write into it.
        branch: The arms on the way to where it is added.
        in_loop: Whether it is added in a loop.
        names: What its name is set to, with the places.
        settings: What is written into its parameter_map.
        opaque: Whether keys are written that the reader does not know.
        proto: The configuration it is in, None if it is not known.
    """

    def __init__(self, place: Place, own: bool, branch: Branch, in_loop: bool) -> None:
        self.place = place
        self.own = own
        self.shared = not own
        self.branch = branch
        self.in_loop = in_loop
        self.names: List[Tuple[Any, Place]] = []
        self.settings: List[Setting] = []
        self.opaque = False
        self.proto: Optional[Proto] = None


class Part(NamedTuple):
    """Something inside a configuration: the attributes on the way to it."""

    owner: Any  # Proto or Entry
    path: Tuple[Optional[str], ...]  # None for a key that is not known


class Instance:
    """An object of a class of the script: its attributes."""

    def __init__(self, of: Any = None) -> None:
        self.of = of
        self.attributes: Dict[str, Any] = {}


class Construction(NamedTuple):
    """A call of NPURunConfig or of one of its parts.

    Attributes:
        name: The class.
        arguments: Keyword -> value, in order.
        places: Keyword -> where it stands.
        place: Where the call stands.
        opaque: Whether arguments come by ``**``.
    """

    name: str
    arguments: Dict[str, Any]
    places: Dict[str, Place]
    place: Place
    opaque: bool


class Operation(NamedTuple):
    """The operation that initialize_system() or shutdown_system() returns."""

    name: str
    place: Place
