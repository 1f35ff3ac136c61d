"""op_precision.ini: which implementation of an operator is compiled, by type or by node name.

Each source of modes puts its operators into one table, in which the first entry stays; nodes have a
table of their own, which is looked at first. Nothing in such a file is ever an error to GE: what it
does not know it skips, with a line in its log at most.

Source: hicann/ge, op_impl_mode_config_parser.cc (Initialize, GetOpImplMode,
GetOpPrecisonModeStrFromConfigFile); guides/facts/precision.md#implementation-modes; manual of ATC,
--op_select_implmode.
"""

import functools
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple

from ascend_session.errors import ConfigError
from ascend_session.files import load_file
from ascend_session.findings import Place
from ascend_session.jsonfile import BOM
from ascend_session.option_files.base import FrozenDict, OptionFile, PathLike
from ascend_session.option_files.source_file import SourceFile, split_lines, trim
from ascend_session.text import did_you_mean, shorten

# What GE's parser takes, each with its meaning; norm_class stands in the parser only.
MODES: Dict[str, str] = {
    "high_precision": "more exact on float16 input, by further iterations",
    "high_performance": "the fastest that does not hurt the accuracy of a network",
    "super_performance": "faster still, by another formula",
    "support_out_of_bound_index": "gather, scatter and segment operators check their indices",
    "keep_fp16": "float16 is kept inside the operator, at the cost of precision",
    "enable_float_32_execution": "computes in float32 (950, A3, A2)",
    "enable_hi_float_32_execution": "computes in HF32 (documented as not supported yet)",
    "norm_class": "known to GE's parser and to no manual",
}
# The sections
BY_TYPE, BY_NODE = "[ByOpType]", "[ByNodeName]"
_SECTIONS = {section.lower(): section for section in (BY_TYPE, BY_NODE)}
_OTHER_COMMENTS = (";", "//")


def implemented_modes(path: PathLike) -> Dict[str, Tuple[str, ...]]:
    """Read ``{operator type: its modes}`` of all_ops_impl_mode.ini; others have one mode only.

    Source: the vendor's build scripts, which read it as ``Type=mode,mode`` (hicann, gen_opcinfo).

    Raises:
        ConfigError: If the file cannot be read.
    """
    modes_by_type: Dict[str, Tuple[str, ...]] = {}
    content = load_file(os.fspath(path), "the toolkit's list of modes")
    for line in split_lines(content.decode("utf-8", "surrogateescape")):
        operator, equals, modes = line.partition("=")
        if equals and not line.startswith("#"):
            known = tuple(trim(mode) for mode in modes.split(",") if trim(mode))
            modes_by_type.setdefault(trim(operator), known)
    return modes_by_type


def _find_missing_mode(op_type: str, mode: str, implemented: Mapping[str, Any]) -> str:
    """Return why an operator does not have a mode; empty if it does."""
    if op_type not in implemented:
        return f"{op_type} has one implementation only and keeps it, whatever the mode."
    if mode not in implemented[op_type]:
        known = ", ".join(implemented[op_type])
        return f"{op_type} has no mode {mode} and keeps its default; it knows {known}."
    return ""


@functools.lru_cache(maxsize=1024)
def mode_hint(mode: str) -> str:
    """Return what to write instead of a mode that GE does not know."""
    near = did_you_mean(mode.lower(), MODES)
    return f"Write {near}." if near else f"The modes are {', '.join(MODES)}."


@dataclass(frozen=True, repr=False)
class OpPrecision(OptionFile):
    """The modes of operators, for ``op_precision_mode``; frozen.

    Attributes:
        by_type: ``{operator type: mode}``.
        by_node: ``{node name: mode}``; a node's own mode counts before that of its type.

    Raises:
        ConfigError: For a mode that GE does not know, which it would skip, and for a name that no
            line can hold.
    """

    by_type: Mapping[str, str] = FrozenDict({})
    by_node: Mapping[str, str] = FrozenDict({})

    OPTION: ClassVar[str] = "op_precision_mode"
    NAME: ClassVar[str] = "op_precision.ini"
    WHAT: ClassVar[str] = "an operator precision file"

    def __post_init__(self) -> None:
        for name in ("by_type", "by_node"):
            self._freeze_mapping(name, "modes", _check_entry)

    def set(self, operator: str, mode: str, *, node: bool = False) -> "OpPrecision":
        """Make a copy with another mode for one operator.

        Args:
            operator: Its type, or its node name if ``node``.
            mode: One of `MODES`.
            node: Whether ``operator`` is a node name.

        Raises:
            ConfigError: If GE does not know the mode, or no line can hold the name.
        """
        if node:
            return OpPrecision(self.by_type, {**self.by_node, operator: mode})
        return OpPrecision({**self.by_type, operator: mode}, self.by_node)

    def against(self, implemented: Mapping[str, Any]) -> Tuple[str, ...]:
        """List the modes that do nothing with an installed toolkit, in sentences, without nodes.

        Args:
            implemented: ``{operator type: modes}`` of its all_ops_impl_mode.ini.
        """
        items = self.by_type.items()
        return tuple(filter(None, (_find_missing_mode(*item, implemented) for item in items)))

    def text(self) -> str:
        """Write the lines of the file: types first, then nodes."""
        lines = [BY_TYPE, *map(_write_line, self.by_type, self.by_type.values())]
        if self.by_node:
            lines += [BY_NODE, *map(_write_line, self.by_node, self.by_node.values())]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        sections = _read_sections(source)
        return {"by_type": sections[BY_TYPE].modes, "by_node": sections[BY_NODE].modes}


