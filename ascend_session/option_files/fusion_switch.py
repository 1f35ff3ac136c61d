"""fusion_switch_file: which fusion passes run.

GE strips values when it checks the file, but not when it uses them: ``" on "`` is legal and means
off. If one of GE's own keys has blanks at its ends, GE looks up the stripped key: it refuses the
file if there is none, and otherwise reads that one instead. There are two formats: JSON, and the
older one with ``Pass:on`` or ``Pass:off`` in each line, which the newer framework of fusion passes
ignores with a warning.

Source: hicann/ge, fusion_config_parser.cc (CheckFusionConfigJsonFormat for what is refused;
ModifyFusionSwitchMap, ModifyFusionPriorityMap, ConstructExceptionalPassMap for what is used;
JudgePriority for the limits of priorities; LoadOldFormatFusionSwitchFile for the older form), and
fusion_utils.cc (ParseFusionSwitchFile).
"""

import functools
import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Iterator, List, Mapping, Tuple

from ascend_session.findings import Place
from ascend_session.jsonfile import BOM, JsonError, JsonMember, Node
from ascend_session.option_files.base import OptionFile, mapping_field
from ascend_session.option_files.source_file import SourceFile, trim
from ascend_session.text import find_stray_byte, shorten

_ALL = "ALL"
_FIELDS = {"GraphFusion": "graph", "UBFusion": "ub"}
_SWITCH, _PRIORITY, _KEPT = "Switch", "Priority", "ExceptionalPassOfO1Level"
_PARTS = (_SWITCH, _PRIORITY, _KEPT)
_LEVELS = {"Top": range(1000), "Main": range(1000, 2000), "Down": range(2000, 3000)}
_OLD_FORM = (
    "This is the older form, Pass:on. GE's newer framework of fusion passes reads JSON only, so "
    "this file switches none of its passes."
)


