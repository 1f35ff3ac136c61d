"""op_precision.ini: which implementation of an operator is compiled, by type or by node name.

GE collects the modes of types in one table, in which the first entry counts, and those of nodes in
another, which takes precedence. It never refuses such a file: it skips what it does not know, with
at most a line in its log.

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
from ascend_session.option_files.base import OptionFile, PathLike, mapping_field
from ascend_session.option_files.source_file import SourceFile, split_lines, trim
from ascend_session.text import did_you_mean, shorten

# The modes that GE's parser accepts, and their meaning
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
BY_TYPE, BY_NODE = "[ByOpType]", "[ByNodeName]"
_SECTIONS = {section.lower(): section for section in (BY_TYPE, BY_NODE)}
_OTHER_COMMENTS = (";", "//")


def read_implemented_modes(path: PathLike) -> Dict[str, Tuple[str, ...]]:
    """Read ``{operator type: modes}`` from all_ops_impl_mode.ini; other types have one mode only.

    Source: the vendor's build scripts, which read it as ``Type=mode,mode`` (hicann, gen_opcinfo).

    Raises:
        ConfigError: If the file cannot be read.
    """
    modes_by_type: Dict[str, Tuple[str, ...]] = {}
    content = load_file(os.fspath(path), "the toolkit's list of modes")
    for line in split_lines(content.decode("utf-8", "surrogateescape")):
        operator, equals, modes = line.partition("=")
        if equals and not line.startswith("#"):
            modes_of_type = tuple(trim(mode) for mode in modes.split(",") if trim(mode))
            modes_by_type.setdefault(trim(operator), modes_of_type)
    return modes_by_type


def _find_missing_mode(op_type: str, mode: str, implemented: Mapping[str, Any]) -> str:
    """Return a sentence if an operator does not have a mode; empty if it does."""
    if op_type not in implemented:
        return f"{op_type} has one implementation only and keeps it, whatever the mode."
    if mode not in implemented[op_type]:
        names = ", ".join(implemented[op_type])
        return f"{op_type} has no mode {mode} and keeps its default; it knows {names}."
    return ""


def mode_hint(mode: str) -> str:
    """Return a hint for a mode that GE does not know."""
    near = did_you_mean(mode.lower(), MODES)
    return f"Write {near}." if near else f"The modes are {', '.join(MODES)}."


@dataclass(frozen=True, repr=False)
class OpPrecision(OptionFile):
    """The modes of operators, for ``op_precision_mode``; frozen.

    Attributes:
        by_type: ``{operator type: mode}``, each mode one of `MODES`.
        by_node: ``{node name: mode}``; takes precedence over the type.

    Raises:
        ConfigError: For a mode that GE does not know and would skip, or a name that cannot be
            written in a line.
    """

    by_type: Mapping[str, str] = mapping_field()
    by_node: Mapping[str, str] = mapping_field()

    OPTION: ClassVar[str] = "op_precision_mode"
    NAME: ClassVar[str] = "op_precision.ini"
    WHAT: ClassVar[str] = "an operator precision file"

    def __post_init__(self) -> None:
        for name in ("by_type", "by_node"):
            self._copy_mapping(name, "modes", _check_entry)

    def set(self, operator: str, mode: str, *, node: bool = False) -> "OpPrecision":
        """Return a copy with another mode for one operator.

        Args:
            operator: Its type, or its node name if ``node``.
            mode: One of `MODES`.
            node: Whether ``operator`` is a node name.

        Raises:
            ConfigError: If GE does not know the mode, or the name cannot be written in a line.
        """
        if node:
            return OpPrecision(self.by_type, {**self.by_node, operator: mode})
        return OpPrecision({**self.by_type, operator: mode}, self.by_node)

    def against(self, implemented: Mapping[str, Any]) -> Tuple[str, ...]:
        """Return a sentence for each mode in `by_type` that a toolkit does not implement.

        Args:
            implemented: ``{operator type: modes}``, from `read_implemented_modes`.
        """
        items = self.by_type.items()
        return tuple(filter(None, (_find_missing_mode(*item, implemented) for item in items)))

    def text(self) -> str:
        """Format the lines of the file: types first, then nodes."""
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
    """The entries of a section that count, the line of each, and the section's last line."""

    modes: Dict[str, str] = field(default_factory=dict)
    lines: Dict[str, int] = field(default_factory=dict)
    last_line: int = 0


def _read_sections(source: SourceFile) -> Dict[str, _Section]:
    sections = {BY_TYPE: _Section(), BY_NODE: _Section()}
    header = BY_TYPE
    for place, line in source.lines():
        if not trim(line) or line.startswith("#"):
            continue
        name, equals, mode = map(trim, line.partition("="))
        if not equals:
            header = _read_header(source, place, trim(line), header)
        section = sections[header]
        section.last_line = place.line
        if not equals:
            continue
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
    """Return the section to which the lines after a line without '=' belong."""
    if header in (BY_TYPE, BY_NODE):
        return header
    meant = _SECTIONS.get(header.strip(BOM).lower())
    here = f"so that the lines below still count as {section}."
    hint: Optional[str] = None
    if header.startswith(BOM):
        message = f"A byte order mark hides this header from GE, {here}"
        hint = "Save the file without it."
    elif meant is not None:
        message, hint = f"GE does not know {header!r} as a header, {here}", f"Write {meant}."
    elif header.startswith("["):
        message = f"GE skips {shorten(header)!r}: there is no such section, {here}"
    else:
        message, hint = f"GE skips {shorten(header)!r}: it has no '='.", "Write OP=MODE."
    source.skip(place, message, hint)
    return section


def _note_unknown_mode(source: SourceFile, name: str, mode: str, place: Place) -> None:
    """Warn about a mode that GE does not know and skips."""
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
        message = "GE reads the byte order mark as part of this name."
        source.skip(place, message, "Save the file without it.")
    elif name.startswith(("#", *_OTHER_COMMENTS)):
        message = f"GE reads this as an operator named {shorten(name)!r}, not as a comment."
        source.skip(place, message, "A comment begins with # in column 1.")
    elif section == BY_TYPE and "/" in name:
        message = f"{shorten(name)!r} looks like the name of a node, but is listed as a type."
        source.skip(place, message, f"Write it below {BY_NODE}.")


def _check_entry(name: Any, mode: Any) -> str:
    """Return the mode; raise ConfigError if name or mode cannot be written in a line."""
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


def replace_mode(text: str, operator: str, mode: str, *, node: bool = False) -> str:
    """Return the content of a file with another mode for one operator.

    Replaces the line that counts for it, or adds one at the end of its section. Comments, and lines
    that GE skips, are kept.

    Args:
        text: The content of the file.
        operator: Its type, or its node name if ``node``.
        mode: One of `MODES`.
        node: Whether ``operator`` is a node name.

    Raises:
        ConfigError: If GE does not know the mode, or the name cannot be written in a line.
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