@dataclass
class _Section:
    """The entries that count below a header, the line of each, and the last line there."""

    modes: Dict[str, str] = field(default_factory=dict)
    lines: Dict[str, int] = field(default_factory=dict)
    last_line: int = 0


def _read_sections(source: SourceFile) -> Dict[str, _Section]:
    sections = {BY_TYPE: _Section(), BY_NODE: _Section()}
    header = BY_TYPE
    for place, line in source.lines():
        if not trim(line) or line.startswith("#"):
            continue
        if source.fix and line.startswith(_OTHER_COMMENTS):
            continue
        name, equals, mode = map(trim, line.partition("="))
        if not equals:
            header = _read_header(source, place, trim(line), header)
        section = sections[header]
        section.last_line = place.line
        if not equals:
            continue
        if source.fix and mode not in MODES:
            mode = trim(mode.partition("#")[0])
        column = line.index(mode, line.index("=") + 1) + 1 if mode else 1
        mode_place = place._replace(column=column)
        if not name or not mode:
            what = "operator" if not name else "mode"
            source.skip(mode_place, f"GE skips this line: it names no {what}.")
        elif mode not in MODES:
            _note_unknown_mode(source, name, mode, mode_place)
        elif name in section.modes:
            first = section.lines[name]
            message = f"GE skips this line: {name} already has a mode in line {first}."
            source.skip(place, message)
        else:
            _note_strange_name(source, place, header, name)
            section.modes[name] = mode
            section.lines[name] = place.line
    return sections


def _read_header(source: SourceFile, place: Place, header: str, section: str) -> str:
    """Return the section that counts from a line without '=' on."""
    if header in (BY_TYPE, BY_NODE):
        return header
    meant = _SECTIONS.get(header.strip(BOM).lower())
    if source.fix and meant is not None:
        section = meant
    here = f"so that the lines below still count as {section}."
    hint: Optional[str] = None
    if header.startswith(BOM):
        message, hint = f"A byte order mark hides this header from GE, {here}", "Save without."
    elif meant is not None:
        message, hint = f"GE does not know {header!r} as a header, {here}", f"Write {meant}."
    elif header.startswith("["):
        message = f"GE skips {shorten(header)!r}: there is no such section, {here}"
    else:
        message, hint = f"GE skips {shorten(header)!r}: it has no '='.", "Write OP=MODE."
    source.skip(place, message, hint)
    return section


def _note_unknown_mode(source: SourceFile, name: str, mode: str, place: Place) -> None:
    """Note a mode that GE does not know: with a line in its log it goes on without."""
    message = f"GE skips this line: it has no mode {shorten(mode)!r}."
    if name.startswith(_OTHER_COMMENTS):
        source.skip(Place(place.line, 1), message, "A comment begins with # in column 1.")
    elif "#" in mode:
        hint = "Put the comment on a line of its own, with # in column 1."
        source.skip(place, message, hint)
    else:
        source.skip(place, message, functools.partial(mode_hint, mode))


def _note_strange_name(source: SourceFile, place: Place, section: str, name: str) -> None:
    if name.startswith(BOM):
        source.skip(place, "A byte order mark is part of this name for GE.", "Save without.")
    elif name.startswith(("#", *_OTHER_COMMENTS)):
        message = f"GE reads this as an operator named {shorten(name)!r}, not as a comment."
        source.skip(place, message, "A comment begins with # in column 1.")
    elif section == BY_TYPE and "/" in name:
        message = f"{shorten(name)!r} looks like the name of a node, but is listed as a type."
        source.skip(place, message, f"Write it below {BY_NODE}.")


def _check_entry(name: Any, mode: Any) -> str:
    """Return the mode as it is, if a line can hold both."""
    if not isinstance(mode, str) or mode not in MODES:
        message = f"{name!r}: {mode!r} is not a mode of GE."
        raise OpPrecision._unusable(message, mode_hint(str(mode)))
    if not isinstance(name, str) or not name or trim(name) != name or set(name) & set("=\n"):
        raise OpPrecision._unusable(
            f"{name!r} cannot stand in {OpPrecision.NAME}: a name is one line without '=' and "
            "without blanks at its ends."
        )
    OpPrecision._check_writable(repr(name), name)
    return mode


def _write_line(name: str, mode: str) -> str:
    return f"{' ' if name.startswith('#') else ''}{name}={mode}"


def with_mode(text: str, operator: str, mode: str, *, node: bool = False) -> str:
    """Change the mode of one operator in the content of a file.

    The line that counts for it is changed; if there is none, a line is added at the end of its
    section. Comments, and lines that GE skips, stay.

    Args:
        text: The content of the file.
        operator: Its type, or its node name if ``node``.
        mode: One of `MODES`.
        node: Whether ``operator`` is a node name.

    Raises:
        ConfigError: If GE does not know the mode, or no line can hold the name.
    """
    expected = OpPrecision.parse(text).set(operator, mode, node=node)
    header = BY_NODE if node else BY_TYPE
    section = _read_sections(SourceFile("", text))[header]
    lines = text.split("\n")
    carriage_return = "\r" if lines[0].endswith("\r") else ""
    line = _write_line(operator, mode) + carriage_return
    is_empty = not trim(text)
    if operator in section.lines:
        lines[section.lines[operator] - 1] = line
    elif section.last_line or (is_empty and not node):  # types need no header in front of them
        lines.insert(section.last_line, line)
    else:
        kept = lines if lines[-1] else lines[:-1]
        lines = [*kept, header + carriage_return, line, ""]
    changed = "\n".join(lines)
    if OpPrecision.parse(changed) != expected:
        raise ConfigError(f"The mode of {operator!r} cannot be changed in this file by itself.")
    return changed
