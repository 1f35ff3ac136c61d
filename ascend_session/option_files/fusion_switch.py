"""fusion_switch_file: which fusion passes run.

Source: hicann/ge, fusion_config_parser.cc. GE looks at keys and values without the blanks at their
ends when it checks the file, and with them when it uses it: ``" on "`` is legal and means off.
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Mapping, NamedTuple, Optional, Tuple

from ascend_session.option_files.base import Frozen, OptionFile, check_text_of, unusable
from ascend_session.option_files.fusion_json import FusionJson
from ascend_session.option_files.fusion_lines import read_lines
from ascend_session.option_files.fusion_parts import ALL, GRAPH, LEVELS, UB, FusionParts, level_of
from ascend_session.option_files.json_text import NotJsonError, Reader
from ascend_session.option_files.lines import BOM, trimmed
from ascend_session.option_files.remarks import Findings
from ascend_session.option_files.source import Kind, Source

__all__ = ["FusionSwitch", "Switching"]

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
    def _understood(cls, source: Source, findings: Findings, fix: bool) -> Any:
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


def _read(source: Source, findings: Findings, fix: bool, parts: FusionParts) -> None:
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
    tried = Findings()
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
