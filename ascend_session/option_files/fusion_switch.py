"""fusion_switch_file: which fusion passes run.

GE looks at keys and values without the blanks at their ends when it checks the file, and with them
when it uses it: ``" on "`` is legal and means off. There are two forms: JSON, and the older one
with ``Pass:on`` or ``Pass:off`` on each line, which the newer framework of fusion passes gives up
with a warning.

Source: hicann/ge, fusion_config_parser.cc (CheckFusionConfigJsonFormat for what is refused;
ModifyFusionSwitchMap, ModifyFusionPriorityMap, ConstructExceptionalPassMap for what is used;
JudgePriority for the limits of priorities; LoadOldFormatFusionSwitchFile for the older form), and
fusion_utils.cc (ParseFusionSwitchFile).
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.option_files.base import Frozen, OptionFile, check_text_of, unusable
from ascend_session.option_files.json_text import Member, Node, NotJsonError, Reader, kind_of
from ascend_session.option_files.remarks import FileFindings
from ascend_session.option_files.source import (
    BOM,
    Kind,
    Source,
    lines_of,
    shortened,
    strange_bytes,
    trimmed,
)

ALL = "ALL"
GRAPH = "GraphFusion"
UB = "UBFusion"
LEVELS = {"Top": range(1000), "Main": range(1000, 2000), "Down": range(2000, 3000)}


class FusionParts:
    """Collects what a file says.

    Attributes:
        switches: ``{GRAPH or UB: {pass: whether it runs}}``.
        priorities: ``{GRAPH or UB: {pass: priority}}``.
        kept: Passes that run at O1 all the same.
    """

    def __init__(self) -> None:
        self.switches: Dict[str, Dict[str, bool]] = {GRAPH: {}, UB: {}}
        self.priorities: Dict[str, Dict[str, int]] = {GRAPH: {}, UB: {}}
        self.kept: List[str] = []


def level_of(priority: int) -> str:
    """The level that a priority belongs to; it must be in one."""
    return next(level for level, span in LEVELS.items() if priority in span)


_OLD = (
    "This is the older form, Pass:on. GE's newer framework of fusion passes reads JSON only, so "
    "that none of its passes is switched by this file."
)


def read_lines(text: str, findings: FileFindings, fix: bool, parts: FusionParts) -> None:
    """Reads all lines into ``parts``; each counts for graph fusion and for UB fusion."""
    numbers: Dict[str, int] = {}
    findings.skip((1, 1), _OLD, "Write JSON, as fixed() and `config check-file --fix` do.")
    for number, line in enumerate(lines_of(text), 1):
        if fix:
            line = trimmed(line[1:] if line.startswith(BOM) else line)
            line = "" if line.startswith(("#", "//")) else line
        if findings.many:
            break
        if line:
            _take(line, number, findings, numbers, parts)


def _take(
    line: str, number: int, findings: FileFindings, numbers: Dict[str, int], parts: FusionParts
) -> None:
    name, colon, value = line.partition(":")
    name, value = trimmed(name), trimmed(value)
    place = (number, 1)
    if not colon:
        shown = "blank line" if not trimmed(line) else f"line: {shortened(line, 40)!r} has no ':'"
        hint = "Only a line with nothing at all in it is skipped; this one has blanks."
        said = "" if trimmed(line) else hint
        findings.refuse(place, f"GE refuses the whole file for this {shown}.", said or None)
    elif value not in ("on", "off"):
        column = len(line.partition(":")[0]) + 2
        message = f"The switch of {name!r} must be on or off, not {shortened(value, 40)!r}."
        findings.refuse((number, column), message)
    elif not name:
        findings.skip(place, "GE skips this line: it names no pass.")
    elif strange_bytes(name) is not None:
        message = f"No pass is called {shortened(name)!r}, which is not UTF-8 text."
        findings.skip(place, message)
    elif name in numbers:
        findings.refuse(place, f"The pass {name!r} stands in line {numbers[name]} already.")
    else:
        numbers[name] = number
        _remark(name, number, findings)
        for kind in (GRAPH, UB):
            parts.switches[kind][name] = value == "on"


def _remark(name: str, number: int, findings: FileFindings) -> None:
    if name.startswith(BOM):
        message = f"A byte order mark is part of the name for GE: {name!r}."
        findings.skip((number, 1), message, "Save without.")
    elif name.startswith(("#", "//")):
        findings.skip((number, 1), f"This is no comment, but the switch of a pass {name!r}.")


_SWITCH, _PRIORITY, _KEPT = "Switch", "Priority", "ExceptionalPassOfO1Level"
_BLANK = "GE passes over {!r} for the blanks at its ends, and over all below it."


class FusionJson:
    """Walks through the JSON value and puts what it says into ``parts``."""

    def __init__(
        self, reader: Reader, findings: FileFindings, fix: bool, parts: FusionParts
    ) -> None:
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


_EMPTY: Mapping[str, Any] = Frozen({})


class Switching(NamedTuple):
    """Whether a pass runs, as far as the file decides it; None if it does not. And why."""

    on: Optional[bool]
    why: str


@dataclass(frozen=True, repr=False)
class FusionSwitch(OptionFile):
    """Switches of fusion passes, for ``fusion_switch_file``; frozen.

    Attributes:
        graph: ``{pass: whether it runs}`` of graph fusion; the pass "ALL" stands for all others.
        ub: The same for UB fusion, which the 950 does not have.
        graph_priority: ``{pass: priority}``, 0 to 2999; smaller is earlier.
        ub_priority: The same for UB fusion.
        keep_at_o1: Passes that run although ``oo_level="O1"`` closes all.

    Raises:
        ConfigError: For what no file can say.
    """

    graph: Mapping[str, bool] = _EMPTY
    ub: Mapping[str, bool] = _EMPTY
    graph_priority: Mapping[str, int] = _EMPTY
    ub_priority: Mapping[str, int] = _EMPTY
    keep_at_o1: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "fusion_switch_file"
    NAME: ClassVar[str] = "fusion_switch.cfg"
    KIND: ClassVar[Kind] = Kind("a fusion switch file")

    def __post_init__(self) -> None:
        for field, kind in (
            ("graph", bool),
            ("ub", bool),
            ("graph_priority", int),
            ("ub_priority", int),
        ):
            given = getattr(self, field)
            if not isinstance(given, Mapping):
                raise unusable(self.OPTION, f"{field} is a mapping of passes, not {given!r}.")
            for name, value in given.items():
                _check_pass(name)
                _check_value(field, name, value, kind)
            object.__setattr__(self, field, Frozen(given))
        if isinstance(self.keep_at_o1, (str, bytes)):
            raise unusable(self.OPTION, "keep_at_o1 is a list of passes.")
        for name in self.keep_at_o1:
            _check_pass(name)
        object.__setattr__(self, "keep_at_o1", tuple(dict.fromkeys(self.keep_at_o1)))

    @classmethod
    def all_off(cls) -> "FusionSwitch":
        """The documented file that closes every pass which may be closed."""
        return cls({ALL: False}, {ALL: False})

    def set(self, name: str, on: bool, *, ub: bool = False) -> "FusionSwitch":
        """The same with another switch for one pass of graph fusion, or of UB fusion if ``ub``."""
        graph = self.graph if ub else {**self.graph, name: on}
        switches = {**self.ub, name: on} if ub else self.ub
        return FusionSwitch(graph, switches, self.graph_priority, self.ub_priority, self.keep_at_o1)

    def switch_of(self, name: str, *, ub: bool = False) -> Switching:
        """Whether a pass runs, and why."""
        switches = self.ub if ub else self.graph
        kept = "A pass that must not be closed runs all the same" if switches else ""
        if name in switches:
            on = bool(switches[name])
            return Switching(on, f"The file names it.{'' if on else f' {kept}.'}")
        if ALL in switches:
            on = bool(switches[ALL])
            named = f"{ALL} stands for it, unless the toolkit's fusion_config.json names it."
            return Switching(on, f"{named}{'' if on else f' {kept}.'}")
        return Switching(None, "The file does not name it: the toolkit decides, which has it on.")

    def text(self) -> str:
        """JSON, whatever form was read: the older text form cannot tell graph from UB fusion."""
        made: Dict[str, Any] = {}
        for kind, switches in ((GRAPH, self.graph), (UB, self.ub)):
            if switches:
                words = {name: "on" if on else "off" for name, on in switches.items()}
                made.setdefault("Switch", {})[kind] = words
        for kind, priorities in ((GRAPH, self.graph_priority), (UB, self.ub_priority)):
            if priorities:
                made.setdefault("Priority", {})[kind] = _levels(priorities)
        if self.keep_at_o1:
            made["ExceptionalPassOfO1Level"] = list(self.keep_at_o1)
        return json.dumps(made, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        parts = FusionParts()
        if not trimmed(source.text):
            findings.refuse((1, 1), "The file is empty.")
        else:
            _read(source, findings, fix, parts)
        return lambda: cls(
            parts.switches[GRAPH],
            parts.switches[UB],
            parts.priorities[GRAPH],
            parts.priorities[UB],
            tuple(parts.kept),
        )


def _read(source: Source, findings: FileFindings, fix: bool, parts: FusionParts) -> None:
    """JSON, or lines if it is none; a fault in what begins with a bracket is one of its JSON."""
    reader = Reader(source, findings, fix)
    try:
        node = reader.try_value()
    except NotJsonError as error:
        if _is_meant_as_json(source.text) and not _has_lines(source.text):
            findings.refuse(reader.place(error.at), error.message, error.hint)
        else:
            read_lines(source.text, findings, fix, parts)
        return
    FusionJson(reader, findings, fix, parts).take(node)


def _is_meant_as_json(text: str) -> bool:
    return trimmed(text.lstrip(BOM))[:1] in ("{", "[")


def _has_lines(text: str) -> bool:
    """Whether GE takes the text in the older form, whatever is meant."""
    tried = FileFindings()
    read_lines(text, tried, False, FusionParts())
    return not tried.refused


def _levels(priorities: Mapping[str, int]) -> Dict[str, Dict[str, str]]:
    made: Dict[str, Dict[str, str]] = {}
    for name, priority in priorities.items():
        made.setdefault(level_of(priority), {})[name] = str(priority)
    return made


def _check_pass(name: object) -> None:
    if not isinstance(name, str) or not name or trimmed(name) != name:
        raise unusable(
            FusionSwitch.OPTION, f"{name!r} is no name of a pass: text without blanks at its ends."
        )
    check_text_of(FusionSwitch.OPTION, repr(name), name, strict=True)


def _check_value(field: str, name: str, value: object, kind: type) -> None:
    if type(value) is not kind:
        wanted = "True or False" if kind is bool else "a whole number"
        raise unusable(FusionSwitch.OPTION, f"{field}: {name} needs {wanted}, not {value!r}.")
    if kind is int and not any(value in span for span in LEVELS.values()):
        raise unusable(FusionSwitch.OPTION, f"{field}: {name} has {value}; 0 to 2999 may stand.")