@dataclass(frozen=True, repr=False)
class FusionSwitch(OptionFile):
    """Switches of fusion passes, for ``fusion_switch_file``; frozen.

    Attributes:
        graph: ``{pass: whether it runs}`` for graph fusion; "ALL" stands for all other passes.
        ub: The same for UB fusion, which the 950 does not have.
        graph_priority: ``{pass: priority}``, 0 to 2999; passes with smaller numbers run earlier.
        ub_priority: The same for UB fusion.
        keep_at_o1: Passes that run although ``oo_level="O1"`` switches all off.

    Raises:
        ConfigError: For names and values that cannot be written in such a file.
    """

    graph: Mapping[str, bool] = mapping_field()
    ub: Mapping[str, bool] = mapping_field()
    graph_priority: Mapping[str, int] = mapping_field()
    ub_priority: Mapping[str, int] = mapping_field()
    keep_at_o1: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "fusion_switch_file"
    NAME: ClassVar[str] = "fusion_switch.cfg"
    WHAT: ClassVar[str] = "a fusion switch file"

    def __post_init__(self) -> None:
        for field in ("graph", "ub", "graph_priority", "ub_priority"):
            self._copy_mapping(field, "passes", functools.partial(_check_entry, field))
        self._freeze_words("keep_at_o1", "passes", _check_pass)

    @classmethod
    def all_off(cls) -> "FusionSwitch":
        """Make the documented file that switches off every pass that may be switched off."""
        return cls({_ALL: False}, {_ALL: False})

    def set(self, name: str, on: bool, *, ub: bool = False) -> "FusionSwitch":
        """Return a copy with one pass of graph fusion (UB fusion if ``ub``) switched on or off."""
        graph = self.graph if ub else {**self.graph, name: on}
        switches = {**self.ub, name: on} if ub else self.ub
        return FusionSwitch(graph, switches, self.graph_priority, self.ub_priority, self.keep_at_o1)

    def text(self) -> str:
        """Format JSON, even if the older format was read, which does not tell graph from UB."""
        content: Dict[str, Any] = {}
        for kind, field in _FIELDS.items():
            words = {name: "on" if on else "off" for name, on in getattr(self, field).items()}
            if words:
                content.setdefault(_SWITCH, {})[kind] = words
        for kind, field in _FIELDS.items():
            for name, priority in getattr(self, f"{field}_priority").items():
                level = next(level for level, span in _LEVELS.items() if priority in span)
                levels = content.setdefault(_PRIORITY, {}).setdefault(kind, {})
                levels.setdefault(level, {})[name] = str(priority)
        if self.keep_at_o1:
            content[_KEPT] = list(self.keep_at_o1)
        return json.dumps(content, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        if not trim(source.text):
            source.refuse(Place(1, 1), "The file is empty.")
            return {}
        try:
            node = source.try_json()
        except JsonError as error:
            # GE reads a text that is not JSON as the older format, but it may be meant as JSON.
            begins_as_json = trim(source.text.lstrip(BOM))[:1] in ("{", "[")
            if begins_as_json and not _is_older_form(source.text):
                source.refuse_json(error)
                return {}
            return _read_lines(source)
        return _read_json(source, node)


def _is_older_form(text: str) -> bool:
    trial = SourceFile("", text)
    _read_lines(trial)
    return not trial.errors()


def _read_lines(source: SourceFile) -> Dict[str, Any]:
    """Read the older format, whose lines count for graph fusion and for UB fusion."""
    switches: Dict[str, bool] = {}
    first_lines: Dict[str, int] = {}
    hint = 'Write JSON: {"Switch": {"GraphFusion": {"PASS": "on"}, "UBFusion": {"PASS": "on"}}}.'
    source.skip(Place(1, 1), _OLD_FORM, hint)
    for place, line in source.lines():
        if source.is_hopeless:
            break
        if not line:
            continue
        name, colon, value = line.partition(":")
        column = len(name) + 2
        name, value = trim(name), trim(value)
        if not colon and not trim(line):
            hint = "Only a line with nothing at all in it is skipped; this one has blanks."
            source.refuse(place, "GE refuses the whole file for this blank line.", hint)
        elif not colon:
            quoted = shorten(line, 40)
            message = f"GE refuses the whole file for this line: {quoted!r} has no ':'."
            source.refuse(place, message)
        elif value not in ("on", "off"):
            message = f"The switch of {name!r} must be on or off, not {shorten(value, 40)!r}."
            source.refuse(place._replace(column=column), message)
        elif not name:
            source.skip(place, "GE skips this line: it names no pass.")
        elif find_stray_byte(name) is not None:
            message = f"No pass is called {shorten(name)!r}, which is not UTF-8 text."
            source.skip(place, message)
        elif name in first_lines:
            message = f"The pass {name!r} is already in line {first_lines[name]}."
            source.refuse(place, message)
        else:
            first_lines[name] = place.line
            switches[name] = value == "on"
            if name.startswith(BOM):
                message = f"GE reads the byte order mark as part of the name: {name!r}."
                source.skip(place, message, "Save the file without it.")
            elif name.startswith(("#", "//")):
                source.skip(place, f"This is not a comment, but the switch of a pass {name!r}.")
    return {"graph": switches, "ub": switches}


def _read_json(source: SourceFile, node: Node) -> Dict[str, Any]:
    """Read the JSON format; see the module for what GE checks and what it uses."""
    fields: Dict[str, Any] = {"keep_at_o1": []}
    for field in _FIELDS.values():
        fields.update({field: {}, f"{field}_priority": {}})
    if node.value is None:
        message = "GE treats null as if the option were not set: no pass is switched."
        source.skip(node.at, message)
        return fields
    for member in _find_exact_members(source, node, "", _PARTS):
        part = trim(member.key)
        if part == _KEPT:
            _read_kept(source, member.node, fields["keep_at_o1"])
            continue
        for kind in _find_exact_members(source, member.node, part, tuple(_FIELDS)):
            _read_kind(source, part, kind, fields)
    return fields


def _read_kind(source: SourceFile, part: str, member: JsonMember, fields: Dict[str, Any]) -> None:
    kind = trim(member.key)
    if part == _SWITCH:
        for switch in source.list_members(member.node, kind):
            _read_switch(source, switch, fields[_FIELDS[kind]])
        return
    first_places: Dict[str, int] = {}
    for below in _find_exact_members(source, member.node, kind, tuple(_LEVELS)):
        level = trim(below.key)
        for priority in source.list_members(below.node, level):
            name = trim(priority.key)
            if name in first_places:
                line = source.place(first_places[name]).line
                source.refuse(priority.at, f"{name!r} has a priority in line {line} already.")
            first_places.setdefault(name, priority.at)
            _read_priority(source, level, priority, fields[f"{_FIELDS[kind]}_priority"])


def _read_switch(source: SourceFile, member: JsonMember, switches: Dict[str, bool]) -> None:
    value = member.node.value
    name = member.key
    if not isinstance(value, str) or trim(value) not in ("on", "off"):
        value_text = repr(value) if isinstance(value, str) else member.node.kind
        message = f"The switch of {member.key!r} is {value_text}."
        source.refuse(member.node.at, message, 'Write "on" or "off".')
    elif not name:
        source.skip(member.at, "GE skips this switch: it names no pass.")
    elif trim(name) != name:
        message = f"No pass is called {name!r}, with blanks at its ends."
        source.skip(member.at, message, f'Write "{trim(name)}".')
    else:
        switches[name] = value == "on"
        if trim(value) == "on" != value:
            message = f"GE reads {value!r} as off, since it is not exactly 'on'."
            source.skip(member.node.at, message, 'Write "on" without blanks.')


def _read_priority(
    source: SourceFile, level: str, member: JsonMember, priorities: Dict[str, int]
) -> None:
    name, value = trim(member.key), member.node.value
    digits = re.fullmatch("0*([0-9]{1,4})", trim(value)) if isinstance(value, str) else None
    span = _LEVELS[level]
    if digits is None or int(digits.group(1)) not in span:
        source.refuse(
            member.node.at,
            f"The priority of {name!r} is not within {span[0]} to {span[-1]}, as {level} asks.",
            f'Write it as text, "{span[0]}" for example.',
        )
    elif name:
        priorities.setdefault(name, int(digits.group(1)))
    else:
        source.skip(member.at, "This priority names no pass.")


def _read_kept(source: SourceFile, node: Node, kept: List[str]) -> None:
    for item in source.list_texts(node, _KEPT, "A pass"):
        if not item.value or trim(item.value) != item.value:
            source.skip(item.at, f"No pass is called {item.value!r}.")
        else:
            kept.append(item.value)


def _find_exact_members(
    source: SourceFile, node: Node, where: str, keys: Tuple[str, ...]
) -> Iterator[JsonMember]:
    """Yield the members of ``node`` whose keys GE reads, and add findings about the others.

    See the module about keys with blanks at their ends.
    """
    members = list(source.list_members(node, where, keys, trims=True))
    exact = {member.key for member in members}
    for member in members:
        name = trim(member.key)
        if name == member.key:
            yield member
        elif name in exact:
            message = f"GE looks at {name!r} in place of {member.key!r}, and ignores all below it."
            source.skip(member.at, message)
        else:
            message = (
                f"GE refuses the whole file for {member.key!r}: it looks for {name!r} and finds "
                "nothing."
            )
            source.refuse(member.at, message, f'Write "{name}" without blanks.')


def _check_pass(name: object) -> None:
    if not isinstance(name, str) or not name or trim(name) != name:
        message = f"{name!r} is not the name of a pass: text without blanks at its ends."
        raise FusionSwitch._unusable(message)
    FusionSwitch._check_writable(repr(name), name, strict=True)


def _check_entry(field: str, name: Any, value: Any) -> Any:
    """Return a switch or priority; raise ConfigError if it cannot be written."""
    _check_pass(name)
    is_priority = field.endswith("_priority")
    if type(value) is not (int if is_priority else bool):
        needed = "a whole number" if is_priority else "True or False"
        raise FusionSwitch._unusable(f"{field}: {name} needs {needed}, not {value!r}.")
    if is_priority and not any(value in span for span in _LEVELS.values()):
        raise FusionSwitch._unusable(f"{field}: {name} has {value}; it must be 0 to 2999.")
    return value
