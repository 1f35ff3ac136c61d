"""The mix list: which operators mixed precision may lower, as a change of the built-in lists.

Source: hicann/ge, modify_mixlist_config_parser.cc; seed 000. The documented sample has comments,
with which GE refuses the file.
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.option_files.base import OptionFile, check_text_of, unusable
from ascend_session.option_files.json_text import Member, Node, Reader, kind_of
from ascend_session.option_files.remarks import FileFindings
from ascend_session.option_files.source import Kind, Source, trimmed

__all__ = ["LISTS", "MixList", "Policy"]

# What each list means for its operators when mixed precision is on
LISTS: Dict[str, str] = {
    "black-list": "is never computed in lower precision",
    "white-list": "may be computed in lower precision",
    "gray-list": "follows the operator in front of it",
}
_UPDATES = ("to-add", "to-remove")
_FIELDS: Dict[Tuple[str, str], str] = {
    ("black-list", "to-add"): "black_add",
    ("black-list", "to-remove"): "black_remove",
    ("white-list", "to-add"): "white_add",
    ("white-list", "to-remove"): "white_remove",
    ("gray-list", "to-add"): "gray_add",
    ("gray-list", "to-remove"): "gray_remove",
}
_ALLOWED: FrozenSet[FrozenSet[str]] = frozenset(
    frozenset(fields.split())
    for fields in (
        "black_remove",
        "white_remove",
        "gray_add",
        "gray_add black_remove",
        "gray_add white_remove",
        "white_add",
        "white_add gray_remove",
        "white_add black_remove",
        "black_add",
        "black_add gray_remove",
        "black_add white_remove",
    )
)
_COMBINING = (
    "Alone may stand: to-add of one list, or to-remove of black or white. Besides, to-add of one "
    "list may stand with to-remove of one other."
)


class Policy(NamedTuple):
    """The list that an operator is in at the end, None if that is not known, and why."""

    list: Optional[str]
    why: str


@dataclass(frozen=True, repr=False)
class MixList(OptionFile):
    """Operators to add to and to remove from the lists of mixed precision; frozen.

    Each is a sequence of operator types of Ascend IR. On the black list an operator never gets
    lower precision, on the white list it may, and on the gray list it follows the one before it.

    Raises:
        ConfigError: For changes of one operator that GE refuses together.
    """

    black_add: Tuple[str, ...] = ()
    black_remove: Tuple[str, ...] = ()
    white_add: Tuple[str, ...] = ()
    white_remove: Tuple[str, ...] = ()
    gray_add: Tuple[str, ...] = ()
    gray_remove: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "modify_mixlist"
    NAME: ClassVar[str] = "ops_info.json"
    KIND: ClassVar[Kind] = Kind("a mix list")

    def __post_init__(self) -> None:
        for field in _FIELDS.values():
            given = getattr(self, field)
            if isinstance(given, (str, bytes)) or not all(isinstance(one, str) for one in given):
                raise unusable(self.OPTION, f"{field} is a list of operator types, not {given!r}.")
            object.__setattr__(self, field, tuple(dict.fromkeys(given)))
        for operator, changes in self._changes().items():
            if frozenset(changes) not in _ALLOWED:
                raise unusable(self.OPTION, _refusal(operator, changes), _COMBINING)
            check_text_of(self.OPTION, repr(operator), operator, strict=True)

    def policy(self, operator: str, built_in: Optional[str] = None) -> Policy:
        """Which list an operator is in with this file, and why.

        Args:
            operator: Its type.
            built_in: The list that the toolkit has it in, one of `LISTS`, if that is known.
        """
        changes = self._changes().get(operator, [])
        for field, name in (("black_add", "black-list"), ("white_add", "white-list")):
            if field in changes:
                return Policy(name, f"It is added to {name}: it {LISTS[name]}.")
        if not changes:
            return Policy(built_in, "The file does not name it; the built-in list counts.")
        removed = [field for field in changes if field.endswith("_remove")]
        if not removed:
            return Policy(built_in, _GRAY_ALONE)
        name = f"{removed[0].partition('_')[0]}-list"
        if built_in is None:
            return Policy(None, f"It moves to gray-list if the toolkit has it in {name}.")
        if built_in != name:
            return Policy(built_in, f"The toolkit has it in {built_in}, not in {name}: no change.")
        return Policy("gray-list", f"It is removed from {name}: it {LISTS['gray-list']}.")

    def against(self, built_in: Mapping[str, str]) -> Tuple[str, ...]:
        """What does nothing with the lists of an installed toolkit, in sentences.

        Args:
            built_in: ``{operator type: list}`` of the toolkit, each one of `LISTS`.
        """
        found: List[str] = []
        for operator, changes in self._changes().items():
            there = built_in.get(operator)
            if there is None:
                found.append(f"{operator}: this toolkit has no such operator.")
                continue
            for field in changes:
                name = f"{field.partition('_')[0]}-list"
                if field.endswith("_remove") and there != name:
                    found.append(f"{operator}: is to be removed from {name}, but is in {there}.")
                elif field.endswith("_add") and there == name:
                    found.append(f"{operator}: is to be added to {name}, where it is already.")
        return tuple(found)

    def text(self) -> str:
        """Strict JSON."""
        made: Dict[str, Dict[str, List[str]]] = {}
        for (name, update), field in _FIELDS.items():
            if getattr(self, field):
                made.setdefault(name, {})[update] = list(getattr(self, field))
        return json.dumps(made, ensure_ascii=False, indent=2) + "\n"

    def _changes(self) -> Dict[str, List[str]]:
        """The fields that name each operator."""
        found: Dict[str, List[str]] = {}
        for field in _FIELDS.values():
            for operator in getattr(self, field):
                found.setdefault(operator, []).append(field)
        return found

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        reader = _Lists(Reader(source, findings, fix), findings)
        reader.take()
        return lambda: cls(**{field: tuple(given) for field, given in reader.given.items()})


class _Lists:
    """Walks through the JSON value."""

    def __init__(self, reader: Reader, findings: FileFindings) -> None:
        self.given: Dict[str, Dict[str, int]] = {}
        self._reader = reader
        self._findings = findings

    def take(self) -> None:
        node = self._reader.value()
        if node is None or not self._is_object(node, "The top level"):
            return
        for member in self._reader.members(node).values():
            if self._known(member, tuple(LISTS)) and self._is_object(member.node, member.key):
                for below in self._reader.members(member.node).values():
                    if self._known(below, _UPDATES):
                        self._operators(member.key, below)
        self._combinations()

    def _operators(self, name: str, member: Member) -> None:
        if not isinstance(member.node.value, list):
            self._refuse(member.node, f"{member.key} is an array, not {kind_of(member.node)}.")
            return
        given = self.given.setdefault(_FIELDS[name, member.key], {})
        for node in member.node.value:
            if not isinstance(node.value, str):
                self._refuse(node, f"An operator type is text, not {kind_of(node)}.")
                continue
            if node.value in given:
                self._skip(node.at, f"{node.value!r} stands in this list already.")
            elif node.value != trimmed(node.value) or not node.value or "/" in node.value:
                self._skip(node.at, f"{node.value!r} is no operator type, and no operator has it.")
            given.setdefault(node.value, node.at)

    def _combinations(self) -> None:
        changes: Dict[str, List[str]] = {}
        for field in _FIELDS.values():
            for operator in self.given.get(field, {}):
                changes.setdefault(operator, []).append(field)
        for operator, fields in changes.items():
            at = max(self.given[field][operator] for field in fields)
            if frozenset(fields) not in _ALLOWED:
                self._findings.refuse(
                    self._reader.place(at), _refusal(operator, fields), _COMBINING
                )
            elif fields == ["gray_add"]:
                self._skip(at, f"{operator!r}: {_GRAY_ALONE}", _GRAY_HINT)

    def _known(self, member: Member, keys: Tuple[str, ...]) -> bool:
        if member.key not in keys:
            self._findings.refuse(
                self._reader.place(member.at),
                f"GE knows no key {member.key!r} here.",
                f"The keys are {', '.join(keys)}.",
            )
        return member.key in keys

    def _is_object(self, node: Node, name: str) -> bool:
        if not isinstance(node.value, tuple):
            self._refuse(node, f"{name} is an object, not {kind_of(node)}.")
        return isinstance(node.value, tuple)

    def _refuse(self, node: Node, message: str) -> None:
        self._findings.refuse(self._reader.place(node.at), message)

    def _skip(self, at: int, message: str, hint: Optional[str] = None) -> None:
        self._findings.skip(self._reader.place(at), message, hint)


_GRAY_ALONE = "to-add of gray-list alone moves no operator."
_GRAY_HINT = "Give to-remove of the list that it is in."


def _refusal(operator: str, fields: List[str]) -> str:
    words = {field: f"{update} of {name}" for (name, update), field in _FIELDS.items()}
    said = " and ".join(words[field] for field in fields)
    return f"GE refuses {said} for {operator!r}."
