"""The JSON form of a fusion switch file.

Source: hicann/ge, fusion_config_parser.cc (CheckFusionConfigJsonFormat for what is refused;
ModifyFusionSwitchMap, ModifyFusionPriorityMap, ConstructExceptionalPassMap for what is used).
"""

from typing import Dict, List, Optional

from ascend_session.option_files.fusion_parts import GRAPH, LEVELS, UB, FusionParts
from ascend_session.option_files.json_text import Member, Node, Reader, kind_of
from ascend_session.option_files.lines import trimmed
from ascend_session.option_files.remarks import Findings

__all__ = ["FusionJson"]

_SWITCH, _PRIORITY, _KEPT = "Switch", "Priority", "ExceptionalPassOfO1Level"
_BLANK = "GE passes over {!r} for the blanks at its ends, and over all below it."


class FusionJson:
    """Walks through the JSON value and puts what it says into ``parts``."""

    def __init__(self, reader: Reader, findings: Findings, fix: bool, parts: FusionParts) -> None:
        self._reader = reader
        self._findings = findings
        self._fix = fix
        self._parts = parts

    def take(self, node: Node) -> None:
        """Reads the whole value."""
        if node.value is None:
            message = "GE takes null for no file at all: nothing is switched."
            self._skip(node.at, message)
        elif self._is_object(node, "The top level"):
            for member in self._members(node):
                self._part(member)

    def _part(self, member: Member) -> None:
        name = trimmed(member.key)
        used = self._exact(member)
        if name == _KEPT:
            self._kept(member.node, used)
        elif name not in (_SWITCH, _PRIORITY):
            self._refuse(
                member.at,
                f"GE knows no key {member.key!r} here.",
                f"The keys are {_SWITCH}, {_PRIORITY} and {_KEPT}.",
            )
        elif self._is_object(member.node, name):
            for below in self._members(member.node):
                self._fusion(name, below, used)

    def _fusion(self, part: str, member: Member, used: bool) -> None:
        kind = trimmed(member.key)
        if kind not in (GRAPH, UB):
            self._refuse(
                member.at,
                f"GE knows no key {member.key!r} below {part}.",
                f"The keys are {GRAPH} and {UB}.",
            )
            return
        used = self._exact(member) and used
        if not self._is_object(member.node, kind):
            return
        if part == _SWITCH:
            for below in self._members(member.node):
                self._switch(kind, below, used)
            return
        seen: Dict[str, int] = {}
        for level in self._members(member.node):
            self._level(kind, level, seen, used)

    def _switch(self, kind: str, member: Member, used: bool) -> None:
        value = member.node.value
        name = trimmed(member.key) if self._fix else member.key
        if not isinstance(value, str) or trimmed(value) not in ("on", "off"):
            shown = repr(value) if isinstance(value, str) else kind_of(member.node)
            hint = 'Write "on" or "off".'
            self._refuse(member.node.at, f"The switch of {member.key!r} is {shown}.", hint)
            return
        if not used:
            return
        if not name:
            self._skip(member.at, "GE skips this switch: it names no pass.")
            return
        if trimmed(name) != name:
            self._skip(member.at, f"No pass is called {name!r}, with blanks at its ends.")
            return
        on = (trimmed(value) if self._fix else value) == "on"
        if value == "on" or on or trimmed(value) == "off":
            self._parts.switches[kind][name] = on
        else:
            message = f"GE takes {value!r} for off: it is legal, but not equal to 'on'."
            self._skip(member.node.at, message, 'Write "on" without blanks.')
            self._parts.switches[kind][name] = False

    def _level(self, kind: str, member: Member, seen: Dict[str, int], used: bool) -> None:
        level = trimmed(member.key)
        if level not in LEVELS:
            hint = f"The levels are {', '.join(LEVELS)}."
            self._refuse(member.at, f"GE knows no level {member.key!r}.", hint)
        elif self._is_object(member.node, level):
            for below in self._members(member.node):
                self._priority(kind, level, below, seen, used)

    def _priority(
        self, kind: str, level: str, member: Member, seen: Dict[str, int], used: bool
    ) -> None:
        name = trimmed(member.key)
        if name in seen:
            line = self._reader.place(seen[name])[0]
            self._refuse(member.at, f"{name!r} has a priority in line {line} already.")
        seen.setdefault(name, member.at)
        priority = _whole(member.node.value)
        if priority is None or priority not in LEVELS[level]:
            span = LEVELS[level]
            self._refuse(
                member.node.at,
                f"The priority of {name!r} is not within {span[0]} to {span[-1]}, as {level} asks.",
                f'Write it as text, "{span[0]}" for example.',
            )
        elif used and name:
            self._parts.priorities[kind].setdefault(name, priority)
        elif used:
            self._skip(member.at, "This priority names no pass.")

    def _kept(self, node: Node, used: bool) -> None:
        if not isinstance(node.value, list):
            self._refuse(node.at, f"{_KEPT} is an array, not {kind_of(node)}.")
            return
        for one in node.value if used else ():
            if not isinstance(one.value, str):
                self._refuse(one.at, f"A pass is text, not {kind_of(one)}.")
            elif not one.value or trimmed(one.value) != one.value:
                self._skip(one.at, f"No pass is called {one.value!r}.")
            else:
                self._parts.kept.append(one.value)

    def _exact(self, member: Member) -> bool:
        """Whether GE uses what stands under the key, which it checks in any case."""
        exact = self._fix or trimmed(member.key) == member.key
        if not exact:
            self._skip(member.at, _BLANK.format(member.key))
        return exact

    def _members(self, node: Node) -> List[Member]:
        return list(self._reader.members(node).values())

    def _is_object(self, node: Node, name: str) -> bool:
        if not isinstance(node.value, tuple):
            self._refuse(node.at, f"{name} is an object, not {kind_of(node)}.")
        return isinstance(node.value, tuple)

    def _refuse(self, at: int, message: str, hint: Optional[str] = None) -> None:
        self._findings.refuse(self._reader.place(at), message, hint)

    def _skip(self, at: int, message: str, hint: Optional[str] = None) -> None:
        self._findings.skip(self._reader.place(at), message, hint)


def _whole(value: object) -> Optional[int]:
    """The number that text writes in ASCII digits; None if it is none, or too large for C's int."""
    said = trimmed(value) if isinstance(value, str) else ""
    if not said or len(said.lstrip("0")) > 4 or any(not "0" <= digit <= "9" for digit in said):
        return None
    return int(said)
